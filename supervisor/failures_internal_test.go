package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// TestTheStatusSaysWhatOpenedABreakerAndWhatItWaitsFor: from the first error to the trial that closes it.
func TestTheStatusSaysWhatOpenedABreakerAndWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	answer := make(chan error, 10)
	f, s := serve(t, load(t, [2]string{"p", sel("x") + "  breaker: {openDuration: 1h, maxOpenDuration: 1h}\n"}), makers{"p": one(&fakePlugin{
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) { return nil, <-answer },
	})})
	for _, n := range []string{"1", "2", "3"} {
		answer <- errors.New("broken " + n)
		if _, err := s.create(pod(n, "x", "1"), ctr(n, "c"+n)); err != nil {
			t.Fatal(err)
		}
	}
	var b BreakerView
	f.eventually("open", func() bool { b = f.s.Status().Plugins[0].Breaker; return b.State == "open" && b.Opening != nil })
	o := b.Opening
	if o == nil || o.Cause != "consecutive_failures" || o.First == nil || o.Last == nil || b.WaitsFor != WaitTime {
		t.Fatalf("breaker %+v, opening %+v", b, o)
	}
	for _, c := range []struct {
		got    *Failure
		pod, d string
	}{{o.First, "n-1", "broken 1"}, {o.Last, "n-3", "broken 3"}} {
		if c.got.Event != "CreateContainer" || c.got.Namespace != "default" || c.got.Pod != c.pod || c.got.Container == "" || c.got.Reason != "error" || !strings.Contains(c.got.Detail, c.d) {
			t.Errorf("failure %+v, want %q of pod %s", c.got, c.d, c.pod)
		}
	}
	if err := f.s.Act("p", "reset", 0); err != nil {
		t.Fatal(err)
	}
	f.eventually("closed, and its failures are forgotten", func() bool {
		b := f.s.Status().Plugins[0].Breaker
		return b.State == "closed" && b.WaitsFor == "" && b.Opening == nil
	})
}

// TestAResetForgetsTheFailuresOfABreakerThatIsClosedAlready: nothing is told then by the guard.
func TestAResetForgetsTheFailuresOfABreakerThatIsClosedAlready(t *testing.T) {
	t.Parallel()
	f, _ := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{})})
	past := &f.s.plan().byName["p"].failures
	past.bad(Failure{At: time.Now(), Event: "CreateContainer", Reason: "error"}, time.Minute)
	past.moved(breaker.Transition{At: time.Now(), To: breaker.StateOpen, Cause: breaker.CauseHung})
	past.moved(breaker.Transition{At: time.Now(), From: breaker.StateHalfOpen, To: breaker.StateClosed, Cause: breaker.CauseProbe})
	if _, fails := past.latest().Failing(time.Now()); !fails {
		t.Fatal("it is well before the reset")
	}
	if err := f.s.Act("p", "reset", 0); err != nil {
		t.Fatal(err)
	}
	if b := f.s.Status().Plugins[0].Breaker; b.State != "closed" || b.Opening != nil {
		t.Errorf("after the reset: %+v", b)
	}
}

// TestAnExitTellsWhatWasInFlightByNamesAndOpensWithThatFailure: what a person looks for has a name, what the runtime's log has is an id.
func TestAnExitTellsWhatWasInFlightByNamesAndOpensWithThatFailure(t *testing.T) {
	t.Parallel()
	asked, hold := make(chan struct{}), make(chan struct{})
	f, s := serve(t, load(t, [2]string{"p", sel("x") + "  restart: {backoff: 1m, maxBackoff: 1m}\n  timeouts: {default: 1s}\n"}), makers{"p": one(&fakePlugin{
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			close(asked)
			<-hold
			return nil, errors.New("gone")
		},
	})})
	t.Cleanup(func() { close(hold) }) // before the supervisor ends, which waits for the call
	ended := make(chan error, 1)
	go func() {
		_, err := s.create(pod("p1", "x", "1"), ctr("p1", "c1"))
		ended <- err
	}()
	<-asked
	f.l.inc("p").end("exit_code", "exit code 2")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var p PluginStatus
	f.eventually("an exit", func() bool {
		p = f.s.Status().Plugins[0]
		return len(p.Exits) == 1 && p.Breaker.State == "open" && p.Breaker.Opening != nil
	})
	if want := "CreateContainer of default/n-p1/c-c1 (container c1, pod p1)"; p.Exits[0].InFlight != want {
		t.Errorf("in flight: %q, want %q", p.Exits[0].InFlight, want)
	}
	if o := p.Breaker.Opening; o.Cause != "exit" || o.Last == nil || o.Last.Pod != "n-p1" || p.Breaker.WaitsFor != WaitStart {
		t.Errorf("breaker %+v, opening %+v", p.Breaker, o)
	}
}

