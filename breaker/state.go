package breaker

import (
	"fmt"
	"time"
)

// State is what a breaker shows. The set is closed: it is the label state of
// the metric breaker_state. The zero value is StateClosed.
type State uint8

// The states. The first three are automatic, the last two manual; a manual
// state hides the automatic one, and StateDisabled hides StateForcedOpen.
const (
	// StateClosed lets calls through.
	StateClosed State = iota
	// StateOpen refuses every call until its open time is over or, when the
	// process is down, until a new incarnation has started.
	StateOpen
	// StateHalfOpen lets one call through, whose verdict decides.
	StateHalfOpen
	// StateForcedOpen refuses every call until Reset.
	StateForcedOpen
	// StateDisabled refuses every call until Enable.
	StateDisabled
)

// States returns every state, for one-hot metrics.
func States() []State {
	return []State{StateClosed, StateOpen, StateHalfOpen, StateForcedOpen, StateDisabled}
}

// String returns the label value, for example "half_open", and "state(N)" for a
// value outside the set.
func (s State) String() string {
	switch s {
	case StateClosed:
		return "closed"
	case StateOpen:
		return "open"
	case StateHalfOpen:
		return "half_open"
	case StateForcedOpen:
		return "forced_open"
	case StateDisabled:
		return "disabled"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Cause is why a breaker changed its state. The set is closed: it is the label
// cause of the metric breaker_transitions_total. The zero value, CauseNone, is
// the cause of a guard that has never changed.
type Cause uint8

// The causes, in the order of [Causes].
const (
	// CauseNone is no change so far.
	CauseNone Cause = iota
	// CauseConsecutiveFailures is a series of failures without a good call.
	CauseConsecutiveFailures
	// CauseFailureRatio is too large a share of failures in the window.
	CauseFailureRatio
	// CauseSlowCall is too large a share of slow calls in the window.
	CauseSlowCall
	// CauseHung is a call that was overdue.
	CauseHung
	// CauseExit is a process that ended or a connection that was lost.
	CauseExit
	// CauseHealth is the health check, opening or closing.
	CauseHealth
	// CauseProbe is the verdict of the half-open breaker's probe.
	CauseProbe
	// CauseProbeExpired is a probe that nobody ended in time.
	CauseProbeExpired
	// CauseTimer is the end of the open time, found by the next call.
	CauseTimer
	// CauseStarted is a new incarnation that is synchronized.
	CauseStarted
	// CauseManual is an operator.
	CauseManual
)

// Causes returns every cause of a transition, so without CauseNone.
func Causes() []Cause {
	return []Cause{
		CauseConsecutiveFailures, CauseFailureRatio, CauseSlowCall, CauseHung, CauseExit, CauseHealth,
		CauseProbe, CauseProbeExpired, CauseTimer, CauseStarted, CauseManual,
	}
}

// String returns the label value, for example "consecutive_failures", and
// "cause(N)" for a value outside the set.
func (c Cause) String() string {
	switch c {
	case CauseNone:
		return "none"
	case CauseConsecutiveFailures:
		return "consecutive_failures"
	case CauseFailureRatio:
		return "failure_ratio"
	case CauseSlowCall:
		return "slow_call"
	case CauseHung:
		return "hung"
	case CauseExit:
		return "exit"
	case CauseHealth:
		return "health"
	case CauseProbe:
		return "probe"
	case CauseProbeExpired:
		return "probe_expired"
	case CauseTimer:
		return "timer"
	case CauseStarted:
		return "started"
	case CauseManual:
		return "manual"
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// Transition is one change of the state that a guard shows. What happens to the
// automatic state while a manual one hides it is not a transition.
type Transition struct {
	// From and To always differ.
	From, To State
	// Cause is never CauseNone.
	Cause Cause
	// At is when it happened. Transitions of one guard never go back in time.
	At time.Time
	// OpenFor is how long the breaker stays open when To is StateOpen. It is
	// zero for every other state, and when the process is down, because then
	// the breaker stays open until Started.
	OpenFor time.Duration
}
