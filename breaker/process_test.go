package breaker_test

import (
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestHang(t *testing.T) {
	t.Parallel()

	onFakeTime(t, "a plugin that hangs for ever on its first call ends with an open breaker and a new process",
		breaker.DefaultConfig(), func(b *bench) {
			first := b.admit("first")
			first.Sent()
			time.Sleep(500 * time.Millisecond)
			first.End(breaker.OutcomeTimeout)
			b.wantState(breaker.StateClosed)
			for range 100 {
				b.wantRefused("other", breaker.ReasonBusy) // one hang costs one timeout
			}
			time.Sleep(4500 * time.Millisecond)
			b.Hung("first")
			b.wantState(breaker.StateOpen)
			b.wantRefused("other", breaker.ReasonBreakerOpen)
			time.Sleep(10 * time.Millisecond)
			b.Exited("first")
			time.Sleep(time.Hour)
			b.wantRefused("other", breaker.ReasonBreakerOpen)
			b.Started(false)
			b.wantState(breaker.StateHalfOpen)
			b.call("other", breaker.OutcomeSuccess)
			b.wantState(breaker.StateClosed)
			b.wantLog("closed>open hung", "open>half_open started", "half_open>closed probe")

			first.Returned() // what the dead incarnation does is of no interest
			b.admit("third")
			first.Returned()
			b.wantRefused("fourth", breaker.ReasonBusy)
			if s := b.Snapshot(); !s.Busy {
				b.t.Error("the snapshot says that the plugin is not busy")
			}
		})
	onFakeTime(t, "busy ends when the late answer comes", breaker.DefaultConfig(), func(b *bench) {
		for _, o := range breaker.Outcomes() {
			ticket := b.admit("")
			b.wantRefused("", breaker.ReasonBusy)
			ticket.End(o)
			b.wantRefused("", breaker.ReasonBusy)
			ticket.Returned()
			if b.Snapshot().Busy {
				b.t.Errorf("busy after a call that ended with %v returned", o)
			}
			b.Reset()
		}
	})
	onFakeTime(t, "a return before the verdict frees the plugin too", breaker.DefaultConfig(), func(b *bench) {
		first := b.admit("")
		first.Returned()
		second := b.admit("")
		first.End(breaker.OutcomeSuccess)
		first.Returned()
		b.wantRefused("", breaker.ReasonBusy)
		second.End(breaker.OutcomeSuccess)
		second.Returned()
		b.admit("")
	})
	onFakeTime(t, "a hang during the probe opens again at once", breaker.DefaultConfig(), func(b *bench) {
		b.HealthFailed()
		time.Sleep(5 * time.Second)
		probe := b.admit("x")
		b.Hung("x")
		b.wantState(breaker.StateOpen)
		time.Sleep(10 * time.Second)
		b.wantRefused("y", breaker.ReasonBusy)
		probe.End(breaker.OutcomeSuccess) // the verdict of a probe that is over
		b.wantState(breaker.StateOpen)
		probe.Returned()
		b.admit("y").End(breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
		b.wantLog("closed>open health", "open>half_open timer", "half_open>open hung",
			"open>half_open timer", "half_open>closed probe")
	})
}

func TestExit(t *testing.T) {
	t.Parallel()

	onFakeTime(t, "a crash loop is not a flapping breaker", breaker.DefaultConfig(), func(b *bench) {
		b.Exited("")
		for range 10 {
			time.Sleep(time.Minute)
			b.Exited("")
			b.wantRefused("", breaker.ReasonBreakerOpen)
		}
		b.wantLog("closed>open exit")
		if tr := b.log[0]; tr.OpenFor != 0 {
			b.t.Errorf("open for %v, want 0 = until started", tr.OpenFor)
		}
		if s := b.Snapshot(); !s.AwaitsStart || !s.OpenUntil.IsZero() {
			b.t.Errorf("snapshot: awaits start %v, open until %v; want true and no time", s.AwaitsStart, s.OpenUntil)
		}
		b.Started(false)
		b.wantLog("closed>open exit", "open>half_open started")
		if s := b.Snapshot(); s.AwaitsStart {
			b.t.Error("snapshot: still awaits the start")
		}
	})
	onFakeTime(t, "an exit while open holds it open beyond its time", breaker.DefaultConfig(), func(b *bench) {
		b.calls(3, breaker.OutcomeTimeout)
		b.Exited("")
		time.Sleep(time.Hour)
		b.wantRefused("", breaker.ReasonBreakerOpen)
		b.Started(false)
		b.wantLog("closed>open consecutive_failures", "open>half_open started")
	})
	onFakeTime(t, "the call in flight is forgotten and does not count twice",
		breaker.Config{ConsecutiveFailures: 2, QuarantineAfter: 2}, func(b *bench) {
			ticket := b.admit("x")
			b.Exited("x")
			b.Started(false)
			probe := b.admit("y")
			ticket.End(breaker.OutcomeUnavailable)
			ticket.Returned()
			b.wantState(breaker.StateHalfOpen)
			b.wantRefused("z", breaker.ReasonHalfOpenFull)
			probe.End(breaker.OutcomeSuccess)
			probe.Returned()
			if q := b.quarantined(); q != nil {
				b.t.Errorf("quarantined: %v, want none after one crash", q)
			}
		})
	onFakeTime(t, "an exit during the probe opens again and frees the slot", breaker.DefaultConfig(), func(b *bench) {
		b.Exited("")
		b.Started(false)
		b.admit("x")
		b.Exited("x")
		b.wantState(breaker.StateOpen)
		b.Started(false)
		b.call("y", breaker.OutcomeSuccess)
		b.wantLog("closed>open exit", "open>half_open started", "half_open>open exit",
			"open>half_open started", "half_open>closed probe")
	})
	onFakeTime(t, "a call that lost its process before the exit was seen opens once", breaker.DefaultConfig(), func(b *bench) {
		b.call("x", breaker.OutcomeUnavailable)
		b.Exited("x")
		b.wantLog("closed>open exit")
	})
}

func TestStarted(t *testing.T) {
	t.Parallel()

	onFakeTime(t, "a closed breaker stays closed", breaker.DefaultConfig(), func(b *bench) {
		b.Started(false)
		b.wantState(breaker.StateClosed)
		b.wantLog()
	})
	for cause, open := range map[breaker.Cause]func(b *bench){
		breaker.CauseConsecutiveFailures: func(b *bench) { b.calls(3, breaker.OutcomeError) },
		breaker.CauseHung:                func(b *bench) { b.Hung("") },
		breaker.CauseExit:                func(b *bench) { b.Exited("") },
		breaker.CauseHealth:              func(b *bench) { b.HealthFailed() },
	} {
		onFakeTime(t, "what "+cause.String()+" opened becomes half-open at once", breaker.DefaultConfig(), func(b *bench) {
			open(b)
			b.Started(false)
			b.wantLog("closed>open "+cause.String(), "open>half_open started")
			b.call("", breaker.OutcomeSuccess)
			b.wantState(breaker.StateClosed)
		})
	}
	onFakeTime(t, "the call of the incarnation before is forgotten", breaker.DefaultConfig(), func(b *bench) {
		ticket := b.admit("x")
		ticket.End(breaker.OutcomeTimeout)
		b.wantRefused("y", breaker.ReasonBusy)
		b.Started(false)
		b.admit("y")
		ticket.Returned()
		b.wantRefused("z", breaker.ReasonBusy)
	})
	onFakeTime(t, "the probe of the incarnation before gives its slot back", breaker.DefaultConfig(), func(b *bench) {
		b.HealthFailed()
		time.Sleep(5 * time.Second)
		old := b.admit("x")
		b.Started(false)
		b.wantState(breaker.StateHalfOpen)
		probe := b.admit("y")
		old.End(breaker.OutcomeTimeout)
		b.wantState(breaker.StateHalfOpen)
		probe.End(breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "a new version starts with nothing counted", breaker.DefaultConfig(), func(b *bench) {
		for _, newVersion := range []bool{true, false} {
			b.calls(2, breaker.OutcomeTimeout)
			b.Started(newVersion)
			b.calls(1, breaker.OutcomeTimeout)
			want := breaker.StateOpen
			if newVersion {
				want = breaker.StateClosed
			}
			b.wantState(want)
			b.Reset()
		}
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	cfg := breaker.DefaultConfig()

	onFakeTime(t, "closes what health opened without any call", cfg, func(b *bench) {
		b.HealthFailed()
		b.HealthFailed()
		b.HealthOK()
		b.HealthOK()
		b.wantLog("closed>open health", "open>closed health")
		b.call("", breaker.OutcomeSuccess)
	})
	onFakeTime(t, "closes what an exit opened once the new incarnation has started", cfg, func(b *bench) {
		b.Exited("")
		b.HealthOK() // an answer that was under way when the process died
		b.wantState(breaker.StateOpen)
		b.Started(false)
		b.HealthOK()
		b.wantLog("closed>open exit", "open>half_open started", "half_open>closed health")
		b.call("", breaker.OutcomeSuccess)
	})
	onFakeTime(t, "waits for a probe that is under way", cfg, func(b *bench) {
		b.Exited("")
		b.Started(false)
		probe := b.admit("")
		b.HealthOK()
		b.wantState(breaker.StateHalfOpen)
		probe.End(breaker.OutcomeCanceled)
		b.HealthOK()
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "opens again while half-open", cfg, func(b *bench) {
		b.HealthFailed()
		b.Started(false)
		b.HealthFailed()
		b.wantLog("closed>open health", "open>half_open started", "half_open>open health")
	})

	for name, open := range map[string]func(b *bench){
		"failures":             func(b *bench) { b.calls(3, breaker.OutcomeTimeout) },
		"a hang":               func(b *bench) { b.Hung("") },
		"an exit, then a hang": func(b *bench) { b.HealthFailed(); b.Hung("") },
		"failures, then an exit": func(b *bench) {
			b.calls(3, breaker.OutcomeTimeout)
			b.Exited("")
			b.Started(false)
			b.Exited("")
		},
		"a bad probe": func(b *bench) {
			b.Exited("")
			b.Started(false)
			b.calls(1, breaker.OutcomeTimeout)
		},
	} {
		onFakeTime(t, "does not close what "+name+" opened", cfg, func(b *bench) {
			open(b)
			b.HealthOK()
			b.wantState(breaker.StateOpen)
			b.Started(false)
			b.HealthOK()
			b.wantState(breaker.StateHalfOpen)
			b.call("", breaker.OutcomeSuccess)
			b.wantState(breaker.StateClosed)

			// Once cured by a call, health has its say again.
			b.HealthFailed()
			b.HealthOK()
			b.wantState(breaker.StateClosed)
		})
	}
}
