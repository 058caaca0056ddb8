package plugin_test

import (
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// patient asks for a blocking delivery with a share of 200 ms, for which the runtime would wait for 2 s.
func (r *rolling) patient(id plugin.CallID, ctr string) {
	r.step(plugin.Call{Request: plugin.Request{
		ID: id, Event: api.Event_CREATE_CONTAINER, Ref: plugin.Ref{Pod: "p", Container: ctr}, PodKey: "p", Blocking: true, Timeout: 200 * time.Millisecond,
		Overdue: 5 * time.Second, Share: 200 * time.Millisecond, Deadline: r.now.Add(200 * time.Millisecond), Until: r.now.Add(2 * time.Second),
	}})
}

// takes lets the synchronization that was asked for last take a while, with an event every 100 ms that fires when its share is over.
func (r *rolling) takes(d time.Duration, id plugin.CallID) plugin.CallID {
	sync, inc := r.lastSync(), plugin.Incarnation(2)
	var shares []plugin.Effect
	for end := r.now.Add(d); r.now.Before(end); r.now = r.now.Add(100 * time.Millisecond) {
		for _, e := range shares {
			r.step(e.(plugin.Arm).Timer)
			r.wantNot("answer")
		}
		r.patient(id, string(rune('a'+id)))
		shares = shares[:0]
		for _, e := range r.out {
			if a, ok := e.(plugin.Arm); ok && a.Timer.Kind == plugin.Share {
				shares = append(shares, a)
			}
		}
		if flying, ok := r.m.Flying(); ok {
			r.done(r.m.Incarnation(), flying)
		}
		id++
	}
	r.step(plugin.Synced{Inc: inc, Sync: sync, Mask: api.ValidEvents})
	return id
}

func TestASlowSuccessorIsWaitedForAsLongAsTheRuntimeWaits(t *testing.T) {
	t.Parallel()
	r := newRolling(t, true)
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2, InPlace: true})
	id := r.takes(time.Second, 1) // the one in service goes on meanwhile
	r.want("arm hold #2", "synchronize #2")
	first := id
	r.takes(time.Second, id)
	r.want("swapped #1 #2")
	for ; ; id = flyingNow(r) {
		r.done(2, id)
		if flyingNow(r) == 0 {
			break
		}
	}
	if id < first+5 {
		t.Errorf("only calls %d to %d waited", first, id)
	}
}

func flyingNow(r *rolling) plugin.CallID {
	id, _ := r.m.Flying()
	return id
}

func TestNoCallWaitsForASuccessorThatTakesTooLong(t *testing.T) {
	t.Parallel()
	r := newRolling(t, true)
	r.step(plugin.Replace{})
	r.step(plugin.Launched{Inc: 2, InPlace: true})
	id := plugin.CallID(1)
	for range 10 {
		id = r.takes(1900*time.Millisecond, id)
		r.want("synchronize #2")
		r.wantNot("arm hold")
	}
	r.takes(1900*time.Millisecond, id)
	r.want("replace failed #2: no moment was found between two events in which it could be told the state, which takes 1.9s while events can wait for 1.8s")
	r.patient(1000, "x")
	r.want("send #1 1000")
}

func TestASuccessorIsTriedWhereASynchronizationInPlaceWouldCostEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		took  time.Duration
		in    plugin.Reconfigure
		wants string
	}{
		{150 * time.Millisecond, plugin.Reconfigure{}, "synchronize #1 2 configure again"},
		{160 * time.Millisecond, plugin.Reconfigure{}, "launch #2"},
		{160 * time.Millisecond, plugin.Reconfigure{Restart: true}, "synchronize #1 2 configure again"}, // its restart would cost no less
	} {
		r := &rolling{t: t, now: time.Unix(1000, 0), m: plugin.New(plugin.Config{StableAfter: time.Minute, Share: 300 * time.Millisecond})}
		r.step(plugin.Start{})
		r.step(plugin.RuntimeUp{Session: 1})
		r.step(plugin.Launched{Inc: 1, InPlace: true})
		r.now = r.now.Add(tc.took)
		r.step(plugin.Synced{Inc: 1, Sync: 1, Mask: api.ValidEvents})
		r.step(tc.in)
		r.want(tc.wants)
	}
}
