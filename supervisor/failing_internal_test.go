package supervisor

import (
	"slices"
	"strings"
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
		do     string // fail, good, open, half, close, reset, forget, version; fail and good may name an event
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
		{"well at the one and never at the other", []step{
			{0, "fail Create"}, {0, "open"}, {60, "good Run"}, {60, "close"}, {61, "fail Create"}, {61, "open"}, {120, "good Run"}, {120, "close"}, {121, "fail Create"}, {121, "open"},
		}, 122, 0, 3, true},
		{"well at the one, and the other was not asked for long", []step{{0, "fail Create"}, {0, "open"}, {60, "good Run"}, {60, "close"}}, 600, 0, 1, false},
		{"well at the one, and at the other not for long", []step{{0, "fail Create"}, {0, "open"}, {60, "good Run"}, {60, "close"}, {70, "good Create"}}, 79, 0, 1, false},
		{"well at both", []step{{0, "fail Create"}, {0, "open"}, {60, "good Run"}, {60, "close"}, {70, "good Create"}}, 80, -1, 1, false},
		{"well at both, and then it fails once", []step{{0, "fail Create"}, {0, "open"}, {5, "good Create"}, {5, "close"}, {15, "fail Create"}}, 16, -1, 1, false},
		{"well at both, and then it opens", []step{{0, "fail Create"}, {0, "open"}, {5, "good Create"}, {5, "close"}, {15, "fail Create"}, {15, "open"}}, 16, 15, 1, false},
		{"closed, and it failed once more", []step{{0, "fail Create"}, {0, "open"}, {5, "good Run"}, {5, "close"}, {6, "fail Create"}, {7, "good Create"}}, 16, 0, 1, true},
		{"bad at two, from the first on", []step{{0, "fail Run"}, {1, "fail Create"}, {1, "open"}}, 2, 0, 1, false},
		{"a rare event failed once long ago", []step{{0, "fail Update"}, {90, "fail Create"}, {90, "open"}, {95, "good Create"}, {95, "close"}}, 105, -1, 1, false},
		{"a rare event failed once long ago, still", []step{{0, "fail Update"}, {90, "fail Create"}, {90, "open"}, {95, "good Create"}, {95, "close"}}, 104, 90, 1, false},
		{"slow, long after it failed", []step{{0, "fail Create"}, {90, "slow"}}, 91, 90, 1, false},
		{"an exit outside of an event, and closed", []step{{0, "fail"}, {0, "open"}, {5, "close"}}, 15, -1, 1, false},
		{"another version that is not asked", []step{{0, "fail Create"}, {0, "open"}, {5, "version"}, {6, "good Run"}, {6, "close"}}, 16, -1, 1, false},
		{"an operator resets it while it is closed", []step{{0, "fail Create"}, {0, "open"}, {5, "good Run"}, {5, "close"}, {6, "forget"}}, 7, -1, 0, false},
		{"an operator resets it while it is closed, in vain", []step{{0, "fail Create"}, {0, "open"}, {5, "close"}, {6, "forget"}, {7, "fail Create"}, {7, "open"}}, 8, 7, 1, false},
		{"an operator resets it and it opens at once", []step{{0, "fail Create"}, {0, "open"}, {6, "forget"}}, 7, 0, 1, false},
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
				do, event, _ := strings.Cut(s.do, " ")
				switch when := at(s.minute); do {
				case "fail":
					f.bad(Failure{At: when, Event: event, Reason: "error"}, window)
				case "good":
					f.ok(event, when)
				case "slow":
					move(breaker.StateOpen, breaker.CauseSlowCall, when)
				case "version":
					f.renewed(when)
				case "forget":
					f.forget()
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

// TestAPluginThatFailsOneEventAndAnswersAnotherHasBeenFailingAllTheWhile, pod after pod: the first error that is shown is the first of all.
func TestAPluginThatFailsOneEventAndAnswersAnotherHasBeenFailingAllTheWhile(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	const pods = 12
	var f failures
	for hour := range pods {
		when := start.Add(time.Duration(hour) * time.Hour)
		f.ok("RunPodSandbox", when)
		if hour > 0 {
			f.moved(breaker.Transition{At: when, From: breaker.StateHalfOpen, To: breaker.StateClosed, Cause: breaker.CauseProbe})
		}
		when = when.Add(time.Second)
		f.bad(Failure{At: when, Event: "CreateContainer", Reason: "error"}, time.Minute)
		f.moved(breaker.Transition{At: when, To: breaker.StateOpen, Cause: breaker.CauseConsecutiveFailures})
	}
	first, last := start.Add(time.Second), start.Add((pods-1)*time.Hour+time.Second)
	o := f.latest()
	if since, fails := o.Failing(last); !fails || !since.Equal(first) || o.Times != pods || o.First == nil || !o.First.At.Equal(first) || !o.Last.At.Equal(last) {
		t.Errorf("it fails %t since %s, %+v; want %d openings since %s", fails, since, o, pods, first)
	}
	f.ok("RunPodSandbox", last.Add(time.Hour))
	f.moved(breaker.Transition{At: last.Add(time.Hour), From: breaker.StateHalfOpen, To: breaker.StateClosed, Cause: breaker.CauseProbe})
	if o := f.latest(); !slices.Equal(o.Unmended, []string{"CreateContainer"}) || !o.GoodSince.IsZero() {
		t.Errorf("not mended are %q, good since %s", o.Unmended, o.GoodSince)
	}
	if n := len(f.runs); n > 2 {
		t.Errorf("%d events are remembered, more than failed", n)
	}
}
