package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plugin is a manifest; program is a binary of this repository, config is YAML in flow style, extra more lines of the spec.
func plugin(name, team, index, program, config, selector, extra string) string {
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %s}
spec:
  team: %s
  index: %q
  exec: {path: %q}
  config: %s
  selector: %s
  restart: {backoff: 100ms}
%s
---
`, name, team, index, filepath.Join(bin, program), config, selector, extra)
}

func TestSelectedContainersAreAdjustedAndOthersAreNot(t *testing.T) {
	n := newNode(t, "2s", "")
	s := startSupervisor(t, n.configure(
		plugin("gpu-env", "ml-infra", "20", "env-injector", `{env: {GPU: "1"}}`, `{podSelector: {matchLabels: {accelerator: gpu}}}`, "")+
			plugin("hangs", "net", "10", "chaos", `{name: hangs, faults: [{event: CreateContainer, action: hang}]}`, `{podSelector: {matchLabels: {net: slow}}}`, "  timeouts: {default: 300ms}\n  overdueAfter: 1s")+
			plugin("crashes", "net", "30", "chaos", `{name: crashes, faults: [{event: CreateContainer, action: exit}]}`, `{podSelector: {matchLabels: {net: crash}}}`, "")))
	for _, p := range []string{"gpu-env", "hangs", "crashes"} {
		s.wait(1, "plugin changed state", map[string]any{"plugin": p, "to": "ready"})
	}
	create := func(name string, labels ...string) (string, time.Duration) {
		t.Helper()
		p, err := n.runPod("default", name, labels...)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		id, err := p.create("main")
		if err != nil {
			t.Fatal(err)
		}
		return id, time.Since(begin)
	}
	gpu, _ := create("gpu", "accelerator", "gpu")
	if env := n.exec(gpu, "/bin/env"); !strings.Contains(env, "GPU=1") {
		t.Errorf("the selected container has no GPU=1:\n%s", env)
	}
	cpu, _ := create("cpu")
	if env := n.exec(cpu, "/bin/env"); strings.Contains(env, "GPU=") {
		t.Errorf("a container that nobody selected has GPU:\n%s", env)
	}
	both, took := create("both", "accelerator", "gpu", "net", "slow")
	if env := n.exec(both, "/bin/env"); !strings.Contains(env, "GPU=1") || strings.Contains(env, "CHAOS=") {
		t.Errorf("the container selected by a hanging plugin and a healthy one has:\n%s", env)
	}
	if took > 1500*time.Millisecond {
		t.Errorf("the hang cost %s", took)
	}
	crash, _ := create("crash", "accelerator", "gpu", "net", "crash")
	if env := n.exec(crash, "/bin/env"); !strings.Contains(env, "GPU=1") {
		t.Errorf("the container selected by a crashing plugin has:\n%s", env)
	}
	s.wait(1, "plugin exited", map[string]any{"plugin": "hangs", "reason": "hung"})
	s.wait(2, "plugin changed state", map[string]any{"plugin": "hangs", "to": "ready"})
	s.wait(2, "plugin changed state", map[string]any{"plugin": "crashes", "to": "ready"})
}

func TestPluginsSurviveARestartAndAKillOfContainerd(t *testing.T) {
	n := newNode(t, "2s", "")
	s := startSupervisor(t, n.configure(
		plugin("gpu-env", "ml-infra", "20", "env-injector", `{env: {GPU: "1"}}`, `{podSelector: {matchLabels: {accelerator: gpu}}}`, "")))
	s.wait(1, "plugin changed state", map[string]any{"plugin": "gpu-env", "to": "ready"})
	pid := s.wait(1, "plugin started", nil)["pid"]
	for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		n.stop(sig)
		s.wait(i+1, "runtime lost", nil)
		n.start()
		s.wait(i+2, "plugin changed state", map[string]any{"plugin": "gpu-env", "to": "ready"})
		p, err := n.runPod("default", fmt.Sprint("after", i), "accelerator", "gpu")
		if err != nil {
			t.Fatal(err)
		}
		id, err := p.create("main")
		if err != nil {
			t.Fatal(err)
		}
		if env := n.exec(id, "/bin/env"); !strings.Contains(env, "GPU=1") {
			t.Errorf("after %s of containerd the selected container has:\n%s", sig, env)
		}
	}
	if got := s.wait(1, "plugin started", nil)["pid"]; got != pid {
		t.Errorf("plugin pid changed from %v to %v", pid, got)
	}
}
