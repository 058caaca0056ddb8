package plugin_test

import (
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// notify queues a notification about a container of pod p.
func (r *rolling) notify(id plugin.CallID, ev api.Event, ctr string) {
	r.step(plugin.Call{Request: plugin.Request{ID: id, Event: ev, Ref: plugin.Ref{Pod: "p", Container: ctr}, PodKey: "p", Timeout: time.Second, Overdue: 5 * time.Second}})
}

func TestAnOpenBreakerDoesNotKeepItsCureOut(t *testing.T) {
	t.Parallel()
	for _, inPlace := range []bool{true, false} {
		r := newRolling(t, inPlace)
		r.step(plugin.Opened{After: time.Hour})
		r.step(plugin.Replace{})
		r.step(plugin.Launched{Inc: 2, InPlace: inPlace})
		r.want("synchronize #2")
		r.wantNot("arm hold") // nobody waits where all are refused
		r.call(1, api.Event_CREATE_CONTAINER, "missed")
		r.want("answer 1 refused breaker_open")
		r.notify(2, api.Event_REMOVE_CONTAINER, "c")
		r.wantNot("answer") // the snapshot under way may still tell of it
		r.step(plugin.Synced{Inc: 2, Sync: 2, Mask: api.ValidEvents, Known: []plugin.Ref{{Pod: "p", Container: "c"}}})
		r.want("swapped #1 #2", "guard started", "stop-process #1")
		if inPlace {
			r.want("arm resync #2") // what was missed meanwhile
		}
		r.want("send #2 2")
		r.done(2, 2)
		r.call(3, api.Event_CREATE_CONTAINER, "d")
		r.want("send #2 3")
		r.done(2, 3)
	}
}

func TestASuccessorThatFailsWhileTheBreakerIsOpenChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRolling(t, false) // a stock plugin, which is replaced when the open time is over
	r.step(plugin.Opened{After: 20 * time.Second})
	open := r.out
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2})
	r.notify(1, api.Event_REMOVE_CONTAINER, "c")
	r.out = open
	r.timer(plugin.Resync)
	r.wantNot("stop-process") // the successor may know the truth soon
	again := r.out
	r.step(plugin.SyncFailed{Inc: 2, Sync: 2})
	r.want("replace failed #2", "answer 1 refused breaker_open")
	r.call(2, api.Event_CREATE_CONTAINER, "d")
	r.want("answer 2 refused breaker_open")
	r.out = again
	r.timer(plugin.Resync)
	r.want("stop-process #1") // and now it is
}

// What the one in service did after the snapshot was taken is known to it alone, so a breaker that opens then does not excuse the round.
func TestASuccessorThatDoesNotKnowWhatWasDoneBeforeTheBreakerOpenedIsToldAgain(t *testing.T) {
	t.Parallel()
	r := newRolling(t, true)
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2, InPlace: true})
	r.call(1, api.Event_CREATE_CONTAINER, "c")
	r.done(1, 1)
	r.step(plugin.Opened{After: time.Hour})
	r.step(plugin.Synced{Inc: 2, Sync: 2, Mask: api.ValidEvents})
	r.want("synchronize #2 3")
	r.step(plugin.Synced{Inc: 2, Sync: 3, Mask: api.ValidEvents, Known: []plugin.Ref{{Pod: "p", Container: "c"}}})
	r.want("swapped #1 #2")
}

func TestATripByHandOutlivesASuccessorWhichIsToldTheStateAgainWhenItEnds(t *testing.T) {
	t.Parallel()
	r := newRolling(t, true)
	r.tripped = true
	r.step(plugin.Opened{Manual: true})
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2, InPlace: true})
	r.step(plugin.Synced{Inc: 2, Sync: 2, Mask: api.ValidEvents})
	r.want("swapped #1 #2")
	r.call(1, api.Event_CREATE_CONTAINER, "c")
	r.want("answer 1 refused breaker_open")
	r.wantNot("arm resync")
	r.tripped = false
	r.step(plugin.Reset{})
	r.timer(plugin.Resync)
	r.want("synchronize #2 3")
	r.step(plugin.Synced{Inc: 2, Sync: 3, Mask: api.ValidEvents})
	r.call(2, api.Event_CREATE_CONTAINER, "d")
	r.want("send #2 2")
}

func TestAReplacementWhileTheOneInServiceIsToldTheStateIsASuccessorToo(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(r *rolling){
		"to a new runtime": func(r *rolling) { r.step(plugin.RuntimeUp{Session: 2}) },
		"to be configured": func(r *rolling) { r.step(plugin.Reconfigure{}) },
		"to be configured by a runtime that is gone": func(r *rolling) {
			r.step(plugin.RuntimeDown{})
			r.step(plugin.Reconfigure{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRolling(t, true)
			tell(r)
			r.sync = 1
			r.step(plugin.Replace{})
			r.want("launch #2")
			r.wantNot("stop-process")
			r.step(plugin.Launched{Inc: 2, InPlace: true})
			if gone := !r.m.RuntimeKnown(); r.m.WaitsForRuntime() != gone {
				t.Errorf("waits for the runtime: %v", !gone)
			}
			r.wantNot("synchronize")
			r.step(plugin.RuntimeUp{Session: 3})
			for r.m.Phase() != plugin.Ready { // the one in service first
				r.sync++
				r.step(plugin.Synced{Inc: 1, Sync: r.sync, Mask: api.ValidEvents})
			}
			r.want("synchronize #2")
			r.step(plugin.SyncFailed{Inc: 2, Sync: r.lastSync()})
			r.want("replace failed #2")
			r.call(1, api.Event_CREATE_CONTAINER, "c")
			r.want("send #1 1")
		})
	}
}

// lastSync is the number of the last synchronization that was asked for.
func (r *rolling) lastSync() uint64 {
	r.t.Helper()
	for _, e := range r.out {
		if s, ok := e.(plugin.Synchronize); ok {
			return s.Sync
		}
	}
	r.t.Fatal("nothing is synchronized")
	return 0
}
