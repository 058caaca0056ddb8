package integration_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// attachTeams may attach.
const attachTeams = `  teams: {net: {contact: "#net", allow: {attach: true}}}`

// attachManifest is a plugin that attaches, for pods with the label probe=NAME; attach and extra are YAML.
func attachManifest(p *probe, attach, extra string) string {
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: net
  index: "30"
  attach: %[2]s
  config: {"record": %[3]q, "name": %[1]q}
  selector: {podSelector: {matchLabels: {probe: %[1]s}}}
%[4]s
---
`, p.name, attach, p.file, extra)
}

// dialer is the process of a plugin that dials, as an ordinary plugin does in a pod.
type dialer struct {
	t   *testing.T
	cmd *exec.Cmd
}

func dial(t *testing.T, socket, name, index string) *dialer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Probe(t))
	cmd.Env = append(os.Environ(), "PROBE_SOCKET="+socket, api.PluginNameEnvVar+"="+name, api.PluginIdxEnvVar+"="+index)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &dialer{t, cmd}
	t.Cleanup(d.kill)
	return d
}

// kill ends the process. Killed twice, it stays dead.
func (d *dialer) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// attachedEnv creates a container that the plugin selects and returns the plugin's work on it; "" when it is missing.
func attachedEnv(t *testing.T, rt *harness.Runtime, p *probe, pod string) string {
	t.Helper()
	_, rpl := created(t, rt, harness.Pod("default", pod, "probe", p.name))
	return env(rpl.GetAdjust())["PROBE"]
}

func TestAStockPluginThatDialsIsHostedWhenItIsThere(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "ds")
	sup := harness.StartSupervisor(t, rt.Config(attachTeams, attachManifest(p, fmt.Sprintf("{allowUIDs: [%d]}", os.Geteuid()), "")))
	rt.WaitSync() // it registers although nobody is attached
	socket := filepath.Join(sup.Dir, "run", "attach", "ds", "nri.sock")
	if got := attachedEnv(t, rt, p, "early"); got != "" {
		t.Errorf("nobody is attached, and yet PROBE is %q", got)
	}
	if why := reasons(sup.Missed())["early"]; why != "not_ready" {
		t.Errorf("the work is missing for %q, want not_ready", why)
	}
	first := dial(t, socket, "other", "99")
	sup.Ready(1, "ds")
	sup.WaitLine(1, "plugin registered as another than its manifest says", map[string]any{"plugin": "ds", "name": "other", "index": "99"})
	if got := attachedEnv(t, rt, p, "served"); got != "ds" {
		t.Errorf("PROBE is %q", got)
	}
	if l := p.wait(1, "Synchronize", ""); l.Containers != 1 {
		t.Errorf("told of %d containers, want the one from before", l.Containers)
	}
	for n := range 5 { // as many as make a crash loop
		first.kill()
		sup.WaitLine(n+1, "plugin exited", map[string]any{"plugin": "ds", "reason": "disconnected"})
		if n == 0 {
			if got := attachedEnv(t, rt, p, "between"); got != "" {
				t.Errorf("nobody is attached, and yet PROBE is %q", got)
			}
		}
		first = dial(t, socket, "ds", "30")
		sup.Ready(n+2, "ds")
	}
	if got := attachedEnv(t, rt, p, "again"); got != "ds" {
		t.Errorf("PROBE is %q", got)
	}
	if l := p.wait(2, "Synchronize", ""); l.Containers != 3 {
		t.Errorf("told of %d containers, want 3", l.Containers)
	}
	if why := reasons(sup.Missed()); why["between"] != "not_ready" || len(why) != 2 {
		t.Errorf("missed %v", why)
	}
	rt.Stop()
	sup.WaitLine(1, "runtime lost", nil)
	rt.Start()
	rt.WaitSync()
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "ds", "reason": "stopped"}) // as the runtime's own end closes it
	dial(t, socket, "ds", "30")
	sup.Ready(7, "ds")
	if got := attachedEnv(t, rt, p, "anew"); got != "ds" {
		t.Errorf("after a restart of the runtime PROBE is %q", got)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAFolderThatAPodHasMountedStaysGoodAcrossRestartsOfTheSupervisor(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "ds")
	dir := rt.Config(attachTeams, attachManifest(p, fmt.Sprintf("{allowUIDs: [%d]}", os.Geteuid()), ""))
	var folder *os.File // held open, as a bind mount holds it
	for n, end := range []func(*harness.Process){func(s *harness.Process) { s.Stop() }, (*harness.Process).Kill, func(s *harness.Process) { s.Stop() }} {
		sup := harness.StartSupervisor(t, dir)
		rt.WaitSync()
		if n == 0 {
			var err error
			if folder, err = os.Open(filepath.Join(dir, "run", "attach", "ds")); err != nil {
				t.Fatal(err)
			}
			defer folder.Close()
		}
		d := dial(t, fmt.Sprintf("/proc/%d/fd/%d/nri.sock", os.Getpid(), folder.Fd()), "ds", "30")
		sup.Ready(1, "ds")
		if got := attachedEnv(t, rt, p, fmt.Sprint("run-", n)); got != "ds" {
			t.Errorf("run %d: PROBE is %q", n, got)
		}
		end(sup)
		_ = d.cmd.Wait() // the end of its connection ends it
	}
	if n := len(p.about("Synchronize", "")); n != 3 {
		t.Errorf("%d synchronizations, want 3", n)
	}
}

func TestWhoMayNotAttachOrStaysSilentHarmsNobody(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p, other := newProbe(t, "ds"), newProbe(t, "theirs")
	sup := harness.StartSupervisor(t, rt.Config(attachTeams, attachManifest(p, fmt.Sprintf("{allowUIDs: [%d]}", os.Geteuid()), "")+
		attachManifest(other, fmt.Sprintf("{allowUIDs: [%d]}", os.Geteuid()+1), "")))
	rt.WaitSync()
	socket := func(name string) string { return filepath.Join(sup.Dir, "run", "attach", name, "nri.sock") }
	d := dial(t, socket("theirs"), "theirs", "30")
	sup.WaitLine(1, "connection to a plugin's socket refused", map[string]any{"plugin": "theirs", "uid": os.Geteuid(), "pid": d.cmd.Process.Pid})
	for range 3 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket("ds"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	dial(t, socket("ds"), "ds", "30")
	sup.Ready(1, "ds")
	if got := attachedEnv(t, rt, p, "served"); got != "ds" {
		t.Errorf("PROBE is %q", got)
	}
	if got := attachedEnv(t, rt, other, "theirs"); got != "" {
		t.Errorf("PROBE is %q of a plugin that may not attach", got)
	}
	var status struct {
		Plugins []struct{ Name, State string }
	}
	sup.Ask(&status, "status")
	for _, pl := range status.Plugins {
		if want := map[string]string{"ds": "ready", "theirs": "starting"}[pl.Name]; pl.State != want {
			t.Errorf("plugin %s is %s, want %s", pl.Name, pl.State, want)
		}
	}
}

func TestAnAttachedPluginThatHangsLosesItsConnection(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "ds")
	sup := harness.StartSupervisor(t, rt.Config(attachTeams, attachManifest(p, fmt.Sprintf("{allowUIDs: [%d]}", os.Geteuid()),
		"  timeouts: {default: 200ms}\n  overdueAfter: 400ms\n  breaker: {openDuration: 100ms}")))
	rt.WaitSync()
	socket := filepath.Join(sup.Dir, "run", "attach", "ds", "nri.sock")
	hung := dial(t, socket, "ds", "30")
	sup.Ready(1, "ds")
	harness.Freeze(t, hung.cmd.Process.Pid)
	if got := attachedEnv(t, rt, p, "hung"); got != "" {
		t.Errorf("PROBE is %q", got)
	}
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "ds", "reason": "hung"})
	if !harness.Alive(hung.cmd.Process.Pid) {
		t.Error("the process is gone; it was not ours to kill")
	}
	dial(t, socket, "ds", "30")
	sup.Ready(2, "ds")
	harness.Eventually(t, "the work of the one that came after", func() bool {
		return attachedEnv(t, rt, p, fmt.Sprint("after-", len(rt.Live()))) == "ds"
	})
	if why := reasons(sup.Missed())["hung"]; why != "busy" && why != "unavailable" && why != "not_ready" {
		t.Errorf("missed for %q", why) // the pod's event has timed out before
	}
}
