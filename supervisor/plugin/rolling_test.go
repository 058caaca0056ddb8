package plugin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// rolling is a machine in service with incarnation 1, and what it asked for in the last step.
type rolling struct {
	t   *testing.T
	m   *plugin.Machine
	now time.Time
	out []plugin.Effect

	tripped bool   // the guard refuses every call, because of a person
	sync    uint64 // for tests that count synchronizations
}

func newRolling(t *testing.T, inPlace bool) *rolling {
	t.Helper()
	r := &rolling{t: t, now: time.Unix(1000, 0), m: plugin.New(plugin.Config{Backoff: time.Second, MaxBackoff: time.Second, StableAfter: time.Minute})}
	r.step(plugin.Start{})
	r.step(plugin.RuntimeUp{Session: 1})
	r.step(plugin.Launched{Inc: 1, InPlace: inPlace})
	r.step(plugin.Synced{Inc: 1, Sync: 1, Mask: api.ValidEvents})
	r.want("-> ready")
	return r
}

func (r *rolling) step(in plugin.Input) {
	r.out = append([]plugin.Effect{}, r.m.Step(r.now, in)...)
	for _, e := range r.out {
		if v, bad := e.(plugin.Violation); bad {
			r.t.Fatalf("violation: %s", v.What)
		}
		if a, asks := e.(plugin.Admit); asks {
			first, answer := r.out, plugin.Input(plugin.Admitted{ID: a.ID})
			if r.tripped {
				answer = plugin.Refused{ID: a.ID, Reason: breaker.ReasonBreakerOpen, Manual: true}
			}
			r.step(answer)
			r.out = append(first, r.out...)
		}
	}
}

// call asks for one blocking delivery about a container of pod p.
func (r *rolling) call(id plugin.CallID, ev api.Event, ctr string) {
	r.step(plugin.Call{Request: plugin.Request{
		ID: id, Event: ev, Ref: plugin.Ref{Pod: "p", Container: ctr}, PodKey: "p", Blocking: true,
		Timeout: time.Second, Overdue: 5 * time.Second, Share: time.Second, Deadline: r.now.Add(time.Second),
	}})
}

func (r *rolling) done(inc plugin.Incarnation, id plugin.CallID) {
	r.step(plugin.Returned{Inc: inc, ID: id, Outcome: breaker.OutcomeSuccess})
}

// want checks that the last step asked for what is named, in this order.
func (r *rolling) want(texts ...string) {
	r.t.Helper()
	all := strings.Join(printEffects(r.out), "\n")
	rest := all
	for _, text := range texts {
		i := strings.Index(rest, text)
		if i < 0 {
			r.t.Fatalf("no %q, in this order, in:\n%s", text, all)
		}
		rest = rest[i:]
	}
}

func (r *rolling) wantNot(text string) {
	r.t.Helper()
	if all := strings.Join(printEffects(r.out), "\n"); strings.Contains(all, text) {
		r.t.Fatalf("%q in:\n%s", text, all)
	}
}

// timer fires the last timer of the kind that the last step armed.
func (r *rolling) timer(kind plugin.TimerKind) {
	r.t.Helper()
	for _, e := range r.out {
		if a, ok := e.(plugin.Arm); ok && a.Timer.Kind == kind {
			r.now = r.now.Add(a.After)
			r.step(a.Timer)
			return
		}
	}
	r.t.Fatalf("no timer %s in %v", kind, printEffects(r.out))
}

