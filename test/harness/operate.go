package harness

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Ask runs a command of the command line against this supervisor, with -o json, decodes what it says into out, and fails the test if it fails.
func (p *Process) Ask(out any, args ...string) {
	p.tb.Helper()
	code, stdout, stderr := p.Command(append(args, "-o", "json")...)
	if code != 0 {
		p.tb.Fatalf("nri-supervisor %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), out); err != nil {
		p.tb.Fatalf("nri-supervisor %s: %v\n%s", strings.Join(args, " "), err, stdout)
	}
}

// Command runs a command of the command line against this supervisor.
func (p *Process) Command(args ...string) (code int, stdout, stderr string) {
	p.tb.Helper()
	return Run(p.tb, append(args, "--socket", filepath.Join(p.Dir, "run", "admin.sock"))...)
}

// MissedWork is one row of `nri-supervisor missed -o json`.
type MissedWork struct {
	Namespace, Pod, Container, Plugin, Team, Reason string
	ContainerID                                     string `json:"containerId"`
}

// Missed asks for the containers that run without a plugin's work.
func (p *Process) Missed() []MissedWork {
	p.tb.Helper()
	var out []MissedWork
	p.Ask(&out, "missed")
	return out
}

// Ready waits until the plugin has become ready for the nth time (from 1).
func (p *Process) Ready(nth int, plugin string) {
	p.tb.Helper()
	p.WaitLine(nth, "plugin changed state", map[string]any{"plugin": plugin, "to": "ready"})
}

// PluginPID returns the process of the plugin's newest incarnation.
func (p *Process) PluginPID(plugin string) int {
	p.tb.Helper()
	p.WaitLine(1, "plugin started", map[string]any{"plugin": plugin})
	started := p.Lines(func(l map[string]any) bool { return l["msg"] == "plugin started" && l["plugin"] == plugin })
	return int(started[len(started)-1]["pid"].(float64))
}

// Starts is how many incarnations of the plugin came up.
func (p *Process) Starts(plugin string) int {
	return len(p.Lines(func(l map[string]any) bool { return l["msg"] == "plugin started" && l["plugin"] == plugin }))
}

// Sum adds up the series of a metric that have all these labels; labels are written as exposed, like plugin="a".
func (p *Process) Sum(name string, labels ...string) float64 {
	p.tb.Helper()
	_, body := p.Get("/metrics")
	return SumOf(p.tb, body, name, labels...)
}

// SumOf is Sum in a text of metrics.
func SumOf(tb testing.TB, text, name string, labels ...string) float64 {
	tb.Helper()
	sum := 0.0
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(series, name+"{") {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(series, l)
		}
		if !all {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			tb.Fatalf("metric %q: %v", line, err)
		}
		sum += v
	}
	return sum
}
