package supervisor_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

var update = flag.Bool("update", false, "write docs/metrics.md instead of comparing with it; never in CI")

const metricsIntro = `# Metrics

` + "`/metrics`" + ` at the metrics address (` + "`metrics.address`" + `, default ` + "`127.0.0.1:9464`" + `). This page is generated from the code (` + "`make golden`" + `); a test compares. What reasons, outcomes, states
and causes mean is in [Operating nri-supervisor](operating.md), alerts and a dashboard are in ` + "`deploy/monitoring`" + `.

Values of labels are closed sets, but for names and versions; there are no labels for pods. One plugin has at most %d series, whatever happens to it: combinations
of labels that come with what happens share a pool, and when it is used up further ones are counted under the value ` + "`%s`" + `, so that sums stay right. Counters of
calls appear with 0 when a plugin has subscribed to the event; a plugin's series go when it leaves the configuration. Histograms are exposed with the buckets shown, and as
native histograms to a Prometheus that asks for them. No scrape changes anything.

`

func metricsPage() string {
	var b strings.Builder
	fmt.Fprintf(&b, metricsIntro, supervisor.MaxPluginSeries, supervisor.OtherSeries)
	b.WriteString("| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n")
	for _, m := range supervisor.Metrics() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.FullName(), m.Kind, m.Unit, strings.Join(labels, ", "), m.Help)
	}
	b.WriteString("\n## Values of labels\n\n| metric | label | values |\n|---|---|---|\n")
	for _, m := range supervisor.Metrics() {
		for _, l := range m.Labels {
			if l.Values == nil {
				continue
			}
			values := "`" + strings.Join(l.Values, "`, `") + "`"
			if l.Other {
				values += "; `" + supervisor.OtherSeries + "`"
			}
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", m.Name, l.Name, values)
		}
	}
	b.WriteString("\n## Buckets\n\n| histogram | upper bounds |\n|---|---|\n")
	for _, m := range supervisor.Metrics() {
		if m.Kind == supervisor.MetricHistogram {
			fmt.Fprintf(&b, "| `%s` | %s %s |\n", m.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Buckets), " ", ", "), "[]"), m.Unit)
		}
	}
	return b.String()
}

func TestThePageOfMetricsIsGeneratedFromTheCode(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "docs", "metrics.md")
	page := metricsPage()
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page, string(old)); diff != "" {
		t.Errorf("docs/metrics.md is not what the code says; make golden writes it anew (-code +page):\n%s", diff)
	}
}

func TestEachMetricHasAUnitAndAMeaning(t *testing.T) {
	t.Parallel()
	for _, m := range supervisor.Metrics() {
		if m.Unit == "" || !strings.HasSuffix(m.Help, ".") && m.Kind != supervisor.MetricGauge && m.Help == "" {
			t.Errorf("%s: unit %q, help %q", m.Name, m.Unit, m.Help)
		}
		if strings.HasSuffix(m.Name, "_total") != (m.Kind == supervisor.MetricCounter) {
			t.Errorf("%s is a %s: counters, and only they, end in _total", m.Name, m.Kind)
		}
	}
}
