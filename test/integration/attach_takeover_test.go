package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestASecondConnectionTakesOverWithoutMissingAnEvent(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "ds")
	sup := harness.StartSupervisor(t, rt.Config(attachTeams, attachManifest(p, fmt.Sprintf("{allowUIDs: [%d]}", os.Geteuid()), "  timeouts: {default: 1s}")))
	rt.WaitSync()
	socket := filepath.Join(sup.Dir, "run", "attach", "ds", "nri.sock")
	old := dial(t, socket, "ds", "30")
	sup.Ready(1, "ds")
	n := 0
	create := func() {
		n++
		if got := attachedEnv(t, rt, p, fmt.Sprint("pod-", n)); got != "ds" {
			t.Errorf("pod %d: PROBE is %q", n, got)
		}
	}
	create()
	next := dial(t, socket, "ds", "30")
	harness.Eventually(t, "an event that the second one answers", func() bool {
		create()
		byNext := p.lines(func(l probeLine) bool { return l.What == "CreateContainer" && l.PID == next.cmd.Process.Pid })
		return len(byNext) > 0
	})
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "ds", "pid": old.cmd.Process.Pid, "reason": "stopped"})
	create()
	if missed := sup.Missed(); len(missed) != 0 {
		t.Errorf("missed %v", missed)
	}
	seen := map[string]int{}
	for _, l := range p.about("CreateContainer", "") {
		seen[l.ID]++
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was told %d times", id, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d containers were told, want %d", len(seen), n)
	}
}
