package breaker

import "fmt"

// Reason is why an event was not sent to a plugin that had been selected for
// it. The set is closed: it is the label reason of the metrics about refused
// calls. The guard itself gives BreakerOpen, HalfOpenFull, Busy, LaneShare,
// Quarantined and Disabled; the other values belong to its callers and are here
// so that the set has one home. The zero value, ReasonNone, means admitted.
type Reason uint8

// The reasons, in the order of [Reasons].
const (
	// ReasonNone means that the call was admitted.
	ReasonNone Reason = iota
	// ReasonBreakerOpen is an open breaker, by itself or by hand.
	ReasonBreakerOpen
	// ReasonHalfOpenFull is a half-open breaker whose one probe is under way.
	ReasonHalfOpenFull
	// ReasonBusy is a call that has not come back from the plugin.
	ReasonBusy
	// ReasonLaneShare is a plugin that has kept the node waiting too long.
	ReasonLaneShare
	// ReasonQuarantined is a pod that harmed the plugin too often.
	ReasonQuarantined
	// ReasonBudget is an event with no time left for this plugin.
	ReasonBudget
	// ReasonNotReady is a plugin that is not running or not synchronized.
	ReasonNotReady
	// ReasonDisabled is a plugin that was disabled by hand.
	ReasonDisabled
	// ReasonBypass is a supervisor that was told to do nothing for a while.
	ReasonBypass
	// ReasonMatchError is a match condition that could not be evaluated.
	ReasonMatchError
	// ReasonQueueOverflow is a queue of notifications that was full.
	ReasonQueueOverflow
)

// Reasons returns every reason for a refusal, so without ReasonNone, for
// metrics that start at zero.
func Reasons() []Reason {
	return []Reason{
		ReasonBreakerOpen, ReasonHalfOpenFull, ReasonBusy, ReasonLaneShare, ReasonQuarantined, ReasonBudget,
		ReasonNotReady, ReasonDisabled, ReasonBypass, ReasonMatchError, ReasonQueueOverflow,
	}
}

// String returns the label value, for example "half_open_full", and "reason(N)"
// for a value outside the set.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "none"
	case ReasonBreakerOpen:
		return "breaker_open"
	case ReasonHalfOpenFull:
		return "half_open_full"
	case ReasonBusy:
		return "busy"
	case ReasonLaneShare:
		return "lane_share"
	case ReasonQuarantined:
		return "quarantined"
	case ReasonBudget:
		return "budget"
	case ReasonNotReady:
		return "not_ready"
	case ReasonDisabled:
		return "disabled"
	case ReasonBypass:
		return "bypass"
	case ReasonMatchError:
		return "match_error"
	case ReasonQueueOverflow:
		return "queue_overflow"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