func TestASuccessorTakesOverAfterARoundInWhichNothingHappened(t *testing.T) {
	t.Parallel()
	r := newRolling(t, true)
	r.step(plugin.Replace{})
	r.want("launch #2")
	r.step(plugin.Launched{Inc: 2, InPlace: true})
	r.want("synchronize #2")
	r.call(1, api.Event_CREATE_CONTAINER, "c") // the one in service goes on
	r.want("send #1")
	r.done(1, 1)
	r.step(plugin.Synced{Inc: 2, Sync: 2, Mask: api.ValidEvents})
	r.want("synchronize #2") // it does not know the container yet
	hold := r.out
	r.call(2, api.Event_CREATE_CONTAINER, "d")
	r.wantNot("send")
	r.step(plugin.Synced{Inc: 2, Sync: 3, Mask: api.ValidEvents, Known: []plugin.Ref{{Pod: "p", Container: "c"}}})
	r.want("swapped #1 #2", "stop-process #1", "send #2")
	r.done(2, 2)
	r.call(3, api.Event_START_CONTAINER, "c")
	r.want("send #2")
	r.done(2, 3)
	r.out = hold
	r.timer(plugin.Hold) // of a round that is over
	r.want("stale")
	r.step(plugin.Exited{Inc: 1})
	r.wantNot("launch")
	if r.m.Phase() != plugin.Ready || r.m.Incarnation() != 2 {
		t.Errorf("phase %s, incarnation %d", r.m.Phase(), r.m.Incarnation())
	}
}

func TestASuccessorThatIsSynchronizedSlowlyTakesOverIfNothingHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRolling(t, false)
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2})
	r.want("synchronize #2")
	r.timer(plugin.Hold) // calls would wait no longer, but there are none
	r.wantNot("stop-process")
	r.step(plugin.Synced{Inc: 2, Sync: 2, Mask: api.ValidEvents})
	r.want("swapped #1 #2", "stop-process #1")
}

func TestCallsDoNotWaitForASuccessorForLong(t *testing.T) {
	t.Parallel()
	r := newRolling(t, false) // a stock plugin, which is told the state once
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2})
	r.want("synchronize #2")
	r.call(1, api.Event_CREATE_CONTAINER, "c")
	r.wantNot("send")
	r.timer(plugin.Hold)
	r.want("send #1 1 for 500ms") // the half of its share, which was all that the runtime waits for
	r.step(plugin.Synced{Inc: 2, Sync: 2, Mask: api.ValidEvents})
	r.want("stop-process #2", "launch #3") // another one, which is told of it
	r.done(1, 1)
	r.step(plugin.Exited{Inc: 2})
	r.step(plugin.Launched{Inc: 3})
	r.want("synchronize #3")
	r.step(plugin.Synced{Inc: 3, Sync: 3, Mask: api.ValidEvents})
	r.want("swapped #1 #3", "stop-process #1")
}

func TestASuccessorThatFailsLeavesTheOneInServiceAlone(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(r *rolling){
		"at its start": func(r *rolling) { r.step(plugin.LaunchFailed{Inc: 2}) },
		"by its end":   func(r *rolling) { r.step(plugin.Launched{Inc: 2, InPlace: true}); r.step(plugin.Exited{Inc: 2}) },
		"by its synchronization": func(r *rolling) {
			r.step(plugin.Launched{Inc: 2, InPlace: true})
			r.step(plugin.SyncFailed{Inc: 2, Sync: 2})
		},
		"by its health": func(r *rolling) { r.step(plugin.Launched{Inc: 2, InPlace: true}); r.step(plugin.HealthFailed{Inc: 2}) },
		"by its connection": func(r *rolling) {
			r.step(plugin.Launched{Inc: 2, InPlace: true})
			r.step(plugin.ConnectionLost{Inc: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRolling(t, true)
			r.step(plugin.Replace{})
			fail(r)
			r.want("replace failed #2")
			r.call(1, api.Event_CREATE_CONTAINER, "c")
			r.want("send #1")
		})
	}
}

func TestTheEndOfTheOneInServiceEndsTheUpdateWithAFreshStart(t *testing.T) {
	t.Parallel()
	r := newRolling(t, true)
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2, InPlace: true})
	r.step(plugin.Exited{Inc: 1})
	r.want("stop-process #2")
	r.timer(plugin.Retry)
	r.want("launch #3")
	r.step(plugin.Synced{Inc: 2, Sync: 2}) // too late
	r.wantNot("swapped")
	r.step(plugin.Stop{})
	r.want("stop-process #3")
	r.step(plugin.Exited{Inc: 3})
	if r.m.Phase() == plugin.Stopped {
		t.Error("stopped while the successor that was given up still ends")
	}
	r.step(plugin.Exited{Inc: 2})
	if r.m.Phase() != plugin.Stopped {
		t.Errorf("phase %s", r.m.Phase())
	}
}
