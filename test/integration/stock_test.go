package integration_test

import (
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestAStockPluginIsHostedAsItIsAndReplacedWhenItMustBeToldAgain(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	manifest := strings.Replace(gpuEnv(t), "exec: {path:", "exec: {protocol: nri, path:", 1) // started without the handshake, the binary is an ordinary NRI plugin
	sup := harness.StartSupervisor(t, rt.Config(teams, manifest))
	rt.WaitSync()
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "gpu-env", "to": "ready"})
	adjusted := func(name string) {
		t.Helper()
		pod := harness.Pod("default", name, "accelerator", "gpu")
		rpl, err := rt.Create(t.Context(), pod, harness.Container(pod, "main"))
		if err != nil {
			t.Fatal(err)
		}
		if got := env(rpl.GetAdjust()); got["GPU"] != "1" {
			t.Errorf("env %v, want the plugin's work", got)
		}
	}
	adjusted("first")
	rt.Stop()
	sup.WaitLine(1, "runtime lost", nil)
	rt.Start()
	rt.WaitSync()
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "gpu-env", "reason": "stopped"})
	sup.WaitLine(2, "plugin changed state", map[string]any{"plugin": "gpu-env", "to": "ready"})
	if got := sup.WaitLine(2, "plugin synchronized", nil)["containers"]; got != float64(1) {
		t.Errorf("the new process was told of %v containers, want 1", got)
	}
	adjusted("second")
}
