package isolation_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// lines collects output and lets tests wait for a line.
type lines struct {
	mu      sync.Mutex
	all     []isolation.Line
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) add(line isolation.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lines) get() []isolation.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]isolation.Line(nil), l.all...)
}

// wait returns the first line for which ok holds.
func (l *lines) wait(t *testing.T, ok func(isolation.Line) bool) isolation.Line {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		for _, line := range l.all {
			if ok(line) {
				l.mu.Unlock()
				return line
			}
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("no such line among %+v", l.get())
		}
	}
}

func withText(text string) func(isolation.Line) bool {
	return func(l isolation.Line) bool { return strings.Contains(l.Text, text) }
}

// patience is how long a test waits for what should happen at once on an idle machine.
const patience = 30 * time.Second

// runDir is a directory with a short path: unix sockets end in it.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "iso")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// spec is a plugin of the given mode.
func spec(t *testing.T, protocol isolation.Protocol, mode string) isolation.Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return isolation.Spec{
		Name: "test", Index: "42", Path: exe, Protocol: protocol, RunDir: runDir(t),
		// The race detector sleeps for a second at each exit by default.
		Env: []string{modeEnv + "=" + mode, "GORACE=atexit_sleep_ms=0"},
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
	return i
}

// startAndConfigure brings the instance into service.
func startAndConfigure(t *testing.T, s isolation.Spec) *isolation.Instance {
	t.Helper()
	i := start(t, s)
	configure(t, i, "")
	return i
}

func configure(t *testing.T, i *isolation.Instance, config string) *api.ConfigureResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := i.Configure(ctx, &api.ConfigureRequest{
		Config: config, RuntimeName: "test", RuntimeVersion: "v1", RegistrationTimeout: 5000, RequestTimeout: 2000, NRIVersion: "v0.12.5",
	})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// create sends CreateContainer for a container of that name.
func create(t *testing.T, i *isolation.Instance, name string) (*api.CreateContainerResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return i.Plugin().CreateContainer(ctx, &api.CreateContainerRequest{
		Pod:       &api.PodSandbox{Id: "p1", Name: "pod"},
		Container: &api.Container{Id: "c1", Name: name, PodSandboxId: "p1"},
	})
}

func env(reply *api.CreateContainerResponse, key string) string {
	for _, kv := range reply.GetAdjust().GetEnv() {
		if kv.GetKey() == key {
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
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-timer.C:
			t.Fatalf("waited %s until %s", patience, what)
		}
	}
}

// processState is the state letter of a process, or empty if there is no such process.
func processState(pid int) string { return stateIn(filepath.Join("/proc", fmt.Sprint(pid), "stat")) }

// stopped reports whether each thread of a process has stopped: one that has not can still answer.
func stopped(pid int) bool {
	threads, err := filepath.Glob(filepath.Join("/proc", fmt.Sprint(pid), "task", "*", "stat"))
	return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(stat string) bool { return stateIn(stat) != "T" })
}

// stateIn is the state letter in the stat file of a process or of one of its threads.
func stateIn(stat string) string {
	data, err := os.ReadFile(stat)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// startHost starts a process that starts a plugin and writes the plugin's process id to file.
func startHost(t *testing.T, file string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(exe)
	host.Env = append(os.Environ(), modeEnv+"=host:"+file)
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	return host
}

// beAHost is that process.
func beAHost(file string) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	// A plugin that would survive the end of its connection.
	i, err := isolation.Start(context.Background(), isolation.Spec{
		Name: "test", Index: "42", Path: exe, Env: []string{modeEnv + "=ignore-term"}, Protocol: isolation.NRI, RunDir: filepath.Dir(file),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.WriteFile(file, fmt.Append(nil, i.PID()), 0o600); err != nil {
		return 1
	}
	hang()
	return 0
}
