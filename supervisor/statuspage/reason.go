package statuspage

import "github.com/nri-supervisor/nri-supervisor/breaker"

// reasonTexts says in words why a plugin's work is missing. The keys are the label values of the metrics.
func reasonTexts() map[string]string {
	out := map[string]string{
		// These are no answer to a call: the supervisor found the container in what the runtime told it.
		"supervisor_down": "created while nri-supervisor was away",
		"before_install":  "created before the plugin was installed",
		"state_lost":      "nobody knows whether the work was done: the state directory was lost or damaged",
	}
	for r, text := range map[breaker.Reason]string{
		breaker.ReasonBreakerOpen:   "the plugin's breaker was open, so it was not asked",
		breaker.ReasonHalfOpenFull:  "the plugin was being tried with another call",
		breaker.ReasonBusy:          "the plugin had not come back from an earlier call",
		breaker.ReasonLaneShare:     "the plugin had used up its share of the node's time",
		breaker.ReasonQuarantined:   "this pod harmed the plugin too often",
		breaker.ReasonBudget:        "no time was left before the runtime's deadline",
		breaker.ReasonNotReady:      "the plugin was not running or not ready",
		breaker.ReasonDisabled:      "an operator had disabled the plugin",
		breaker.ReasonBypass:        "an operator had switched everything off",
		breaker.ReasonMatchError:    "a match condition could not be evaluated",
		breaker.ReasonQueueOverflow: "too many notifications waited for the plugin",
	} {
		out[r.String()] = text
	}
	for o, text := range map[breaker.Outcome]string{
		breaker.OutcomeError:           "the plugin returned an error",
		breaker.OutcomeTimeout:         "the plugin did not answer in time",
		breaker.OutcomeUnavailable:     "the plugin's process or connection ended",
		breaker.OutcomeInvalidResponse: "the plugin's answer was malformed",
		breaker.OutcomeForbidden:       "the plugin set what it was not granted",
		breaker.OutcomeConflict:        "another plugin had set the same",
		breaker.OutcomeCanceled:        "the event was given up",
		breaker.OutcomeRejected:        "the plugin refused on purpose",
	} {
		out[o.String()] = text
	}
	return out
}
