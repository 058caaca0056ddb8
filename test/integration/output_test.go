package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestAPluginThatIsStillStartingHasItsPidInTheLogAndIsNoErrorAtAStop(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	script := filepath.Join(harness.TempDir(t), "mute")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $$ >&2\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sup := harness.StartSupervisor(t, rt.Config(teams, fmt.Sprintf(`
apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: mute}
spec:
  team: ml-infra
  index: "20"
  exec: {path: %q, protocol: nri}
  timeouts: {start: 10m}
  selector: {}
`, script)))
	line := sup.WaitLine(1, "plugin output", map[string]any{"plugin": "mute"})
	if pid := fmt.Sprint(line["pid"]); pid == "0" || pid != line["text"] {
		t.Errorf("pid %s, and the plugin says it is %v", pid, line["text"])
	}
	sup.Stop()
	sup.WaitLine(1, "start of plugin given up", map[string]any{"plugin": "mute", "level": "info"})
	if n := len(sup.Lines(func(l map[string]any) bool { return l["msg"] == "plugin did not start" })); n != 0 {
		t.Errorf("%d lines say that it did not start", n)
	}
}
