package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// operatingRows returns the page and, by the name in their first cell, the rows of its tables.
func operatingRows(t *testing.T) (page string, rows map[string][]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string][]string{}
	for line := range strings.Lines(string(data)) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
			rows[name] = append(rows[name], rest)
		}
	}
	return string(data), rows
}

func TestEachReasonAndStateIsExplainedInTheManual(t *testing.T) {
	t.Parallel()
	page, rows := operatingRows(t)
	explained := []string{stateInvalid, "supervisor_down", "before_install"}
	for _, r := range breaker.Reasons() {
		explained = append(explained, r.String())
	}
	for _, o := range breaker.Outcomes() {
		explained = append(explained, o.String())
	}
	for _, s := range breaker.States() {
		explained = append(explained, s.String())
	}
	for _, p := range plugin.Phases() {
		explained = append(explained, p.String())
	}
	for _, name := range explained {
		if len(rows[name]) == 0 {
			t.Errorf("docs/operating.md has no row for %q", name)
		}
	}
	var named []string
	for _, c := range breaker.Causes() {
		named = append(named, c.String())
	}
	for _, r := range []isolation.Reason{
		isolation.ReasonClean, isolation.ReasonExitCode, isolation.ReasonSignal, isolation.ReasonOOM, isolation.ReasonHung, isolation.ReasonHealth,
		isolation.ReasonStartFailed, isolation.ReasonStopped,
	} {
		named = append(named, string(r))
	}
	for _, a := range pluginActions() {
		if a.name != "enable" {
			named = append(named, "plugin "+a.name)
		}
	}
	for _, name := range named {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/operating.md does not name %q", name)
		}
	}
}

func TestEachMetricIsInTheManualWithItsLabels(t *testing.T) {
	t.Parallel()
	page, rows := operatingRows(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "supervisor", "metrics*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of metrics: %v", err)
	}
	metric := regexp.MustCompile(`(?s)\b(?:counter|gauge|histogram|desc)\(\s*"([a-z_]+)",\s*"[^"]*"(.*?)\)`)
	plain := regexp.MustCompile(`Name: "([a-z_]+)"()`)
	label := regexp.MustCompile(`"([a-z_0-9]+)"`)
	known := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source := strings.ReplaceAll(string(data), "durationBuckets()", "nil")
		for _, m := range append(metric.FindAllStringSubmatch(source, -1), plain.FindAllStringSubmatch(source, -1)...) {
			known[m[1]] = true
			if len(rows[m[1]]) != 1 {
				t.Errorf("docs/operating.md has %d rows for the metric %q, want 1", len(rows[m[1]]), m[1])
				continue
			}
			labels, _, _ := strings.Cut(rows[m[1]][0], "|")
			var want []string
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				want = append(want, "`"+l[1]+"`")
			}
			if got := strings.TrimSpace(labels); got != strings.Join(want, ", ") {
				t.Errorf("docs/operating.md: metric %q has labels %s, want %s", m[1], got, strings.Join(want, ", "))
			}
		}
	}
	if least := 25; len(known) < least { // else the source is written in a way that this test does not see
		t.Errorf("found %d metrics in the source, fewer than %d", len(known), least)
	}
	_, metrics, _ := strings.Cut(page, "\n## Metrics\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(metrics, -1) {
		if !known[m[1]] {
			t.Errorf("docs/operating.md tells of the metric %q, which does not exist", m[1])
		}
	}
}
