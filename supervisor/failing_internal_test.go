package supervisor

import (
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestAPluginFailsSinceItWasLastWellForAWhile(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	type step struct {
		minute int
		do     string // fail, good, open, half, close, reset
	}
	const window = time.Minute
	for _, tt := range []struct {
		name  string
		steps []step
		now   int
		since int // minute; -1: it does not fail
		times int
		flaps bool
	}{
		{"never", nil, 0, -1, 0, false},
		{"failures that open nothing", []step{{0, "fail"}, {1, "good"}}, 2, -1, 0, false},
		{"open", []step{{0, "fail"}, {2, "open"}}, 3, 0, 1, false},
		{"open without a failure", []step{{2, "open"}}, 3, 2, 1, false},
		{"tried in vain", []step{{0, "fail"}, {2, "open"}, {5, "half"}, {5, "fail"}, {5, "open"}}, 60, 0, 1, false},
		{"closed for a moment, twice", []step{{0, "fail"}, {2, "open"}, {5, "half"}, {5, "close"}, {6, "fail"}, {6, "open"}, {8, "half"}, {8, "close"}, {9, "fail"}, {9, "open"}}, 60, 0, 3, true},
		{"closed for a moment, and now", []step{{0, "fail"}, {2, "open"}, {5, "close"}, {6, "fail"}, {6, "open"}, {8, "close"}}, 9, 0, 2, true},
		{"closed long ago", []step{{0, "fail"}, {2, "open"}, {5, "close"}}, 15, -1, 1, false},
		{"well for a while in between", []step{{0, "fail"}, {2, "open"}, {5, "close"}, {15, "fail"}, {16, "open"}}, 17, 15, 1, false},
		{"well for a moment less", []step{{0, "fail"}, {2, "open"}, {5, "close"}, {14, "fail"}, {16, "open"}}, 17, 0, 2, true},
		{"an operator says that it is mended", []step{{0, "fail"}, {2, "open"}, {3, "reset"}, {4, "fail"}, {4, "open"}}, 5, 4, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var f failures
			state := breaker.StateClosed
			move := func(to breaker.State, cause breaker.Cause, when time.Time) {
				f.moved(breaker.Transition{At: when, From: state, To: to, Cause: cause})
				state = to
			}
			for _, s := range tt.steps {
				switch when := at(s.minute); s.do {
				case "fail":
					f.bad(Failure{At: when, Reason: "error"}, window)
				case "good":
					f.ok()
				case "open":
					move(breaker.StateOpen, breaker.CauseExit, when)
				case "half":
					move(breaker.StateHalfOpen, breaker.CauseTimer, when)
				case "close":
					move(breaker.StateClosed, breaker.CauseProbe, when)
				case "reset":
					move(breaker.StateClosed, breaker.CauseManual, when)
				}
			}
			o := f.latest()
			since, fails := o.Failing(at(tt.now))
			if fails != (tt.since >= 0) || fails && !since.Equal(at(tt.since)) || o.Flaps(at(tt.now)) != tt.flaps {
				t.Errorf("fails %t since %v, flaps %t; want minute %d, %t", fails, since, o.Flaps(at(tt.now)), tt.since, tt.flaps)
			}
			if o != nil && o.Times != tt.times {
				t.Errorf("it opened %d times, want %d", o.Times, tt.times)
			}
		})
	}
}
