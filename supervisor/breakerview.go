package supervisor

import (
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// BreakerView is a circuit breaker.
type BreakerView struct {
	State     string     `json:"state"`
	Cause     string     `json:"cause,omitempty"`
	Since     time.Time  `json:"since"`
	OpenUntil *time.Time `json:"openUntil,omitempty"`
	// WaitsFor is what has to happen before it can close; empty for one that is closed.
	WaitsFor Wait `json:"waitsFor,omitempty"`
	// Opening is how it opened last; nil: it never did.
	Opening *Opening `json:"opening,omitempty"`
}

// Wait is what a breaker that is not closed waits for. It is a closed set.
type Wait string

// What a breaker can wait for.
const (
	// WaitOperator is an operator, who switched the plugin off or tripped its breaker.
	WaitOperator Wait = "operator"
	// WaitStart is a process that is started and synchronized.
	WaitStart Wait = "start"
	// WaitTime is the end of the open time; the plugin is synchronized then, and tried.
	WaitTime Wait = "time"
	// WaitTimeOrHealth is the same, or a good health check, whichever comes first.
	WaitTimeOrHealth Wait = "time_or_health"
	// WaitCall is the next event that the plugin selects, which is the trial.
	WaitCall Wait = "call"
	// WaitFastCall is the same, and the answer must not be slow: slow calls opened the breaker.
	WaitFastCall Wait = "fast_call"
	// WaitCallOrHealth is the next event or a good health check, whichever comes first.
	WaitCallOrHealth Wait = "call_or_health"
	// WaitVerdict is the end of the trial that is under way.
	WaitVerdict Wait = "verdict"
)

// Waits lists the closed set.
func Waits() []Wait {
	return []Wait{WaitOperator, WaitStart, WaitTime, WaitTimeOrHealth, WaitCall, WaitFastCall, WaitCallOrHealth, WaitVerdict}
}

// String returns the name.
func (w Wait) String() string { return string(w) }

// waitsFor says what a breaker waits for. healthy: the plugin has health checks.
func waitsFor(g breaker.Snapshot, healthy bool) Wait {
	healthy = healthy && !g.NeedsCall
	switch {
	case g.State == breaker.StateClosed:
		return ""
	case g.State != g.Automatic:
		return WaitOperator
	case g.Probing:
		return WaitVerdict
	case g.AwaitsStart:
		return WaitStart
	case g.State == breaker.StateOpen && healthy:
		return WaitTimeOrHealth
	case g.State == breaker.StateOpen:
		return WaitTime
	case g.NeedsFast:
		return WaitFastCall
	case healthy:
		return WaitCallOrHealth
	default:
		return WaitCall
	}
}
