package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func readJSON(t *testing.T, file string, out any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reasons maps the pods of missed work to why.
func reasons(list []harness.MissedWork) map[string]string {
	out := map[string]string{}
	for _, m := range list {
		out[m.Pod] = m.Reason
	}
	return out
}

func TestWhatHappenedWhileTheSupervisorWasAwayIsKnownAfterwards(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := rt.Config(teams, gpuEnv(t))
	early := harness.Pod("default", "early", "accelerator", "gpu")
	rt.Preload(early, harness.Container(early, "main"))
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	harness.Eventually(t, "the container from before the first run", func() bool { return reasons(sup.Missed())["early"] == "before_install" })
	if why := outcome(t, rt, "good"); why != "" {
		t.Fatal(why)
	}
	act(t, sup, "trip", "gpu-env")
	if why := outcome(t, rt, "tripped"); why != "breaker_open" {
		t.Errorf("while tripped: %q", why)
	}
	act(t, sup, "reset", "gpu-env")
	onDisk(t, filepath.Join(dir, "state"), "tripped") // what had not got there is taken for supervisor_down, which is said, too
	plugin := sup.PluginPID("gpu-env")
	sup.Kill()
	harness.Eventually(t, "the end of the dead supervisor's plugin", func() bool { return !harness.Alive(plugin) })
	meanwhile := harness.Pod("default", "meanwhile", "accelerator", "gpu")
	if _, rpl := created(t, rt, meanwhile); len(rpl.GetAdjust().GetEnv()) != 0 {
		t.Errorf("adjusted by a supervisor that is dead: %v", rpl.GetAdjust())
	}
	created(t, rt, harness.Pod("default", "meanwhile-cpu"))
	again := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	again.Ready(1, "gpu-env")
	want := map[string]string{"early": "before_install", "tripped": "breaker_open", "meanwhile": "supervisor_down"}
	var got map[string]string
	harness.Eventually(t, "the missed work of before", func() bool {
		got = reasons(again.Missed())
		return len(got) >= len(want)
	})
	for pod, why := range want {
		if got[pod] != why {
			t.Errorf("pod %s misses the work for reason %q, want %q", pod, got[pod], why)
		}
	}
	if len(got) != len(want) {
		t.Errorf("missed %v, want %v", got, want)
	}
	again.WaitLine(1, "container found without a plugin's work", map[string]any{"pod": "meanwhile", "reason": "supervisor_down", "plugin": "gpu-env"})
	for pod, why := range map[string]string{"before_install": "1", "breaker_open": "1", "supervisor_down": "1"} {
		if n := again.Metric(`nri_supervisor_missed_containers{plugin="gpu-env",reason="` + pod + `",team="ml-infra"}`); n != why {
			t.Errorf("missed_containers for %s = %q, want %s", pod, n, why)
		}
	}
	if why := outcome(t, rt, "after"); why != "" {
		t.Errorf("after the restart: %s", why)
	}
	if code := again.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := again.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// onDisk waits until some file of the folder contains the text.
func onDisk(t *testing.T, folder, text string) {
	t.Helper()
	harness.Eventually(t, text+" on disk", func() bool {
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(files, func(f string) bool {
			data, err := os.ReadFile(f)
			return err == nil && strings.Contains(string(data), text)
		})
	})
}

func TestASecondSupervisorDoesNotServeBesideTheFirst(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := rt.Config(teams, gpuEnv(t))
	first := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	first.Ready(1, "gpu-env")
	second := harness.StartSupervisor(t, dir)
	harness.Eventually(t, "the second supervisor to end or to wait", func() bool {
		return second.Ended() || strings.Contains(second.Log(), "another")
	})
	if n := rt.Dials(); n != 1 {
		t.Errorf("%d connections to the runtime, want the first supervisor's only", n)
	}
	if why := outcome(t, rt, "a"); why != "" {
		t.Errorf("the first no longer serves: %s", why)
	}
	if n := len(first.Children()); n != 1 {
		t.Errorf("the first has %d children, want its plugin", n)
	}
}

func TestThePluginsOfADeadSupervisorAreGoneAndLeaveNothing(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "left")
	dir := rt.Config(teams, p.manifest("10", "", "")+gpuEnv(t))
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "left")
	sup.Ready(1, "gpu-env")
	pids := []int{sup.PluginPID("left"), sup.PluginPID("gpu-env")}
	sup.Kill()
	harness.Eventually(t, "the end of the dead supervisor's plugins", func() bool {
		return !slices.ContainsFunc(pids, harness.Alive)
	})
	again := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	again.Ready(1, "left")
	again.Ready(1, "gpu-env")
	before := len(again.Files())
	if code := again.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := again.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if after := len(again.Files()); after >= before {
		t.Errorf("%d files in the run directory while running, %d after the end", before, after)
	}
}
