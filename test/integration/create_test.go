package integration_test

import (
	"fmt"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// teams declares the teams that the tests use.
const teams = `
  teams:
    ml-infra: {contact: "#ml-infra"}
    net: {contact: "#net"}
`

// gpuEnv is an env-injector for pods with accelerator=gpu.
func gpuEnv(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: gpu-env}
spec:
  team: ml-infra
  index: "20"
  exec: {path: %q}
  config: {env: {GPU: "1"}}
  selector: {podSelector: {matchLabels: {accelerator: gpu}}}
---
`, harness.Plugin(tb, "env-injector"))
}

func env(a *api.ContainerAdjustment) map[string]string {
	out := map[string]string{}
	for _, e := range a.GetEnv() {
		out[e.GetKey()] = e.GetValue()
	}
	return out
}

func TestAPluginAdjustsTheContainersItSelectsAndNoOthers(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
	rt.WaitSync()
	sup.WaitLine(1, "plugin changed state", map[string]any{"plugin": "gpu-env", "to": "ready"})

	gpu := harness.Pod("default", "train", "accelerator", "gpu")
	rpl, err := rt.Create(t.Context(), gpu, harness.Container(gpu, "main"))
	if err != nil {
		t.Fatal(err)
	}
	if got := env(rpl.GetAdjust()); got["GPU"] != "1" {
		t.Errorf("selected container got env %v, want GPU=1", got)
	}
	cpu := harness.Pod("default", "web")
	rpl, err = rt.Create(t.Context(), cpu, harness.Container(cpu, "main"))
	if err != nil {
		t.Fatal(err)
	}
	if got := env(rpl.GetAdjust()); len(got) != 0 {
		t.Errorf("container that nobody selected got env %v", got)
	}
	if got := sup.Metric(`nri_supervisor_plugin_calls_total{event="CreateContainer",outcome="success",plugin="gpu-env"}`); got != "1" {
		t.Errorf("calls of the plugin = %q, want 1", got)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}
