package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// rewrite replaces the manifests of a supervisor as a whole.
func rewrite(t *testing.T, sup *harness.Process, text string) {
	t.Helper()
	file := filepath.Join(sup.Dir, "plugins.d", "plugins.yaml")
	if err := os.WriteFile(file+".tmp", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
}

// inEnvironment is the manifest of a chaos plugin whose process has one variable more.
func inEnvironment(manifest, name, value string) string {
	return strings.Replace(strings.Replace(manifest, "env: [", fmt.Sprintf("env: [{name: %s, value: %q}, ", name, value), 1), "exec: {path", fmt.Sprintf("exec: {env: [{name: %s, value: %q}], path", name, value), 1)
}

func TestTheCureOfAPluginIsRolledOutWhileItsBreakerIsOpen(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sick := strings.Replace(chaosPlugin(t, "a", "10", `, faults: [{event: CreateContainer, action: "error:x"}]`, ""), "openDuration: 200ms", "openDuration: 1h, maxOpenDuration: 1h", 1)
	sup := start(t, rt, teams, sick, "a")
	for i := range 20 {
		created(t, rt, harness.Pod("default", fmt.Sprint("bad", i), "chaos", "a"))
	}
	if state := statusOf(t, sup, "a").Breaker.State; state != "open" {
		t.Fatalf("the breaker is %s", state)
	}
	rewrite(t, sup, inEnvironment(sick, "CHAOS_START", "exit:3"))
	sup.WaitLine(1, "configuration reloaded", map[string]any{"result": "partial"})
	healthy := inEnvironment(strings.Replace(sick, "event: CreateContainer", "event: Shutdown", 1), "V", "2")
	rewrite(t, sup, healthy)
	sup.WaitLine(1, "configuration reloaded", map[string]any{"result": "success"})
	if _, rpl := created(t, rt, harness.Pod("default", "good", "chaos", "a")); env(rpl.GetAdjust())["CHAOS"] != "a" {
		t.Errorf("after the cure: %v", rpl.GetAdjust())
	}
	act(t, sup, "trip", "a")
	rewrite(t, sup, inEnvironment(healthy, "W", "3"))
	sup.WaitLine(2, "configuration reloaded", map[string]any{"result": "success"})
	sup.WaitLine(2, "plugin replaced while in service", nil)
	if _, rpl := created(t, rt, harness.Pod("default", "tripped", "chaos", "a")); rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"] != "a=breaker_open" {
		t.Errorf("a trip ended with the process: %v", rpl.GetAdjust())
	}
	act(t, sup, "reset", "a")
	harness.Eventually(t, "service after the reset", func() bool {
		_, rpl := created(t, rt, harness.Pod("default", "later", "chaos", "a"))
		return env(rpl.GetAdjust())["CHAOS"] == "a"
	})
}

func TestABrokenReplacementLeavesAPluginAloneThatIsBeingToldTheState(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	text := chaosPlugin(t, "a", "10", `, faults: [{event: Synchronize, action: "slow:500ms"}]`, "")
	sup := start(t, rt, teams, text, "a")
	pid := sup.PluginPID("a")
	rt.Cut()
	rt.WaitSync()
	rewrite(t, sup, inEnvironment(text, "CHAOS_START", "exit:3"))
	sup.WaitLine(1, "configuration reloaded", map[string]any{"result": "partial"})
	if why := statusOf(t, sup, "a").LastError; !strings.Contains(why, "the process in service stays") {
		t.Errorf("last error: %s", why)
	}
	harness.Eventually(t, "service", func() bool {
		_, rpl := created(t, rt, harness.Pod("default", "one", "chaos", "a"))
		return env(rpl.GetAdjust())["CHAOS"] == "a"
	})
	if got := sup.PluginPID("a"); got != pid {
		t.Errorf("process %d serves, before it was %d", got, pid)
	}
}
