package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// TestPluginsThatShareALaneAreBoundedTogether: what one used up the other has not, each is still bounded by its own, and who left the share is free.
func TestPluginsThatShareALaneAreBoundedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		admitted := func(g *breaker.Guard, queued bool) breaker.Reason {
			ticket, reason := g.AdmitCall(breaker.Call{Queued: queued})
			if ticket != nil {
				ticket.End(breaker.OutcomeCanceled)
				ticket.Returned()
			}
			return reason
		}
		want := func(what string, g *breaker.Guard, reason breaker.Reason) {
			t.Helper()
			if got := admitted(g, false); got != reason {
				t.Errorf("%s: %v, want %v", what, got, reason)
			}
		}
		lane := breaker.NewSharedLane(0.2, 300*time.Millisecond)
		a, b := breaker.New(breaker.Config{}, nil, nil), breaker.New(breaker.Config{LaneRatio: 0.1, LaneBurst: 100 * time.Millisecond}, nil, nil)
		a.ShareLane(lane)
		b.ShareLane(lane)
		a.Charge(250 * time.Millisecond)
		want("b before", b, breaker.ReasonNone)
		b.Charge(60 * time.Millisecond)
		want("a after both", a, breaker.ReasonLaneShare)
		want("b after both", b, breaker.ReasonLaneShare)
		if got := admitted(a, true); got != breaker.ReasonNone {
			t.Errorf("a call that nobody waits for: %v", got)
		}
		time.Sleep(51 * time.Millisecond) // 10.2 ms of waiting
		want("a when it is refilled", a, breaker.ReasonNone)
		b.Charge(50 * time.Millisecond)
		time.Sleep(time.Second)
		b.Charge(100 * time.Millisecond)
		want("b beyond its own", b, breaker.ReasonLaneShare)
		want("a within the common one", a, breaker.ReasonNone)
		a.Charge(time.Second)
		lane.Reconfigure(0.5, time.Second)
		want("a with what was used up before the change", a, breaker.ReasonLaneShare)
		a.ShareLane(nil)
		want("a alone", a, breaker.ReasonNone)
		if got := a.LaneSeconds(); got != 1.25 {
			t.Errorf("a held the lane for %v s", got)
		}
		off := breaker.NewSharedLane(0, 0)
		a.ShareLane(off)
		a.Charge(time.Hour)
		want("a in a share that is off", a, breaker.ReasonNone)
	})
}
