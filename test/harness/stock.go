package harness

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
)

// Stock is a plugin that a runtime starts by itself, as an ordinary NRI plugin.
type Stock struct {
	Index, Name string
	Path        string // its binary
	Config      string // what Configure gets
}

// NewStock starts a runtime without a supervisor: NRI's adaptation with these plugins preinstalled. A plugin that does not come up fails the test.
func NewStock(tb testing.TB, plugins ...Stock) *Runtime {
	tb.Helper()
	dir := TempDir(tb)
	bin, conf := filepath.Join(dir, "plugins"), filepath.Join(dir, "conf.d")
	for _, d := range []string{bin, conf} {
		if err := os.Mkdir(d, 0o755); err != nil { //nolint:gosec // as an administrator makes it
			tb.Fatal(err)
		}
	}
	for _, p := range plugins {
		name := p.Index + "-" + p.Name
		if err := os.Link(p.Path, filepath.Join(bin, name)); err != nil {
			tb.Fatal(err)
		}
		write(tb, filepath.Join(conf, name+".conf"), p.Config)
	}
	count := &pluginCount{}
	r := NewRuntime(tb, adaptation.WithPluginPath(bin), adaptation.WithPluginConfigPath(conf), adaptation.WithMetrics(count))
	if count.n != len(plugins) {
		tb.Fatalf("%d of %d stock plugins came up", count.n, len(plugins))
	}
	return r
}

// pluginCount is how many plugins the adaptation has; it is told while the adaptation starts.
type pluginCount struct{ n int }

// UpdatePluginCount is told the number of plugins.
func (p *pluginCount) UpdatePluginCount(n int) { p.n = n }

// RecordPluginInvocation is not needed.
func (*pluginCount) RecordPluginInvocation(string, string, error) {}

// RecordPluginLatency is not needed.
func (*pluginCount) RecordPluginLatency(string, string, time.Duration) {}

// RecordPluginAdjustments is not needed.
func (*pluginCount) RecordPluginAdjustments(string, string, *adaptation.ContainerAdjustment, int, int) {
}
