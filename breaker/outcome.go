package breaker

import "fmt"

// Outcome is how one call that was admitted ended, seen by the caller. The set
// is closed: the design's metric plugin_calls_total has these values as its
// label outcome. The zero value is OutcomeSuccess.
type Outcome uint8

// The outcomes, in the order of [Outcomes].
const (
	// OutcomeSuccess is an answer that was used.
	OutcomeSuccess Outcome = iota
	// OutcomeRejected is a refusal on purpose by a plugin that may refuse.
	OutcomeRejected
	// OutcomeError is an error that the plugin returned.
	OutcomeError
	// OutcomeTimeout is a call that used up the plugin's whole timeout.
	OutcomeTimeout
	// OutcomeUnavailable is a call that lost its process or connection.
	OutcomeUnavailable
	// OutcomeInvalidResponse is an answer that cannot be used: malformed,
	// too large, or a contradiction in itself.
	OutcomeInvalidResponse
	// OutcomeForbidden is an answer that asks for what was not granted.
	OutcomeForbidden
	// OutcomeConflict is a good answer that lost against another plugin's.
	OutcomeConflict
	// OutcomeCanceled is a call that the caller gave up for its own reasons.
	OutcomeCanceled
	// OutcomeBudget is a call that was cut shorter than the plugin's timeout
	// because the runtime's deadline was near, and used all that it got.
	OutcomeBudget
)

// Outcomes returns every outcome, for metrics that start at zero.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeSuccess, OutcomeRejected, OutcomeError, OutcomeTimeout, OutcomeUnavailable,
		OutcomeInvalidResponse, OutcomeForbidden, OutcomeConflict, OutcomeCanceled, OutcomeBudget,
	}
}

// String returns the label value, for example "invalid_response", and
// "outcome(N)" for a value outside the set.
func (o Outcome) String() string {
	switch o {
	case OutcomeSuccess:
		return "success"
	case OutcomeRejected:
		return "rejected"
	case OutcomeError:
		return "error"
	case OutcomeTimeout:
		return "timeout"
	case OutcomeUnavailable:
		return "unavailable"
	case OutcomeInvalidResponse:
		return "invalid_response"
	case OutcomeForbidden:
		return "forbidden"
	case OutcomeConflict:
		return "conflict"
	case OutcomeCanceled:
		return "canceled"
	case OutcomeBudget:
		return "budget"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Verdict is what an outcome says about the plugin. The zero value is
// VerdictExcluded.
type Verdict uint8

// The verdicts.
const (
	// VerdictExcluded says nothing: it is not counted, and releases the slot
	// of a half-open breaker without moving it.
	VerdictExcluded Verdict = iota
	// VerdictGood is an answer: it ends a series of failures and closes a
	// half-open breaker.
	VerdictGood
	// VerdictBad is a failure: it counts towards opening and opens a
	// half-open breaker.
	VerdictBad
)

// String returns "excluded", "good" or "bad", and "verdict(N)" for a value
// outside the set.
func (v Verdict) String() string {
	switch v {
	case VerdictExcluded:
		return "excluded"
	case VerdictGood:
		return "good"
	case VerdictBad:
		return "bad"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Verdict is the table of what counts:
//
//	success, rejected, conflict                                   good
//	error, timeout, unavailable, invalid_response, forbidden      bad
//	canceled, budget, anything outside the set                    excluded
//
// A rejection and a lost conflict are good because the plugin did its work in
// time. Two things change a verdict: an error of a pod that already had one
// counted is excluded ([Ticket.End]), and a slow answer is bad while it probes
// a breaker that slow calls opened.
func (o Outcome) Verdict() Verdict {
	switch o {
	case OutcomeSuccess, OutcomeRejected, OutcomeConflict:
		return VerdictGood
	case OutcomeError, OutcomeTimeout, OutcomeUnavailable, OutcomeInvalidResponse, OutcomeForbidden:
		return VerdictBad
	case OutcomeCanceled, OutcomeBudget:
		return VerdictExcluded
	}
	return VerdictExcluded
}
