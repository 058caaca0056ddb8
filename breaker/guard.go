package breaker

import (
	"time"
)

// Guard is the bookkeeping and the verdicts about one plugin. Make one with
// [New]; the zero value is not usable. All methods are safe for concurrent use.
type Guard struct{ cfg Config }

// New returns a closed guard. rand gives the jitter of open times, from 0 to 1,
// and may be nil for math/rand. onTransition, if not nil, is told each
// transition, in order, one at a time, and never while the guard is locked.
func New(cfg Config, rand func() float64, onTransition func(Transition)) *Guard {
	_, _ = rand, onTransition
	return &Guard{cfg: cfg.normalized()}
}

// Call describes a call that wants to be admitted.
type Call struct {
	// Pod is a key of the pod that stays the same when the kubelet retries
	// it (its uid, or namespace/name). "" = not tied to a pod.
	Pod string
	// Work names what the call does for the pod, for example
	// "CreateContainer/main". A success forgives only errors of the same Work.
	Work string
	// Queued marks a call that nobody waits for: the lane share does not apply.
	Queued bool
}

// Ticket is one admitted call.
type Ticket struct{ g *Guard }

// Admit is AdmitCall for a call of pod that an event waits for.
func (g *Guard) Admit(pod string) (*Ticket, Reason) { return g.AdmitCall(Call{Pod: pod}) }

// AdmitCall admits a call or says why not; the ticket is nil exactly when the
// reason is not ReasonNone.
func (g *Guard) AdmitCall(Call) (*Ticket, Reason) { return &Ticket{g: g}, ReasonNone }

// Probe reports whether this call is the probe of a half-open breaker.
func (t *Ticket) Probe() bool { return false }

// Sent says that the request goes out now.
func (t *Ticket) Sent() {}

// End gives the verdict, once; later calls do nothing.
func (t *Ticket) End(Outcome) {}

// Returned says that the call came back, late or not: the plugin is not busy.
func (t *Ticket) Returned() {}

// Hung says that the call in flight is overdue.
func (g *Guard) Hung(pod string) { _ = pod }

// Exited says that the process exited or the connection was lost.
func (g *Guard) Exited(pod string) { _ = pod }

// Started says that a new incarnation is synchronized.
func (g *Guard) Started(newVersion bool) { _ = newVersion }

// HealthFailed says that the health check failed as often as its threshold.
func (g *Guard) HealthFailed() {}

// HealthOK says that a health check succeeded.
func (g *Guard) HealthOK() {}

// Trip opens the breaker by hand, until Reset.
func (g *Guard) Trip() {}

// Reset closes the breaker by hand.
func (g *Guard) Reset() {}

// Disable refuses everything until Enable.
func (g *Guard) Disable() {}

// Enable ends Disable.
func (g *Guard) Enable() {}

// Unquarantine forgets what pod did, or all pods when pod is "", and returns
// how many quarantines it ended.
func (g *Guard) Unquarantine(pod string) int { _ = pod; return 0 }

// Reconfigure changes the rules and keeps states, quarantines and tickets.
func (g *Guard) Reconfigure(cfg Config) { _ = cfg }

// Charge books d of waiting that this plugin caused.
func (g *Guard) Charge(d time.Duration) { _ = d }

// State returns the state that shows. It never changes it.
func (g *Guard) State() State { return StateClosed }

// LaneSeconds returns the total of Charge, in seconds.
func (g *Guard) LaneSeconds() float64 { return 0 }

// OpenSeconds returns how long the breaker has been open or forced open.
func (g *Guard) OpenSeconds() float64 { return 0 }

// Snapshot returns what there is to see.
func (g *Guard) Snapshot() Snapshot { return Snapshot{} }

// Snapshot is the state of a guard at one moment.
type Snapshot struct {
	State               State
	Since               time.Time
	Cause               Cause
	OpenUntil           time.Time // zero unless open for a known time
	AwaitsStart         bool      // open until Started
	OpenDuration        time.Duration
	Good, Bad, Slow     uint32 // in the window
	ConsecutiveFailures uint32
	GoodCalls           int
	Busy                bool
	Quarantined         []QuarantinedPod
	LaneTokens          time.Duration
	LaneTotal           time.Duration
	OpenTotal           time.Duration
}

// QuarantinedPod is a pod that the plugin does not get.
type QuarantinedPod struct {
	Pod     string
	Until   time.Time
	Strikes int
}
