package main

import (
	"slices"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// TestEachReasonOfAnExitIsAValueOfTheMetric: the manual lists what an alert can ask for.
func TestEachReasonOfAnExitIsAValueOfTheMetric(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(supervisor.Metrics(), func(m supervisor.Metric) bool { return m.Name == "plugin_exits_total" })
	if i < 0 {
		t.Fatal("there is no such metric")
	}
	for _, l := range supervisor.Metrics()[i].Labels {
		if l.Name != "reason" {
			continue
		}
		for _, r := range isolation.Reasons() {
			if !slices.Contains(l.Values, r.String()) {
				t.Errorf("%q is not among %q", r, l.Values)
			}
		}
		if len(l.Values) != len(isolation.Reasons()) {
			t.Errorf("the metric has the values %q, and a process ends for %q", l.Values, isolation.Reasons())
		}
	}
}
