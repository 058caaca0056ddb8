//go:build root

package isolation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// patience is how long a test waits for what should happen at once on an idle machine.
const patience = 60 * time.Second

// tempDir is a directory with a short path that every user may pass through.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "iso")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// openHost makes a host in a run directory of its own.
func openHost(t *testing.T) (h *isolation.Host, runDir string) {
	t.Helper()
	dir := tempDir(t)
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: dir, Helper: []string{helper}, OnProblem: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Cgroups(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, dir
}

// spec is a hostile plugin on the host.
func spec(t *testing.T, h *isolation.Host, runDir string, c isolation.Confinement) isolation.Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const short = 500 * time.Millisecond
	return isolation.Spec{
		Name: "test", Index: "42", Path: exe, Args: []string{hostile}, Protocol: isolation.NRI, RunDir: runDir,
		Env: []string{"GORACE=atexit_sleep_ms=0"}, Host: h, Confine: c, StopGrace: isolation.StopGrace{Shutdown: -1, Term: short, Drain: short},
	}
}

func start(t *testing.T, s isolation.Spec) *isolation.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	i, err := isolation.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		i.Kill(isolation.ReasonStopped)
		wait(t, i.Done(), "instance is done")
	})
	if _, err := i.Configure(ctx, &api.ConfigureRequest{RuntimeName: "test", RuntimeVersion: "v1", RegistrationTimeout: 60000, RequestTimeout: 60000}); err != nil {
		t.Fatal(err)
	}
	return i
}

// ask lets the plugin make an attempt and returns what came of it.
func ask(t *testing.T, i *isolation.Instance, words string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return told(ctx, i, words)
}

// told is what a plugin says that came of an attempt.
func told(ctx context.Context, i *isolation.Instance, words string) string {
	reply, err := i.Plugin().CreateContainer(ctx, &api.CreateContainerRequest{
		Pod: &api.PodSandbox{Id: "p"}, Container: &api.Container{Id: "c", Name: words, PodSandboxId: "p"},
	})
	if err != nil {
		return "gone: " + err.Error()
	}
	for _, kv := range reply.GetAdjust().GetEnv() {
		if kv.GetKey() == "RESULT" {
			return kv.GetValue()
		}
	}
	return ""
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		t.Fatalf("waited %s until %s", patience, what)
	}
}

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-timer.C:
			t.Fatalf("waited %s until %s", patience, what)
		}
	}
}

// alive tells whether there is such a process and it is no zombie.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	text := string(data)
	return !strings.HasPrefix(text[strings.LastIndexByte(text, ')')+1:], " Z")
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%q is no number", text)
	}
	return n
}

// cgroupsOf are the plugins' cgroups that exist for a run directory, in any hierarchy.
func cgroupsOf(t *testing.T, runDir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(runDir, "cgroups"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for base := range strings.FieldsSeq(string(data)) {
		entries, err := os.ReadDir(base)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				out = append(out, filepath.Join(base, e.Name()))
			}
		}
	}
	return out
}
