package monitoring_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rule is one alert.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, "rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 10 {
		t.Fatalf("found %d alerts", len(out))
	}
	return out
}

var (
	selector = regexp.MustCompile(`(nri_supervisor_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
)

// targetLabels are what Prometheus adds to each series.
var targetLabels = []string{"instance", "job"}

// check says what is wrong with the metrics that an expression names.
func check(t *testing.T, where, expr string) (found int) {
	t.Helper()
	table := map[string]supervisor.Metric{}
	for _, m := range supervisor.Metrics() {
		table[m.FullName()] = m
		if m.Kind == supervisor.MetricHistogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				table[m.FullName()+suffix] = m
			}
		}
	}
	for _, hit := range selector.FindAllStringSubmatch(expr, -1) {
		found++
		m, known := table[hit[1]]
		if !known || m.Kind == supervisor.MetricHistogram && hit[1] == m.FullName() {
			t.Errorf("%s names the metric %s, which does not exist", where, hit[1])
			continue
		}
		for _, label := range matcher.FindAllStringSubmatch(hit[2], -1) {
			i := slices.IndexFunc(m.Labels, func(l supervisor.MetricLabel) bool { return l.Name == label[1] })
			switch {
			case i < 0 && slices.Contains(targetLabels, label[1]):
			case i < 0:
				t.Errorf("%s: %s has no label %s", where, hit[1], label[1])
			case m.Labels[i].Values != nil:
				for v := range strings.SplitSeq(label[3], "|") {
					if !slices.Contains(m.Labels[i].Values, v) {
						t.Errorf("%s: %s{%s} is never %q", where, hit[1], label[1], v)
					}
				}
			}
		}
	}
	return found
}

func TestEachAlertNamesMetricsThatExistAndHasAChapterInTheRunbookAndATest(t *testing.T) {
	t.Parallel()
	runbook, tests := read(t, "..", "..", "docs", "runbook.md"), read(t, "rules_test.yaml")
	chapters := regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(runbook, -1)
	var known []string
	for _, c := range chapters {
		known = append(known, c[1])
	}
	var names []string
	for _, r := range rules(t) {
		names = append(names, r.Alert)
		if check(t, r.Alert, r.Expr) == 0 && r.Alert != "NRISupervisorDown" {
			t.Errorf("%s names no metric of ours", r.Alert)
		}
		if want := "/docs/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
			t.Errorf("%s has runbook_url %q, want one that ends in %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !slices.Contains(known, r.Alert) {
			t.Errorf("docs/runbook.md has no chapter %q", r.Alert)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", r.Alert)
		}
		if n := strings.Count(tests, "alertname: "+r.Alert+"\n") + strings.Count(tests, "alertname: "+r.Alert+","); n < 2 {
			t.Errorf("rules_test.yaml tests %s %d times; when it fires and when it does not are two", r.Alert, n)
		}
	}
	for _, c := range known {
		if strings.HasPrefix(c, "NRI") && !slices.Contains(names, c) {
			t.Errorf("docs/runbook.md has a chapter for %q, which is no alert", c)
		}
	}
}

// TestEachAlertOnAPluginSaysWhosePluginItIs: who is called at night knows whom to call next.
func TestEachAlertOnAPluginSaysWhosePluginItIs(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Alerts []struct {
				Alertname string
				Expected  []struct {
					Labels      map[string]string `yaml:"exp_labels"`
					Annotations map[string]string `yaml:"exp_annotations"`
				} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "rules_test.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, test := range file.Tests {
		for _, alert := range test.Alerts {
			for _, e := range alert.Expected {
				if e.Labels["plugin"] == "" && !strings.Contains(e.Annotations["summary"], "gpu-env") {
					continue
				}
				seen++
				says := func(label string) bool { // "other" stands for what has no name
					return e.Labels[label] == "other" && !strings.Contains(e.Annotations["summary"], " other ") || e.Labels[label] != "" && strings.Contains(e.Annotations["summary"], e.Labels[label])
				}
				if !says("plugin") || !says("team") {
					t.Errorf("%s is about a plugin and does not say which, or whose: labels %v, %q", alert.Alertname, e.Labels, e.Annotations["summary"])
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("found %d alerts on plugins", seen)
	}
}

func TestThePanelsOfTheDashboardNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			// Variables of Grafana stand for any value.
			expr := regexp.MustCompile(`\w+=~"\$\w+",?`).ReplaceAllString(target.Expr, "")
			if check(t, "panel "+p.Title, expr) == 0 {
				t.Errorf("panel %q names no metric of ours: %s", p.Title, target.Expr)
			}
		}
	}
	if len(board.Panels) < 10 {
		t.Errorf("found %d panels", len(board.Panels))
	}
	for _, v := range board.Templating.List {
		query, err := json.Marshal(v.Query)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "variable "+v.Name, regexp.MustCompile(`\w+=~\\"\$\w+\\",?`).ReplaceAllString(string(query), ""))
	}
}

func TestAWrongMetricOrLabelIsFound(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]int{"nri_supervisor_plugin_up": 1, "up": 0, `nri_supervisor_breaker_state{state="open"} or nri_supervisor_plugin_up{plugin="x"}`: 2} {
		if got := check(t, "the test", expr); got != want {
			t.Errorf("found %d metrics in %s, want %d", got, expr, want)
		}
	}
}
