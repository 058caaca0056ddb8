package integration_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestDoctorSeesTheRealServiceAndItsRuntime(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	look := func() map[string]string {
		t.Helper()
		_, out, errs := sup.Command("doctor", "--wait", "1m", "-o", "json", "--config", filepath.Join(sup.Dir, "config.yaml")) // the exit code is about this machine as well
		var report struct {
			Findings []struct{ Check, Result, What string }
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v: %s%s", err, out, errs)
		}
		found := map[string]string{}
		for _, f := range report.Findings {
			if found[f.Check] == "" || f.Result == "problem" {
				found[f.Check] = f.Result + ": " + f.What
			}
		}
		return found
	}
	found := look()
	for check, want := range map[string]string{
		"service":  "ok: registered with harness 1.0.0",
		"socket":   fmt.Sprintf("ok: %s is a socket", rt.Socket),
		"required": "ok: no plugin is required for every container",
	} {
		if got := found[check]; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
	rt.Stop()
	harness.Eventually(t, "the loss of the runtime", func() bool {
		got := look()["service"]
		return len(got) > 7 && got[:7] == "problem"
	})
}
