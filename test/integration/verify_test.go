package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestWhatAKilledTrialLeavesBehindIsRemovedByTheNextOne(t *testing.T) {
	t.Parallel()
	events, temp := t.TempDir(), harness.TempDir(t)
	config := filepath.Join(t.TempDir(), "slow.conf")
	for path, text := range map[string]string{
		filepath.Join(events, "1.json"): `{"event":"RunPodSandbox","pod":{"id":"p","name":"a","namespace":"d"}}`,
		config:                          `{"name":"x","faults":[{"event":"RunPodSandbox","action":"slow:1h"}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), harness.Supervisor(t), append([]string{"verify", "--events", events}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		return cmd
	}
	killed := verify(harness.Plugin(t, "chaos"), "--plugin-config", config, "--timeout", "1h")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	left := func(pattern string) []string {
		paths, err := filepath.Glob(filepath.Join(temp, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	harness.Eventually(t, "a trial with a plugin", func() bool { return len(left("*/*/plugins/*/*")) > 0 })
	_ = killed.Process.Kill() // it runs until then
	_ = killed.Wait()         // which it says as well
	if len(left("*")) != 1 {
		t.Fatalf("the trial that was killed has left %q, so that nothing is shown", left("*"))
	}
	// On a busy machine the killed one's guardians may still be at work.
	harness.Eventually(t, "nothing left of the killed trial", func() bool {
		if out, err := verify("/bin/true").CombinedOutput(); err == nil {
			t.Errorf("/bin/true is no plugin: %s", out)
		}
		return len(left("*")) == 0
	})
}
