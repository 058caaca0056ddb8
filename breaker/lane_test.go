package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestLaneShare(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{LaneRatio: 0.2, LaneBurst: 300 * time.Millisecond}

	onFakeTime(t, "a plugin that used up its share is refused until the bucket is above zero", cfg, func(b *bench) {
		b.Charge(299 * time.Millisecond)
		b.wantRefusedLane(breaker.ReasonNone)
		b.Charge(time.Millisecond)
		b.wantRefusedLane(breaker.ReasonLaneShare)
		time.Sleep(5 * time.Millisecond) // 1 ms of waiting
		b.wantRefusedLane(breaker.ReasonNone)
		b.wantState(breaker.StateClosed) // neither a failure
		b.wantLog()
	})
	onFakeTime(t, "a long wait is paid back in full", cfg, func(b *bench) {
		b.Charge(1300 * time.Millisecond)
		time.Sleep(5 * time.Second)
		b.wantRefusedLane(breaker.ReasonLaneShare)
		time.Sleep(time.Millisecond)
		b.wantRefusedLane(breaker.ReasonNone)
	})
	onFakeTime(t, "a wait that is not the plugin's doing shows and costs nothing", cfg, func(b *bench) {
		b.Excuse(2 * time.Second)
		b.Excuse(-time.Second)
		b.wantRefusedLane(breaker.ReasonNone)
		if got := b.LaneSeconds(); got != 2 {
			t.Errorf("%v s in all, want 2", got)
		}
	})
	onFakeTime(t, "no more than the burst is saved up", cfg, func(b *bench) {
		time.Sleep(24 * time.Hour)
		b.Charge(300 * time.Millisecond)
		b.wantRefusedLane(breaker.ReasonLaneShare)
	})
	onFakeTime(t, "over time the plugin keeps the node waiting for its ratio at most", cfg, func(b *bench) {
		const call, pause = 300 * time.Millisecond, 100 * time.Millisecond
		admitted := 0
		start := time.Now()
		for time.Since(start) < time.Hour {
			if ticket, reason := b.Admit(""); reason == breaker.ReasonNone {
				time.Sleep(call)
				b.Charge(call)
				ticket.End(breaker.OutcomeSuccess)
				ticket.Returned()
				admitted++
			}
			time.Sleep(pause)
		}
		if got := b.LaneSeconds() / time.Since(start).Seconds(); got < 0.19 || got > 0.201 {
			b.t.Errorf("kept the node waiting for %.4f of the time in %d calls, want 0.2", got, admitted)
		}
	})
	onFakeTime(t, "a call that nobody waits for is not refused", cfg, func(b *bench) {
		b.Charge(time.Hour)
		b.wantRefusedLane(breaker.ReasonLaneShare)
		b.admitCall(breaker.Call{Queued: true})
	})
	onFakeTime(t, "is off by default and counts all the same", breaker.DefaultConfig(), func(b *bench) {
		b.Charge(time.Hour)
		b.Charge(1500 * time.Millisecond)
		b.wantRefusedLane(breaker.ReasonNone)
		if got := b.LaneSeconds(); got != 3601.5 {
			b.t.Errorf("lane seconds = %v, want 3601.5", got)
		}
		if s := b.Snapshot(); s.LaneTokens != 300*time.Millisecond || s.LaneTotal != 3601500*time.Millisecond {
			b.t.Errorf("snapshot: %v left, %v in total; want 300ms and 1h0m1.5s", s.LaneTokens, s.LaneTotal)
		}
	})
	onFakeTime(t, "a wait that is not positive is none", cfg, func(b *bench) {
		b.Charge(200 * time.Millisecond)
		b.Charge(-time.Hour)
		b.Charge(0)
		if s := b.Snapshot(); s.LaneTokens != 100*time.Millisecond || s.LaneTotal != 200*time.Millisecond {
			b.t.Errorf("snapshot: %v left, %v in total; want 100ms and 200ms", s.LaneTokens, s.LaneTotal)
		}
	})
	onFakeTime(t, "no wait is long enough to overflow", cfg, func(b *bench) {
		for range 1000 {
			b.Charge(math.MaxInt64)
		}
		b.wantRefusedLane(breaker.ReasonLaneShare)
	})
	onFakeTime(t, "a burst of zero is the default and not a plugin that is always refused", breaker.Config{LaneRatio: 0.2},
		func(b *bench) { b.wantRefusedLane(breaker.ReasonNone) })
	onFakeTime(t, "switching it on starts with a full bucket and changing it keeps the level", breaker.Config{},
		func(b *bench) {
			b.Charge(time.Hour)
			b.Reconfigure(cfg)
			b.wantLevel(300 * time.Millisecond)
			b.Charge(400 * time.Millisecond)
			b.Reconfigure(breaker.Config{LaneRatio: 0.5, LaneBurst: time.Second})
			b.wantLevel(-100 * time.Millisecond)
			time.Sleep(time.Second)
			b.wantLevel(400 * time.Millisecond)
			b.Reconfigure(breaker.Config{LaneRatio: 0.5, LaneBurst: 50 * time.Millisecond})
			b.wantLevel(50 * time.Millisecond)
			b.Charge(time.Hour)
			b.Reconfigure(breaker.Config{})
			b.wantRefusedLane(breaker.ReasonNone)
			b.wantLevel(300 * time.Millisecond)
			b.Reconfigure(breaker.Config{LaneRatio: 0.2, LaneBurst: time.Second})
			b.wantLevel(time.Second)
		})
}

// wantRefusedLane asks and gives an admitted ticket back at once.
func (b *bench) wantRefusedLane(want breaker.Reason) {
	b.t.Helper()
	ticket, got := b.Admit("")
	if got != want {
		b.t.Errorf("admit with %v left: %v, want %v", b.Snapshot().LaneTokens, got, want)
	}
	if ticket != nil {
		ticket.End(breaker.OutcomeCanceled)
		ticket.Returned()
	}
}

func (b *bench) wantLevel(want time.Duration) {
	b.t.Helper()
	if got := b.Snapshot().LaneTokens; (got - want).Abs() > time.Microsecond {
		b.t.Errorf("lane tokens = %v, want %v", got, want)
	}
}
