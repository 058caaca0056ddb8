package integration_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// chaosPlugin is a chaos plugin of team net that selects pods with the label chaos=NAME. extra is YAML of its spec.
func chaosPlugin(tb testing.TB, name, index, config, extra string) string {
	tb.Helper()
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: net
  index: %[2]q
  exec: {path: %[3]q}
  config: {name: %[1]s%[4]s}
  selector: {podSelector: {matchLabels: {chaos: %[1]s}}}
  restart: {backoff: 50ms}
  breaker: {openDuration: 200ms}
%[5]s
---
`, name, index, harness.Plugin(tb, "chaos"), config, extra)
}

func TestAHangingPluginCostsOneTimeoutAndIsReplaced(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)+
		chaosPlugin(t, "hangs", "10", `, faults: [{event: CreateContainer, action: hang, annotation: "hang=yes"}]`, "  timeouts: {default: 200ms}\n  overdueAfter: 600ms")))
	rt.WaitSync()
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "hangs", "to": "ready"})

	bad := harness.Pod("default", "bad", "chaos", "hangs", "accelerator", "gpu")
	bad.Annotations["hang"] = "yes"
	begin := time.Now()
	rpl, err := rt.Create(t.Context(), bad, harness.Container(bad, "main"))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond || took > 700*time.Millisecond {
		t.Errorf("the first event took %s, want about one timeout of 200ms", took)
	}
	if got := env(rpl.GetAdjust()); got["GPU"] != "1" || got["CHAOS"] != "" {
		t.Errorf("env %v, want the healthy plugin's work only", got)
	}
	if got := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]; got != "hangs=timeout" {
		t.Errorf("annotation of missed work = %q, want hangs=timeout", got)
	}
	begin = time.Now()
	other := harness.Pod("default", "other", "chaos", "hangs")
	if _, err := rt.Create(t.Context(), other, harness.Container(other, "main")); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 100*time.Millisecond {
		t.Errorf("the next event took %s, want an answer at once", took)
	}
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "hangs", "reason": "hung"})
	sup.WaitLine(2, "plugin changed state", map[string]any{"plugin": "hangs", "to": "ready"})
	good := harness.Pod("default", "good", "chaos", "hangs")
	rpl, err = rt.Create(t.Context(), good, harness.Container(good, "main"))
	if err != nil {
		t.Fatal(err)
	}
	if got := env(rpl.GetAdjust()); got["CHAOS"] != "hangs" {
		t.Errorf("env %v after the plugin came back, want its work", got)
	}
	if n := rt.Syncs(); n != 1 {
		t.Errorf("%d registrations, want 1", n)
	}
}

func TestAPluginKilledWhileIdleComesBackAndIsToldTheState(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := harness.StartSupervisor(t, rt.Config(teams, chaosPlugin(t, "dies", "10", "", "")))
	rt.WaitSync()
	pod := harness.Pod("default", "a", "chaos", "dies")
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "dies", "to": "ready"})
	if _, err := rt.Create(t.Context(), pod, harness.Container(pod, "main")); err != nil {
		t.Fatal(err)
	}
	pid := int(sup.WaitLine(1, "plugin started", map[string]any{"plugin": "dies"})["pid"].(float64))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "dies", "reason": "signal"})
	l := sup.WaitLine(2, "plugin synchronized", map[string]any{"plugin": "dies"})
	if got := l["containers"]; got != float64(1) {
		t.Errorf("the new incarnation was told of %v containers, want 1", got)
	}
	sup.WaitLine(2, "plugin changed state", map[string]any{"plugin": "dies", "to": "ready"})
	other := harness.Pod("default", "b", "chaos", "dies")
	rpl, err := rt.Create(t.Context(), other, harness.Container(other, "main"))
	if err != nil {
		t.Fatal(err)
	}
	if got := env(rpl.GetAdjust()); got["CHAOS"] != "dies" {
		t.Errorf("env %v after the restart, want the plugin's work", got)
	}
}
