package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// opened is a guard that two timeouts have opened and whose open time is over. With
// instant, Started ends the open time in the same tick of the clock, in which
// gobreaker itself is still open.
func opened(b *bench, instant bool) {
	b.t.Helper()
	b.calls(2, breaker.OutcomeTimeout)
	b.wantState(breaker.StateOpen)
	if instant {
		b.Started(false)
		return
	}
	time.Sleep(5 * time.Second)
}

func TestHalfOpen(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{ConsecutiveFailures: 2}

	for _, instant := range []bool{false, true} {
		how := " after the open time"
		if instant {
			how = " in the tick of the opening"
		}
		for _, o := range breaker.Outcomes() {
			onFakeTime(t, "a probe ends with "+o.String()+how, cfg, func(b *bench) {
				opened(b, instant)
				probe := b.admit("x")
				if !probe.Probe() {
					b.t.Error("the call is not marked as a probe")
				}
				b.wantState(breaker.StateHalfOpen)
				b.wantRefused("y", breaker.ReasonHalfOpenFull)
				probe.End(o)
				switch o.Verdict() {
				case breaker.VerdictGood:
					b.wantState(breaker.StateClosed)
				case breaker.VerdictBad:
					b.wantState(breaker.StateOpen)
					b.wantRefused("y", breaker.ReasonBreakerOpen)
				case breaker.VerdictExcluded:
					b.wantState(breaker.StateHalfOpen)
					b.wantRefused("y", breaker.ReasonBusy) // no verdict is owed, but the call is not back
					probe.Returned()
					next := b.admit("y")
					b.wantRefused("z", breaker.ReasonHalfOpenFull)
					next.End(breaker.OutcomeSuccess)
					b.wantState(breaker.StateClosed)
				}
			})
		}
		onFakeTime(t, "a probe that fails is followed by another after twice the time"+how, cfg, func(b *bench) {
			opened(b, instant)
			b.call("x", breaker.OutcomeError)
			time.Sleep(10*time.Second - 1)
			b.wantRefused("y", breaker.ReasonBreakerOpen)
			time.Sleep(time.Nanosecond)
			b.call("y", breaker.OutcomeSuccess)
			b.wantState(breaker.StateClosed)
		})
		onFakeTime(t, "a breaker that closed counts from zero"+how, cfg, func(b *bench) {
			opened(b, instant)
			b.call("x", breaker.OutcomeSuccess)
			b.call("", breaker.OutcomeTimeout)
			b.wantState(breaker.StateClosed)
			b.call("", breaker.OutcomeTimeout)
			b.wantState(breaker.StateOpen)
		})
	}

	onFakeTime(t, "a probe that never ends does not wedge the breaker", cfg, func(b *bench) {
		opened(b, false)
		probe := b.admit("x")
		probe.Returned() // the call is back, but its verdict got lost
		time.Sleep(30*time.Second - 1)
		b.wantRefused("y", breaker.ReasonHalfOpenFull)
		time.Sleep(time.Nanosecond)
		b.wantRefused("y", breaker.ReasonBreakerOpen)
		time.Sleep(10 * time.Second)
		b.call("y", breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
		b.wantLog("closed>open consecutive_failures", "open>half_open timer", "half_open>open probe_expired",
			"open>half_open timer", "half_open>closed probe")
		probe.End(breaker.OutcomeTimeout)
		probe.End(breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed) // the late verdict is about another time
	})
	onFakeTime(t, "a probe that never returns does not wedge the breaker", cfg, func(b *bench) {
		opened(b, false)
		b.admit("x")
		time.Sleep(30 * time.Second)
		b.wantRefused("y", breaker.ReasonBreakerOpen)
		time.Sleep(10 * time.Second)
		b.wantRefused("y", breaker.ReasonBusy) // the plugin still works on it
		b.wantState(breaker.StateOpen)         // and a refused call moves nothing
		b.Hung("x")
		b.Exited("x")
		b.Started(false)
		b.call("y", breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "the deadline of a probe can be set", breaker.Config{ConsecutiveFailures: 2, ProbeDeadline: time.Second},
		func(b *bench) {
			opened(b, false)
			b.admit("x")
			time.Sleep(time.Second - 1)
			b.wantRefused("y", breaker.ReasonHalfOpenFull)
			time.Sleep(time.Nanosecond)
			b.wantRefused("y", breaker.ReasonBreakerOpen)
		})
	onFakeTime(t, "a verdict on a call from before the opening does not judge the probe", cfg, func(b *bench) {
		old := b.admit("old")
		old.Returned()
		opened(b, false)
		probe := b.admit("x")
		old.End(breaker.OutcomeSuccess)
		b.wantState(breaker.StateHalfOpen)
		old.End(breaker.OutcomeTimeout)
		b.wantState(breaker.StateHalfOpen)
		b.wantRefused("y", breaker.ReasonHalfOpenFull)
		probe.End(breaker.OutcomeSuccess)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "reading never makes it half-open", cfg, func(b *bench) {
		b.calls(2, breaker.OutcomeTimeout)
		time.Sleep(time.Hour)
		for range 3 {
			b.wantState(breaker.StateOpen)
			if s := b.Snapshot(); s.State != breaker.StateOpen {
				b.t.Errorf("snapshot shows %v, want open", s.State)
			}
		}
		b.wantLog("closed>open consecutive_failures")
		if got := b.OpenSeconds(); got != 3600 {
			b.t.Errorf("open for %v s, want 3600", got)
		}
	})
}

func TestOpenTime(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{ConsecutiveFailures: 1, OpenDuration: 5 * time.Second, MaxOpenDuration: 30 * time.Second}

	openFor := func(b *bench) time.Duration {
		b.t.Helper()
		tr := b.log[len(b.log)-1]
		if tr.To != breaker.StateOpen {
			b.t.Fatalf("the latest transition is %+v, want one to open", tr)
		}
		if until := b.Snapshot().OpenUntil; !until.Equal(tr.At.Add(tr.OpenFor)) {
			b.t.Errorf("open until %v, want %v after %v", until, tr.OpenFor, tr.At)
		}
		return tr.OpenFor
	}
	reopen := func(b *bench) time.Duration {
		b.t.Helper()
		time.Sleep(time.Until(b.Snapshot().OpenUntil))
		b.call("", breaker.OutcomeTimeout)
		return openFor(b)
	}
	onFakeTime(t, "doubles at each opening up to the maximum", cfg, func(b *bench) {
		for i, want := range []time.Duration{5, 10, 20, 30, 30, 30} {
			if got := reopen(b); got != want*time.Second {
				b.t.Errorf("opening %d lasts %v, want %v", i+1, got, want*time.Second)
			}
		}
	})
	onFakeTime(t, "starts over after ten good calls", cfg, func(b *bench) {
		reopen(b)
		reopen(b)
		time.Sleep(time.Minute)
		b.calls(9, breaker.OutcomeSuccess)
		b.calls(5, breaker.OutcomeCanceled)
		if got := reopen(b); got != 20*time.Second {
			b.t.Errorf("after 9 good calls it opens for %v, want 20s", got)
		}
		time.Sleep(time.Minute)
		b.calls(10, breaker.OutcomeSuccess)
		if got := reopen(b); got != 5*time.Second {
			b.t.Errorf("after 10 good calls it opens for %v, want 5s", got)
		}
	})
	onFakeTime(t, "does not start over by health checks", cfg, func(b *bench) {
		for range 20 {
			b.HealthFailed()
			b.HealthOK()
		}
		if got := reopen(b); got != 30*time.Second {
			b.t.Errorf("opens for %v, want 30s", got)
		}
	})
	onFakeTime(t, "starts over by Reset", cfg, func(b *bench) {
		reopen(b)
		reopen(b)
		b.Reset()
		if got := reopen(b); got != 5*time.Second {
			b.t.Errorf("opens for %v, want 5s", got)
		}
	})
	onFakeTime(t, "a maximum below the first open time wins",
		breaker.Config{ConsecutiveFailures: 1, OpenDuration: time.Minute, MaxOpenDuration: time.Second},
		func(b *bench) {
			if got := reopen(b); got != time.Second {
				b.t.Errorf("opens for %v, want 1s", got)
			}
		})

	for _, c := range []struct {
		name  string
		draw  float64
		first time.Duration
		last  time.Duration
	}{
		{"lowest", 0, 4 * time.Second, 24 * time.Second},
		{"highest", 1, 6 * time.Second, 30 * time.Second},
		{"negative", -3, 4 * time.Second, 24 * time.Second},
		{"far too high", 1e300, 6 * time.Second, 30 * time.Second},
		{"not a number", math.NaN(), 4 * time.Second, 24 * time.Second},
	} {
		onFakeTime(t, "jitter stays within 20 % and the maximum when the draw is "+c.name, cfg, func(b *bench) {
			b.Guard = breaker.New(cfg, func() float64 { return c.draw }, func(tr breaker.Transition) { b.log = append(b.log, tr) })
			if got := reopen(b); got.Round(time.Microsecond) != c.first {
				b.t.Errorf("first opening lasts %v, want %v", got, c.first)
			}
			for range 5 {
				reopen(b)
			}
			if got := reopen(b); got.Round(time.Microsecond) != c.last {
				b.t.Errorf("last opening lasts %v, want %v", got, c.last)
			}
		})
	}
	t.Run("jitter comes from math/rand when no source is given", func(t *testing.T) {
		t.Parallel()
		seen := map[time.Duration]bool{}
		for range 20 {
			breaker.New(cfg, nil, func(tr breaker.Transition) {
				seen[tr.OpenFor] = true
				if tr.OpenFor < 4*time.Second || tr.OpenFor > 6*time.Second {
					t.Errorf("opens for %v, want 4s to 6s", tr.OpenFor)
				}
			}).HealthFailed()
		}
		if len(seen) < 10 {
			t.Errorf("20 openings had %d different lengths, want them to differ", len(seen))
		}
	})
}
