package main

import (
	"os"
	"path/filepath"
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
	explained := []string{stateInvalid, "supervisor_down", "before_install", "state_lost"}
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
		isolation.ReasonStartFailed, isolation.ReasonStopped, isolation.ReasonDisconnected,
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
