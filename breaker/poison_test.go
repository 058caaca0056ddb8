package breaker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestErrorCountsOncePerPod(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{ConsecutiveFailures: 2, FailureRatio: 0.5, RatioMinimumCalls: 4}

	onFakeTime(t, "one pod cannot open the breaker alone", cfg, func(b *bench) {
		for range 100 {
			b.call("poison", breaker.OutcomeError)
		}
		b.wantState(breaker.StateClosed)
		b.call("other", breaker.OutcomeError)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "an error after a success counts again", cfg, func(b *bench) {
		b.call("a", breaker.OutcomeError)
		b.call("a", breaker.OutcomeSuccess)
		b.call("a", breaker.OutcomeError)
		b.call("b", breaker.OutcomeError)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "errors that are tied to no pod all count", cfg, func(b *bench) {
		b.call("", breaker.OutcomeError)
		b.call("", breaker.OutcomeError)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "a pod that succeeds at one thing and fails at another cannot open it alone", cfg, func(b *bench) {
		for range 100 {
			b.callAt("poison", "RunPodSandbox", breaker.OutcomeSuccess, 0)
			b.callAt("poison", "CreateContainer/main", breaker.OutcomeError, 0)
		}
		b.wantState(breaker.StateClosed)
		b.callAt("poison", "CreateContainer/main", breaker.OutcomeSuccess, 0)
		b.callAt("poison", "CreateContainer/main", breaker.OutcomeError, 0)
		b.callAt("other", "CreateContainer/side", breaker.OutcomeError, 0)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "the second error of a pod releases the probe without closing", cfg, func(b *bench) {
		b.call("a", breaker.OutcomeError)
		b.call("b", breaker.OutcomeError)
		time.Sleep(5 * time.Second)
		b.call("a", breaker.OutcomeError)
		b.wantState(breaker.StateHalfOpen)
		b.call("b", breaker.OutcomeError)
		b.wantState(breaker.StateHalfOpen)
		b.call("c", breaker.OutcomeError)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "an error that came too late to count leaves the next one countable", cfg, func(b *bench) {
		late := b.admit("a")
		late.Returned()
		b.HealthFailed()
		b.HealthOK()
		late.End(breaker.OutcomeError) // of the time before the opening
		b.call("a", breaker.OutcomeError)
		b.call("b", breaker.OutcomeError)
		b.wantState(breaker.StateOpen)
	})
}

// crash lets pod crash the plugin during a call and a new incarnation start.
func crash(b *bench, pod string) {
	b.t.Helper()
	b.admit(pod)
	b.Exited(pod)
	b.Started(false)
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{QuarantineAfter: 3, QuarantineDuration: 10 * time.Minute}

	onFakeTime(t, "a poison pod that crashes the plugin each time no longer reaches it", cfg, func(b *bench) {
		crashes := 0
		for range 100 { // the kubelet tries for ever: the sandbox works, the container crashes the plugin
			time.Sleep(time.Second)
			sandbox, reason := b.AdmitCall(breaker.Call{Pod: "poison", Work: "RunPodSandbox"})
			if reason != breaker.ReasonNone {
				continue
			}
			sandbox.End(breaker.OutcomeSuccess)
			sandbox.Returned()
			b.admitCall(breaker.Call{Pod: "poison", Work: "CreateContainer/main"})
			b.Exited("poison")
			b.Started(false)
			crashes++
		}
		if crashes != 3 {
			b.t.Errorf("the plugin crashed %d times, want 3", crashes)
		}
		b.wantRefused("poison", breaker.ReasonQuarantined)
		b.call("innocent", breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "a quarantine ends by itself and one more strike renews it", cfg, func(b *bench) {
		for range 3 {
			crash(b, "p")
		}
		time.Sleep(10*time.Minute - 1)
		b.wantRefused("p", breaker.ReasonQuarantined)
		time.Sleep(time.Nanosecond)
		crash(b, "p")
		b.wantRefused("p", breaker.ReasonQuarantined)
	})
	onFakeTime(t, "strikes are forgotten in the end", cfg, func(b *bench) {
		crash(b, "p")
		crash(b, "p")
		time.Sleep(40*time.Minute - 1)
		crash(b, "p")
		b.wantRefused("p", breaker.ReasonQuarantined)
		time.Sleep(40 * time.Minute)
		crash(b, "p")
		crash(b, "p")
		b.call("p", breaker.OutcomeSuccess)
	})

	for _, o := range breaker.Outcomes() {
		name := o.String() + " is no strike"
		strikes := o.Verdict() == breaker.VerdictBad && o != breaker.OutcomeUnavailable
		if strikes {
			name = o.String() + " is a strike"
		}
		onFakeTime(t, name, cfg, func(b *bench) {
			for range 3 {
				b.call("p", o)
			}
			if strikes {
				b.wantRefused("p", breaker.ReasonQuarantined)
			} else {
				b.call("p", breaker.OutcomeSuccess)
			}
		})
	}
	onFakeTime(t, "a timeout that becomes a hang and an exit is one strike", cfg, func(b *bench) {
		for i := range 3 {
			if q := b.quarantined(); q != nil {
				b.t.Fatalf("quarantined after %d hangs: %v", i, q)
			}
			ticket := b.admit("p")
			ticket.End(breaker.OutcomeTimeout)
			b.Hung("p")
			b.Exited("p")
			b.Started(false)
			ticket.Returned()
		}
		b.wantRefused("p", breaker.ReasonQuarantined)
	})
	onFakeTime(t, "a hang whose verdict comes after it is one strike", cfg, func(b *bench) {
		for range 2 {
			ticket := b.admit("p")
			b.Hung("p")
			ticket.End(breaker.OutcomeTimeout)
			b.Exited("p")
			b.Started(false)
		}
		b.call("p", breaker.OutcomeSuccess)
	})
	onFakeTime(t, "a success forgives failures of the same work but not a hang", cfg, func(b *bench) {
		for range 5 {
			b.callAt("p", "w", breaker.OutcomeTimeout, 0)
			b.callAt("p", "w", breaker.OutcomeTimeout, 0)
			b.callAt("p", "w", breaker.OutcomeSuccess, 0)
		}
		b.wantRefused("p", breaker.ReasonNone)
		b.Exited("")
		b.Started(false)
		for range 3 {
			ticket := b.admitCall(breaker.Call{Pod: "p", Work: "w"})
			ticket.End(breaker.OutcomeTimeout)
			b.Hung("p")
			b.Exited("p")
			b.Started(false)
			if b.quarantined() == nil {
				b.callAt("p", "w", breaker.OutcomeSuccess, 0)
			}
		}
		b.wantRefused("p", breaker.ReasonQuarantined)
	})
	onFakeTime(t, "a forgiven timeout that becomes a hang is one strike", breaker.Config{QuarantineAfter: 2}, func(b *bench) {
		other := b.admit("p")
		other.Returned()
		b.admit("p").End(breaker.OutcomeTimeout)
		other.End(breaker.OutcomeSuccess)
		b.Hung("p")
		b.Exited("p")
		b.Started(false)
		b.admit("p").End(breaker.OutcomeCanceled)
		if q := b.quarantined(); q != nil {
			b.t.Errorf("quarantined after one hang: %v", q)
		}
		b.Exited("p")
		b.Started(false)
		b.wantRefused("p", breaker.ReasonQuarantined)
	})
	onFakeTime(t, "a pod is blamed whatever the latest call was", breaker.Config{QuarantineAfter: 1}, func(b *bench) {
		b.call("q", breaker.OutcomeTimeout)
		b.Exited("p")
		if diff := cmp.Diff([]string{"p", "q"}, b.quarantined()); diff != "" {
			b.t.Errorf("quarantined (-want +got):\n%s", diff)
		}
	})
	onFakeTime(t, "an exit while the plugin did nothing blames no pod", cfg, func(b *bench) {
		for range 9 {
			b.call("p", breaker.OutcomeSuccess)
			b.Exited("")
			b.Started(false)
		}
		b.call("p", breaker.OutcomeSuccess)
	})
	onFakeTime(t, "a new version gives all pods a new chance and a restart does not", cfg, func(b *bench) {
		for range 3 {
			crash(b, "p")
		}
		b.Started(false)
		b.wantRefused("p", breaker.ReasonQuarantined)
		b.Started(true)
		if q := b.quarantined(); q != nil {
			b.t.Errorf("quarantined after a new version: %v", q)
		}
		crash(b, "p")
		crash(b, "p")
		b.call("p", breaker.OutcomeSuccess) // strikes went as well
	})
	onFakeTime(t, "an operator lifts one quarantine or all", cfg, func(b *bench) {
		for _, pod := range []string{"p", "q", "r"} {
			for range 3 {
				crash(b, pod)
			}
		}
		if diff := cmp.Diff([]string{"p", "q", "r"}, b.quarantined()); diff != "" {
			b.t.Errorf("quarantined (-want +got):\n%s", diff)
		}
		if n := b.Unquarantine("stranger"); n != 0 {
			b.t.Errorf("lifted %d quarantines of a pod without one", n)
		}
		if n := b.Unquarantine("p"); n != 1 {
			b.t.Errorf("lifted %d quarantines of p, want 1", n)
		}
		crash(b, "p") // from the beginning
		if diff := cmp.Diff([]string{"q", "r"}, b.quarantined()); diff != "" {
			b.t.Errorf("quarantined (-want +got):\n%s", diff)
		}
		if n := b.Unquarantine(""); n != 2 {
			b.t.Errorf("lifted %d quarantines, want 2", n)
		}
		b.call("q", breaker.OutcomeSuccess)
	})
	onFakeTime(t, "a quarantined pod uses up no probe", cfg, func(b *bench) {
		for range 3 {
			crash(b, "p")
		}
		b.HealthFailed()
		time.Sleep(time.Minute)
		b.wantRefused("p", breaker.ReasonQuarantined)
		b.wantState(breaker.StateOpen)
		b.call("q", breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "the snapshot names pod, end and strikes", cfg, func(b *bench) {
		for range 3 {
			crash(b, "p")
		}
		want := []breaker.QuarantinedPod{{Pod: "p", Until: time.Now().Add(10 * time.Minute), Strikes: 3}}
		if diff := cmp.Diff(want, b.Snapshot().Quarantined); diff != "" {
			b.t.Errorf("quarantined (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Minute)
		if q := b.Snapshot().Quarantined; q != nil {
			b.t.Errorf("quarantined after its end: %v", q)
		}
	})
	onFakeTime(t, "quarantine can be off", breaker.Config{}, func(b *bench) {
		for range 100 {
			crash(b, "p")
		}
		b.call("p", breaker.OutcomeSuccess)
	})
	onFakeTime(t, "a flood of failing pods pushes out the ones not heard of for longest", cfg, func(b *bench) {
		for _, pod := range []string{"gone", "retried"} {
			for range 3 {
				crash(b, pod)
			}
		}
		b.Reset()
		for i := range 5000 {
			b.call(fmt.Sprintf("flood-%d", i), breaker.OutcomeTimeout)
			if i%1000 == 0 {
				b.wantRefused("retried", breaker.ReasonQuarantined)
			}
		}
		if diff := cmp.Diff([]string{"retried"}, b.quarantined()); diff != "" {
			b.t.Errorf("quarantined (-want +got):\n%s", diff)
		}
	})
}
