package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const demoExposition = `# HELP nri_supervisor_containers_missed_total Containers created without a plugin's work.
# TYPE nri_supervisor_containers_missed_total counter
nri_supervisor_containers_missed_total{plugin="a",reason="busy",team="x"} 3
nri_supervisor_containers_missed_total{plugin="a",reason="timeout",team="x"} 2
nri_supervisor_containers_missed_total{plugin="b",reason="busy",team="y"} 1
nri_supervisor_containers_missed_total{plugin="a",reason="error",team="x"} 0
nri_supervisor_runtime_sessions_total 1
nri_supervisor_odd{text="a \"quoted\" \\ one, with } and = in it\n"} 1.5e+03 1700000000
other_metric{plugin="a"} NaN
`

func TestMetricsAreReadAsAPrometheusServerReadsThem(t *testing.T) {
	t.Parallel()
	m, err := parseDemoMetrics(demoExposition)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.with("containers_missed_total", "plugin", "a").sum(); got != 5 {
		t.Errorf("sum for plugin a = %d, want 5", got)
	}
	if d := cmp.Diff(map[string]int{"busy": 3, "timeout": 2}, m.with("containers_missed_total", "plugin", "a").by("reason")); d != "" {
		t.Errorf("sums by reason:\n%s", d)
	}
	if got := m.with("containers_missed_total", "plugin", "a", "team", "y").sum(); got != 0 {
		t.Errorf("both labels have to match, got %d", got)
	}
	if got := m.with("runtime_sessions_total").sum(); got != 1 {
		t.Errorf("metric without labels = %d, want 1", got)
	}
	if got := m.with("odd", "text", "a \"quoted\" \\ one, with } and = in it\n").sum(); got != 1500 {
		t.Errorf("metric with an odd label and a time stamp = %d, want 1500", got)
	}
	if got := m.with("missed_total").sum(); got != 0 {
		t.Errorf("part of a name matched: %d", got)
	}
}

func TestWhatIsNoMetricIsAnErrorThatQuotesIt(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"nothing", `a{b="c"`, `a{b=c} 1`, `a{b} 1`, `a{b="c"} many`, `a{b="c} 1`, `a 1x`} {
		if m, err := parseDemoMetrics(line + "\n"); err == nil {
			t.Errorf("%q was read as %v", line, m)
		} else if !strings.Contains(err.Error(), "read metric") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
