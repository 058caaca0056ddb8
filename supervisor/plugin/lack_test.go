package plugin_test

import (
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// TestWhatTheNodeLacksIsNoCrashLoop: starts that fail for it are tried again with the growing wait of any restart, and do not count with those that fail for the plugin's sake.
func TestWhatTheNodeLacksIsNoCrashLoop(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := plugin.New(plugin.Config{Backoff: time.Second, MaxBackoff: 4 * time.Second, CrashLoopExits: 2, CrashLoopWithin: time.Hour, CrashLoopRetry: time.Hour})
	m.Step(now, plugin.Start{})
	var waits []time.Duration
	fail := func(lack bool) {
		t.Helper()
		inc := m.Incarnation()
		for _, e := range m.Step(now, plugin.LaunchFailed{Inc: inc, Lack: lack}) {
			if arm, ok := e.(plugin.Arm); ok && arm.Timer.Kind == plugin.Retry {
				waits = append(waits, arm.After)
				now = now.Add(arm.After)
				m.Step(now, arm.Timer)
			}
		}
	}
	for i := range 10 {
		fail(true)
		if m.Phase() != plugin.Starting || len(waits) != i+1 || waits[i] > 4*time.Second {
			t.Fatalf("after %d starts: %s, waits %v", i+1, m.Phase(), waits)
		}
	}
	fail(false)
	fail(true)
	if last := waits[len(waits)-1]; last > 4*time.Second {
		t.Errorf("one failure of its own is a loop: it waits %s", last)
	}
	fail(false)
	if last := waits[len(waits)-1]; last != time.Hour {
		t.Errorf("two failures of its own are none: it waits %s", last)
	}
}
