package breaker

import "time"

// Snapshot is what there is to see of a guard at one moment. It shares nothing
// with the guard.
type Snapshot struct {
	// State, since when it shows, and why. Cause is CauseNone and Since the time
	// of New for a guard that has never changed.
	State State
	Since time.Time
	Cause Cause
	// Automatic is StateClosed, StateOpen or StateHalfOpen: the state behind a
	// manual one, else the same as State.
	Automatic State
	// OpenUntil is when an automatic StateOpen lets a call through. It is zero
	// in the other states and when AwaitsStart is set.
	OpenUntil time.Time
	// AwaitsStart is set when the process is down: open until Started.
	AwaitsStart bool
	// Probing is set while the probe of the half-open state has no verdict yet.
	Probing bool
	// NeedsCall is set when only a good call can close the breaker, NeedsFast when
	// that call must not be slow either. Both are false while it is closed.
	NeedsCall, NeedsFast bool
	// OpenDuration is how long the latest opening was meant to last; zero when
	// it never opened.
	OpenDuration time.Duration
	// Good and Bad are the calls in the window, Slow those of both that were
	// slow. They start again when the breaker closes.
	Good, Bad, Slow uint32
	// ConsecutiveFailures is the longest series of bad calls of one event, now or before the opening.
	ConsecutiveFailures uint32
	// GoodCalls since the latest opening; at 10 the open time starts over.
	GoodCalls int
	// Busy is set while a call has not come back from the plugin.
	Busy bool
	// Quarantined are the pods that the plugin does not get now, most recently
	// met first; nil when there are none.
	Quarantined []QuarantinedPod
	// LaneTokens is the waiting time that is left of the lane share; below zero
	// when more was used. It is the whole burst when the lane share is off.
	LaneTokens time.Duration
	// LaneTotal is the total of Charge and Excuse.
	LaneTotal time.Duration
	// OpenTotal is how long the guard has shown open or forced_open.
	OpenTotal time.Duration
}

// QuarantinedPod is a pod that the plugin does not get for a while.
type QuarantinedPod struct {
	// Pod is the key given to Admit.
	Pod string
	// Until is when the quarantine ends by itself.
	Until time.Time
	// Strikes is how often the pod crashed, hung or failed the plugin.
	Strikes int
}

// Snapshot returns what there is to see now. It changes nothing.
func (g *Guard) Snapshot() Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	c := &g.circuit
	sum := c.calls.sum(now)
	s := Snapshot{
		State:               g.shown,
		Since:               g.since,
		Cause:               g.cause,
		Automatic:           c.state,
		AwaitsStart:         c.state == StateOpen && c.down,
		Probing:             g.probe != nil,
		NeedsCall:           c.needsCall && c.state != StateClosed,
		NeedsFast:           c.needsFast && c.state != StateClosed,
		OpenDuration:        c.openFor,
		Good:                sum.good,
		Bad:                 sum.bad,
		Slow:                sum.slow,
		ConsecutiveFailures: c.consecutive.longest(),
		GoodCalls:           c.goodCalls,
		Busy:                g.inflight != nil,
		Quarantined:         g.pods.list(now),
		LaneTokens:          g.lane.level(&g.cfg, now),
		LaneTotal:           g.lane.total,
		OpenTotal:           g.openTotalLocked(now),
	}
	if c.state == StateOpen && !c.down {
		s.OpenUntil = c.openUntil
	}
	return s
}
