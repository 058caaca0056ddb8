package integration_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	nrinet "github.com/containerd/nri/pkg/net"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// preinstalledLog is where a supervisor without output logs on a machine without a journal.
func preinstalledLog(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "state", "nri-supervisor.log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// journal reports whether this machine has one; the supervisor then logs there.
func journal() bool {
	_, err := os.Stat("/run/systemd/journal/socket")
	return err == nil
}

func TestTheRuntimeCanStartTheSupervisorItself(t *testing.T) {
	t.Parallel()
	p := newProbe(t, "child")
	dir := harness.NewRuntime(t).Config(teams, p.manifest("10", `, "name": "child"`, "")) // of a runtime that nobody dials
	script := filepath.Join(harness.TempDir(t), "nri-supervisor")
	text := fmt.Sprintf("#!/bin/sh\nexec %s run --config %s/config.yaml\n", harness.Supervisor(t), dir) // only to name the configuration
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	rt := harness.NewStock(t, harness.Stock{Index: "42", Name: "nri-supervisor", Path: script})
	n := 0
	harness.Eventually(t, "the work of the hosted plugin", func() bool {
		n++
		_, rpl := created(t, rt, harness.Pod("default", fmt.Sprint("pod-", n), "probe", "child"))
		return env(rpl.GetAdjust())["PROBE"] == "child"
	})
	for _, l := range p.about("Configure", "") {
		for _, kv := range l.Env {
			if strings.HasPrefix(kv, api.PluginNameEnvVar+"=") && kv != api.PluginNameEnvVar+"=child" || strings.HasPrefix(kv, api.PluginIdxEnvVar+"=") && kv != api.PluginIdxEnvVar+"=10" {
				t.Errorf("the plugin got %s", kv)
			}
		}
	}
	if log := preinstalledLog(t, dir); !journal() && !strings.Contains(log, `"msg":"registered with the runtime"`) {
		t.Errorf("the log is %q", log)
	}
	plugin := p.wait(1, "Configure", "").PID
	rt.Stop()
	harness.Eventually(t, "the end of the plugin", func() bool { return !harness.Alive(plugin) })
}

// launch starts a supervisor as a runtime does, on one end of a socket pair, and returns the other.
func launch(t *testing.T, dir string) (*harness.Process, net.Conn) {
	t.Helper()
	pair, err := nrinet.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pair.LocalConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	peer := pair.PeerFile()
	sup := harness.StartSupervisorWith(t, dir, harness.Options{
		Env:        []string{api.PluginNameEnvVar + "=42-nri-supervisor", api.PluginIdxEnvVar + "=42", api.PluginSocketEnvVar + "=3"},
		ExtraFiles: []*os.File{peer},
	})
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	return sup, conn
}

func TestASupervisorThatTheRuntimeStartedEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "child")
	dir := rt.Config(teams, p.manifest("10", "", ""))
	sup, conn := launch(t, dir)
	configured, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		harness.Halfway{Configure: func(api.EventMask) bool { close(configured); return true }}.Serve(t, conn)
	}()
	select {
	case <-configured:
	case <-time.After(30 * time.Second):
		t.Fatal("not registered in 30 s")
	}
	second, other := launch(t, rt.Config(teams, ""))
	if code := second.Wait(30 * time.Second); code != 1 {
		t.Errorf("a second one ended with code %d, want 1 at once", code)
	}
	if _, err := other.Read(make([]byte, 1)); err == nil {
		t.Error("a second one has registered")
	}
	if log := preinstalledLog(t, second.Dir); !journal() && !strings.Contains(log, "another nri-supervisor") {
		t.Errorf("its log says %q", log)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-over
	if code := sup.Wait(30 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if out := sup.Log(); !journal() && out != "" {
		t.Errorf("it wrote %q", out)
	}
	after := harness.StartSupervisor(t, dir) // the lock is free
	rt.WaitSync()
	after.Ready(1, "child")
}

func TestASecondSupervisorWaitsAndTakesOver(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	first := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
	rt.WaitSync()
	first.Ready(1, "gpu-env")
	second := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t))) // with folders of its own
	second.WaitLine(1, "runtime not reachable", map[string]any{"reason": "taken"})
	if code, text := second.Get("/readyz"); code != 503 || !strings.Contains(text, "another nri-supervisor") {
		t.Errorf("readyz says %d %q", code, text)
	}
	if code, text := second.Get("/healthz"); code != 200 {
		t.Errorf("healthz says %d %q of one that waits", code, text)
	}
	var status struct{ Runtime struct{ Reason string } }
	second.Ask(&status, "status")
	if status.Runtime.Reason != "taken" {
		t.Errorf("status says %q", status.Runtime.Reason)
	}
	if n := rt.Dials(); n != 1 {
		t.Errorf("%d connections to the runtime, want the first supervisor's only", n)
	}
	if n := second.Starts("gpu-env"); n != 0 {
		t.Errorf("one that waits has started %d plugins", n)
	}
	if why := outcome(t, rt, "first"); why != "" {
		t.Errorf("the first no longer serves: %s", why)
	}
	first.Kill()
	rt.WaitSync()
	second.Ready(1, "gpu-env")
	adjusted := harness.Pod("default", "second", "accelerator", "gpu")
	if _, rpl := created(t, rt, adjusted); env(rpl.GetAdjust())["GPU"] != "1" {
		t.Errorf("the second does not serve: %v", rpl.GetAdjust())
	}
}