// TestRefusalsAreCountedByReason: for a plugin that fails closed, for one that refuses on purpose, and for what is required and not hosted.
func TestRefusalsAreCountedByReason(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"strict", sel("x") + "  failurePolicy: Fail\n"}, [2]string{"open", sel("x")}), makers{
		"strict": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) { return nil, errors.New("no") }}),
		"open":   one(&fakePlugin{}),
	})
	elsewhere := pod("p2")
	elsewhere.Annotations = map[string]string{"required-plugins.nri-supervisor.dev": "nobody"}
	for _, p := range []*api.PodSandbox{pod("p1", "x", "1"), elsewhere} {
		if _, err := s.create(p, ctr(p.GetId(), "c-"+p.GetId())); err == nil {
			t.Errorf("a container of %s is not refused", p.GetId())
		}
	}
	st := f.s.Status()
	for _, p := range st.Plugins {
		want := 0
		if p.Name == "strict" {
			want = 1
		}
		if p.Refused != want || want == 1 && (len(p.RefusedBy) != 1 || p.RefusedBy[0] != ReasonSum{"error", 1, p.RefusedAt, p.RefusedAt} || p.RefusedAt.IsZero()) {
			t.Errorf("%s: %d refusals %v, the last at %s", p.Name, p.Refused, p.RefusedBy, p.RefusedAt)
		}
	}
	if st.Refused != 2 || st.RefusedUnhosted != 1 || st.RefusedUnhostedAt.IsZero() {
		t.Errorf("%d refusals in all, %d of them for what is not hosted", st.Refused, st.RefusedUnhosted)
	}
}

// TestWhatIsWithheldSaysWhichMissIsTheReason: events of a container that the plugin missed.
func TestWhatIsWithheldSaysWhichMissIsTheReason(t *testing.T) {
	t.Parallel()
	f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) { return nil, errors.New("no") },
	})})
	p, c := pod("p1", "x", "1"), ctr("p1", "c1")
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.plugin.StartContainer(s.ctx(), &api.StartContainerRequest{Pod: p, Container: c}); err != nil {
		t.Fatal(err)
	}
	list := f.s.Decisions(journal.Filter{Action: journal.ActionWithheld})
	if len(list) != 1 || list[0].Reason != "error" || !strings.Contains(list[0].Detail, "because of error when that was created") {
		t.Errorf("withheld: %+v", list)
	}
}

// TestFailuresFarApartWithAGoodCallBetweenAreNoSeries: the first error that is shown is one that has to do with the opening.
func TestFailuresFarApartWithAGoodCallBetweenAreNoSeries(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(d time.Duration) Failure { return Failure{At: begin.Add(d), Reason: d.String()} }
	open := breaker.Transition{To: breaker.StateOpen, Cause: breaker.CauseFailureRatio}
	var f failures
	f.bad(at(0), time.Minute)
	f.ok("", begin)
	f.bad(at(2*time.Minute), time.Minute)
	f.ok("", begin.Add(2*time.Minute))
	f.bad(at(150*time.Second), time.Minute)
	f.moved(open)
	if o := f.latest(); o.First.Reason != "2m0s" || o.Last.Reason != "2m30s" || o.Again != 0 {
		t.Errorf("opening %+v", o)
	}
	open.From = breaker.StateHalfOpen
	f.bad(at(time.Hour), time.Minute)
	f.moved(open)
	if o := f.latest(); o.First.Reason != "2m0s" || o.Last.Reason != "1h0m0s" || o.Again != 1 {
		t.Errorf("after a trial: %+v", o)
	}
	f.moved(breaker.Transition{To: breaker.StateClosed, At: begin.Add(time.Hour)})
	f.bad(at(2*time.Hour), time.Minute)
	f.moved(breaker.Transition{To: breaker.StateOpen, Cause: breaker.CauseHung})
	if o := f.latest(); o.First != nil || o.Last.Reason != "2h0m0s" || o.Cause != "hung" || o.Again != 0 {
		t.Errorf("the next one: %+v", o)
	}
}

func TestEveryStateOfABreakerSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	seen := map[Wait]bool{}
	for _, c := range []struct {
		s       breaker.Snapshot
		healthy bool
		want    Wait
	}{
		{breaker.Snapshot{State: breaker.StateClosed}, true, ""},
		{breaker.Snapshot{State: breaker.StateForcedOpen, Automatic: breaker.StateClosed}, true, WaitOperator},
		{breaker.Snapshot{State: breaker.StateDisabled, Automatic: breaker.StateOpen, AwaitsStart: true}, true, WaitOperator},
		{breaker.Snapshot{State: breaker.StateOpen, Automatic: breaker.StateOpen, AwaitsStart: true}, true, WaitStart},
		{breaker.Snapshot{State: breaker.StateOpen, Automatic: breaker.StateOpen, NeedsCall: true}, true, WaitTime},
		{breaker.Snapshot{State: breaker.StateOpen, Automatic: breaker.StateOpen}, false, WaitTime},
		{breaker.Snapshot{State: breaker.StateOpen, Automatic: breaker.StateOpen}, true, WaitTimeOrHealth},
		{breaker.Snapshot{State: breaker.StateHalfOpen, Automatic: breaker.StateHalfOpen}, true, WaitCallOrHealth},
		{breaker.Snapshot{State: breaker.StateHalfOpen, Automatic: breaker.StateHalfOpen}, false, WaitCall},
		{breaker.Snapshot{State: breaker.StateHalfOpen, Automatic: breaker.StateHalfOpen, NeedsCall: true}, true, WaitCall},
		{breaker.Snapshot{State: breaker.StateHalfOpen, Automatic: breaker.StateHalfOpen, NeedsCall: true, NeedsFast: true}, true, WaitFastCall},
		{breaker.Snapshot{State: breaker.StateHalfOpen, Automatic: breaker.StateHalfOpen, Probing: true}, true, WaitVerdict},
	} {
		if got := waitsFor(c.s, c.healthy); got != c.want {
			t.Errorf("%s behind %s: %q, want %q", c.s.State, c.s.Automatic, got, c.want)
		}
		seen[c.want] = true
	}
	for _, w := range Waits() {
		if !seen[w] {
			t.Errorf("%q is never reached", w)
		}
	}
}
