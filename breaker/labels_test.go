package breaker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// labels returns the strings of a closed set.
func labels[T fmt.Stringer](set []T) []string {
	var out []string
	for _, v := range set {
		out = append(out, v.String())
	}
	return out
}

func TestLabelsAreClosedSets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"outcomes", labels(breaker.Outcomes()), []string{
			"success", "rejected", "error", "timeout", "unavailable", "invalid_response", "forbidden", "conflict", "canceled", "budget",
		}},
		{"reasons", labels(breaker.Reasons()), []string{
			"breaker_open", "half_open_full", "busy", "lane_share", "quarantined", "budget", "not_ready", "disabled", "bypass",
			"match_error", "queue_overflow",
		}},
		{"states", labels(breaker.States()), []string{"closed", "open", "half_open", "forced_open", "disabled"}},
		{"causes", labels(breaker.Causes()), []string{
			"consecutive_failures", "failure_ratio", "slow_call", "hung", "exit", "health", "probe", "probe_expired", "timer",
			"started", "manual",
		}},
		{"verdicts", labels([]breaker.Verdict{breaker.VerdictExcluded, breaker.VerdictGood, breaker.VerdictBad}), []string{
			"excluded", "good", "bad",
		}},
		{"values that stand for nothing", []string{breaker.ReasonNone.String(), breaker.CauseNone.String()}, []string{"none", "none"}},
		{"values outside the sets", []string{
			breaker.Outcome(99).String(), breaker.Reason(99).String(), breaker.State(99).String(),
			breaker.Cause(99).String(), breaker.Verdict(99).String(),
		}, []string{"outcome(99)", "reason(99)", "state(99)", "cause(99)", "verdict(99)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the lists hold every value of the types that has a name", func(t *testing.T) {
		t.Parallel()
		outcomes, reasons, states, causes := 0, 0, 0, 0
		named := func(s fmt.Stringer) int {
			if strings.Contains(s.String(), "(") {
				return 0
			}
			return 1
		}
		for v := range uint8(255) {
			outcomes += named(breaker.Outcome(v))
			reasons += named(breaker.Reason(v))
			states += named(breaker.State(v))
			causes += named(breaker.Cause(v))
		}
		got := []int{outcomes, reasons - 1, states, causes - 1} // none is not listed
		want := []int{len(breaker.Outcomes()), len(breaker.Reasons()), len(breaker.States()), len(breaker.Causes())}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("named values of outcome, reason, state and cause (-listed +named):\n%s", diff)
		}
	})
}

func TestTheTableOfWhatCounts(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, o := range breaker.Outcomes() {
		got[o.String()] = o.Verdict().String()
	}
	want := map[string]string{
		"success": "good", "rejected": "good", "conflict": "good",
		"error": "bad", "timeout": "bad", "unavailable": "bad", "invalid_response": "bad", "forbidden": "bad",
		"canceled": "excluded", "budget": "excluded",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}
