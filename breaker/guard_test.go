package breaker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestRefusalsHaveOneOrder(t *testing.T) {
	t.Parallel()
	cfg := breaker.DefaultConfig()
	cfg.LaneRatio = 0.2
	onFakeTime(t, "everything holds at once and goes away from the outside in", cfg, func(b *bench) {
		for range 3 {
			crash(b, "p")
		}
		b.call("q", breaker.OutcomeSuccess)
		inflight := b.admit("q")
		b.HealthFailed()
		b.Charge(time.Hour)
		b.Trip()
		b.Disable()

		b.wantRefused("p", breaker.ReasonDisabled)
		b.Enable()
		b.wantRefused("p", breaker.ReasonBreakerOpen) // forced
		b.Reset()
		b.HealthFailed()
		b.wantRefused("p", breaker.ReasonBreakerOpen) // automatic
		time.Sleep(5 * time.Second)
		b.wantRefused("p", breaker.ReasonBusy)
		inflight.End(breaker.OutcomeTimeout)
		inflight.Returned()
		b.wantRefused("p", breaker.ReasonQuarantined)
		b.wantRefused("q", breaker.ReasonLaneShare)
		b.wantState(breaker.StateOpen) // no refusal has moved it
		probe := b.admitCall(breaker.Call{Pod: "q", Queued: true})
		b.wantRefused("p", breaker.ReasonHalfOpenFull)
		probe.End(breaker.OutcomeSuccess)
		b.wantRefused("p", breaker.ReasonBusy)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "the ticket says what was admitted", breaker.Config{}, func(b *bench) {
		want := breaker.Call{Pod: "p", Work: "w", Queued: true}
		ticket := b.admitCall(want)
		if diff := cmp.Diff(want, ticket.Call()); diff != "" {
			b.t.Errorf("call (-want +got):\n%s", diff)
		}
		if ticket.Probe() {
			b.t.Error("a call of a closed breaker is marked as a probe")
		}
	})
}

func TestSnapshot(t *testing.T) {
	t.Parallel()

	onFakeTime(t, "of a new guard is empty", breaker.DefaultConfig(), func(b *bench) {
		start := time.Now()
		time.Sleep(time.Minute)
		want := breaker.Snapshot{Since: start, LaneTokens: 300 * time.Millisecond}
		if diff := cmp.Diff(want, b.Snapshot()); diff != "" {
			b.t.Errorf("(-want +got):\n%s", diff)
		}
	})
	onFakeTime(t, "of an open guard tells the whole story", breaker.Config{ConsecutiveFailures: 2, SlowCall: time.Second, QuarantineAfter: 1},
		func(b *bench) {
			b.callAt("", "", breaker.OutcomeSuccess, time.Second)
			b.callAt("", "", breaker.OutcomeTimeout, time.Second)
			b.admit("p").End(breaker.OutcomeTimeout)
			at := time.Now()
			b.Charge(2 * time.Second)
			time.Sleep(3 * time.Second)
			want := breaker.Snapshot{
				State: breaker.StateOpen, Since: at, Cause: breaker.CauseConsecutiveFailures, Automatic: breaker.StateOpen,
				OpenUntil: at.Add(5 * time.Second), OpenDuration: 5 * time.Second,
				Good: 1, Bad: 2, Slow: 2, ConsecutiveFailures: 2, Busy: true, NeedsCall: true,
				Quarantined: []breaker.QuarantinedPod{{Pod: "p", Until: at.Add(10 * time.Minute), Strikes: 1}},
				LaneTokens:  300 * time.Millisecond, LaneTotal: 2 * time.Second, OpenTotal: 3 * time.Second,
			}
			if diff := cmp.Diff(want, b.Snapshot()); diff != "" {
				b.t.Errorf("(-want +got):\n%s", diff)
			}
		})
	onFakeTime(t, "good calls are counted since the opening", breaker.DefaultConfig(), func(b *bench) {
		b.calls(3, breaker.OutcomeSuccess)
		b.HealthFailed()
		b.HealthOK()
		b.calls(4, breaker.OutcomeSuccess)
		if s := b.Snapshot(); s.GoodCalls != 4 || s.Good != 4 {
			b.t.Errorf("good calls %d since the opening and %d in the window, want 4 and 4", s.GoodCalls, s.Good)
		}
	})
}

func TestOpenSeconds(t *testing.T) {
	t.Parallel()
	onFakeTime(t, "counts open and forced open and nothing else", breaker.DefaultConfig(), func(b *bench) {
		want := func(seconds float64) {
			b.t.Helper()
			if got := b.OpenSeconds(); got != seconds {
				b.t.Errorf("open for %v s, want %v", got, seconds)
			}
		}
		want(0)
		time.Sleep(time.Second) // closed
		b.HealthFailed()
		time.Sleep(2 * time.Second) // open
		want(2)
		b.Trip()
		time.Sleep(4 * time.Second) // forced open
		want(6)
		b.Disable()
		time.Sleep(8 * time.Second) // disabled
		want(6)
		b.Enable()
		time.Sleep(16 * time.Second) // forced open
		b.Reset()
		time.Sleep(32 * time.Second) // closed
		want(22)
		b.Exited("")
		b.Started(false)
		time.Sleep(64 * time.Second) // half-open
		want(22)
	})
}

func TestTransitions(t *testing.T) {
	t.Parallel()

	onFakeTime(t, "carry their time and are handed out before the method returns", breaker.DefaultConfig(), func(b *bench) {
		time.Sleep(time.Second)
		at := time.Now()
		b.HealthFailed()
		want := []breaker.Transition{{
			From: breaker.StateClosed, To: breaker.StateOpen, Cause: breaker.CauseHealth, At: at, OpenFor: 5 * time.Second,
		}}
		if diff := cmp.Diff(want, b.log); diff != "" {
			b.t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("the function may call the guard, and order is kept", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var g *breaker.Guard
			var got []string
			g = breaker.New(breaker.DefaultConfig(), nil, func(tr breaker.Transition) {
				got = append(got, tr.From.String()+">"+tr.To.String())
				if g.State() != g.Snapshot().State {
					t.Error("state and snapshot differ")
				}
				if tr.To == breaker.StateOpen {
					g.Started(false)
					g.HealthOK()
					got = append(got, "done")
				}
			})
			g.HealthFailed()
			want := []string{"closed>open", "done", "open>half_open", "half_open>closed"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	})
	t.Run("nobody has to listen", func(t *testing.T) {
		t.Parallel()
		g := breaker.New(breaker.DefaultConfig(), nil, nil)
		g.HealthFailed()
		if g.State() != breaker.StateOpen {
			t.Errorf("state = %v, want open", g.State())
		}
	})
	t.Run("a slow listener delays no other method", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			seen := 0
			g := breaker.New(breaker.DefaultConfig(), nil, func(breaker.Transition) { seen++; <-release })
			go g.HealthFailed()
			synctest.Wait()
			g.Reset() // waits for nobody: the goroutine above hands this out too
			g.Trip()
			if g.State() != breaker.StateForcedOpen || seen != 1 {
				t.Errorf("state = %v after %d transitions, want forced_open after 1", g.State(), seen)
			}
			close(release)
			synctest.Wait()
			if seen != 3 {
				t.Errorf("%d transitions were handed out, want 3", seen)
			}
		})
	})
}

func TestManyGoroutinesNeverHoldTwoTickets(t *testing.T) {
	t.Parallel()
	var held, transitions atomic.Int32
	last := breaker.StateClosed
	g := breaker.New(breaker.DefaultConfig(), nil, func(tr breaker.Transition) {
		transitions.Add(1)
		if tr.From != last || tr.To == tr.From {
			t.Errorf("transition from %v to %v after one to %v", tr.From, tr.To, last)
		}
		last = tr.To // one at a time, so without a lock
	})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				switch i % 25 {
				case 0:
					g.HealthFailed()
				case 5:
					g.HealthOK()
				case 10:
					g.Reset()
				case 15:
					_, _, _ = g.Snapshot(), g.OpenSeconds(), g.LaneSeconds()
				}
				ticket, reason := g.Admit("p")
				if (ticket == nil) == (reason == breaker.ReasonNone) {
					t.Errorf("ticket %v with reason %v", ticket, reason)
				}
				if ticket == nil {
					continue
				}
				if n := held.Add(1); n != 1 {
					t.Errorf("%d tickets are out at once", n)
				}
				ticket.Sent()
				ticket.End(breaker.Outcomes()[(worker+i)%10])
				held.Add(-1)
				ticket.Returned()
			}
		})
	}
	wg.Wait()
	if transitions.Load() == 0 {
		t.Error("nothing happened")
	}
}
