package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// dump is what the chaos plugin writes of what it knows.
type dump struct {
	Containers []string `json:"containers"`
}

// known asks the chaos plugin for the ids of the containers that it knows.
func known(t *testing.T, sup *harness.Process, plugin, file string) []string {
	t.Helper()
	started := sup.Lines(func(l map[string]any) bool { return l["msg"] == "plugin started" && l["plugin"] == plugin })
	pid := int(started[len(started)-1]["pid"].(float64))
	_ = os.Remove(file)
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var d dump
	harness.Eventually(t, "the dump of "+plugin, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &d) == nil
	})
	slices.Sort(d.Containers)
	return d.Containers
}

func TestEveryEventReachesThePluginsThatSelectedItInOrder(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	file := filepath.Join(harness.TempDir(t), "dump.json")
	sup := harness.StartSupervisor(t, rt.Config(teams, chaosPlugin(t, "watches", "10", fmt.Sprintf(`, dump: %q`, file), "")))
	rt.WaitSync()
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "watches", "to": "ready"})
	ctx := t.Context()
	pod := harness.Pod("default", "a", "chaos", "watches")
	ctr := harness.Container(pod, "main")
	if err := rt.RunPod(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := rt.UpdatePod(ctx, pod, &api.LinuxResources{}, &api.LinuxResources{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Create(ctx, pod, ctr); err != nil {
		t.Fatal(err)
	}
	if err := rt.StartContainer(ctx, pod, ctr); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Update(ctx, pod, ctr, &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(100))}}); err != nil {
		t.Fatal(err)
	}
	if got, want := known(t, sup, "watches", file), []string{ctr.GetId()}; !slices.Equal(got, want) {
		t.Errorf("the plugin knows %v, want %v", got, want)
	}
	if err := rt.Remove(ctx, pod, ctr); err != nil {
		t.Fatal(err)
	}
	if err := rt.RemovePod(ctx, pod); err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{
		"RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
		"UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
	} {
		series := fmt.Sprintf(`nri_supervisor_plugin_calls_total{event=%q,outcome="success",plugin="watches"}`, e)
		harness.Eventually(t, series, func() bool { return sup.Metric(series) == "1" })
	}
	if got := known(t, sup, "watches", file); len(got) != 0 {
		t.Errorf("the plugin still knows %v", got)
	}
}

func TestPluginsSurviveTheRuntimeAndAreToldItsStateAgain(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	file := filepath.Join(harness.TempDir(t), "dump.json")
	sup := harness.StartSupervisor(t, rt.Config(teams, chaosPlugin(t, "stays", "10", fmt.Sprintf(`, dump: %q`, file), "")))
	rt.WaitSync()
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "stays", "to": "ready"})
	for i := range 3 {
		rt.Stop()
		sup.WaitLine(i+1, "runtime lost", nil)
		pod := harness.Pod("default", fmt.Sprint("new", i), "chaos", "stays")
		rt.Preload(pod, harness.Container(pod, "main"))
		rt.Start()
		rt.WaitSync()
		sup.WaitLine(i+2, "plugin changed state", map[string]any{"plugin": "stays", "to": "ready"})
		live := rt.Live()
		slices.Sort(live)
		if got := known(t, sup, "stays", file); !slices.Equal(got, live) {
			t.Errorf("after restart %d the plugin knows %v, want %v", i, got, live)
		}
	}
	if n := len(sup.Lines(func(l map[string]any) bool { return l["msg"] == "plugin started" })); n != 1 {
		t.Errorf("the plugin was started %d times, want once", n)
	}
	missed := sup.Metric(`nri_supervisor_missed_containers{plugin="stays",reason="supervisor_down",team="net"}`)
	if missed != "3" {
		t.Errorf("missed containers = %q, want 3: they were created while the runtime was not connected", missed)
	}
}

func TestTwoPluginsThatConflictCostTheLaterOneItsReply(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	both := func(name, index string) string {
		return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: net
  index: %[2]q
  exec: {path: %[3]q}
  config: {env: {WHO: %[1]s, ONLY_%[2]s: "1"}}
  selector: {}
---
`, name, index, harness.Plugin(t, "env-injector"))
	}
	sup := harness.StartSupervisor(t, rt.Config(teams, both("first", "10")+both("second", "20")+both("third", "30")))
	rt.WaitSync()
	for _, p := range []string{"first", "second", "third"} {
		sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": p, "to": "ready"})
	}
	pod := harness.Pod("default", "a")
	rpl, err := rt.Create(t.Context(), pod, harness.Container(pod, "main"))
	if err != nil {
		t.Fatal(err)
	}
	got := env(rpl.GetAdjust())
	if got["WHO"] != "first" || got["ONLY_10"] != "1" || got["ONLY_20"] != "" || got["ONLY_30"] != "" {
		t.Errorf("env %v, want the first plugin's reply whole and nothing of the others", got)
	}
	if got := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]; got != "second=conflict,third=conflict" {
		t.Errorf("annotation %q", got)
	}
	if n := sup.Metric(`nri_supervisor_conflicts_total{field="Env",plugin="second",team="net",with="first",with_team="net"}`); n != "1" {
		t.Errorf("conflicts of the second plugin over Env = %q, want 1", n)
	}
}

func TestFailurePolicyFailRefusesTheContainerWithWordsForPeople(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	team := `
  teams:
    net: {contact: "#net", allow: {failurePolicyFail: true}}
`
	sup := harness.StartSupervisor(t, rt.Config(team, chaosPlugin(t, "strict", "10", `, faults: [{event: CreateContainer, action: error}]`, "  failurePolicy: Fail")))
	rt.WaitSync()
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "strict", "to": "ready"})
	pod := harness.Pod("default", "a", "chaos", "strict")
	_, err := rt.Create(t.Context(), pod, harness.Container(pod, "main"))
	if err == nil {
		t.Fatal("the container was created")
	}
	for _, want := range []string{`plugin "strict"`, `team "net"`, "#net", "error", "circuit breaker closed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q lacks %q", err, want)
		}
	}
	critical := harness.Pod("kube-system", "dns", "chaos", "strict")
	if _, err := rt.Create(t.Context(), critical, harness.Container(critical, "main")); err != nil {
		t.Errorf("a critical pod was refused: %v", err)
	}
	other := harness.Pod("default", "b")
	if _, err := rt.Create(t.Context(), other, harness.Container(other, "main")); err != nil {
		t.Errorf("a pod that nobody selected was refused: %v", err)
	}
}
