package statuspage

import (
	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// CauseText says in words why a breaker changed; what is no cause comes back as it is.
func CauseText(cause string) string {
	for c, text := range map[breaker.Cause]string{
		breaker.CauseConsecutiveFailures: "several calls in a row failed",
		breaker.CauseFailureRatio:        "too many of its calls failed",
		breaker.CauseSlowCall:            "too many of its calls were slow",
		breaker.CauseHung:                "a call hung, so the process was killed",
		breaker.CauseExit:                "the process ended",
		breaker.CauseHealth:              "its health check failed",
		breaker.CauseProbe:               "a trial call failed",
		breaker.CauseProbeExpired:        "a trial call never ended",
		breaker.CauseTimer:               "the open time is over",
		breaker.CauseStarted:             "it was started or told the state anew",
		breaker.CauseManual:              "an operator did it",
	} {
		if c.String() == cause {
			return text
		}
	}
	return cause
}

// WaitText says in words what a breaker waits for; empty for one that waits for nothing.
func WaitText(w supervisor.Wait) string {
	switch w {
	case supervisor.WaitOperator:
		return "an operator has to end it"
	case supervisor.WaitStart:
		return "its process has to be started and synchronized"
	case supervisor.WaitTime:
		return "it is synchronized and tried when the open time is over"
	case supervisor.WaitTimeOrHealth:
		return "a good health check closes it, or a trial when the open time is over"
	case supervisor.WaitCall:
		return "the next event that selects it is the trial"
	case supervisor.WaitFastCall:
		return "the next event that selects it is the trial, and a slow answer will not do"
	case supervisor.WaitCallOrHealth:
		return "a good health check closes it, or the next event that selects it as a trial"
	case supervisor.WaitVerdict:
		return "a trial call is under way"
	default:
		return ""
	}
}
