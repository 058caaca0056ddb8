package isolation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

// beAPlugin runs this process as a plugin of the given kind and returns its exit code.
func beAPlugin(mode string) int {
	name, arg, _ := strings.Cut(mode, ":")
	switch name {
	case "sdk": // a healthy plugin of the SDK
		return serve(&testPlugin{})
	case "stock": // a healthy plugin without the SDK, also when it is not started as one
		return runStock(&testPlugin{})
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot read licence file")
		return 7
	case "garbage":
		fmt.Println("Welcome to my plugin!")
		return serve(&testPlugin{})
	case "binary-garbage":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte{0x1b, 0xff, 0x00, '\n'}, 10))
		hang()
	case "version":
		fmt.Println("1|99|unix|/nowhere|grpc|")
		hang()
	case "address":
		fmt.Printf("1|1|%s|grpc|\n", arg)
		hang()
	case "host": // not a plugin but a supervisor
		return beAHost(arg)
	case "hang":
		hang()
	case "ignore-term":
		signal.Ignore(syscall.SIGTERM)
		return runStock(&testPlugin{deaf: true})
	case "close-fd3":
		return closeSocket()
	case "no-register":
		hang()
	case "fork": // leaves a child in its group that holds the pipes
		if err := leaveChild(arg, false); err != nil {
			return 1
		}
		return serve(&testPlugin{})
	case "fork-session": // leaves a child in a session of its own that holds the pipes
		if err := leaveChild(arg, true); err != nil {
			return 1
		}
		return serve(&testPlugin{})
	case "fork-exit":
		if err := leaveChild(arg, true); err != nil {
			return 1
		}
		return 0
	}
	fmt.Fprintf(os.Stderr, "unknown mode %q\n", mode)
	return 99
}

func serve(p *testPlugin) int {
	if err := plugins.Serve(p, plugins.WithVersion("v1.2.3"), plugins.WithStub(p.setStub)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runStock(p *testPlugin) int {
	st, err := stub.New(p, stub.WithOnClose(func() {
		if !p.deaf {
			os.Exit(3)
		}
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p.setStub(st)
	if err := st.Run(context.Background()); err != nil {
		if p.deaf {
			hang()
		}
		return 1
	}
	return 0
}

// hang never returns, and is no deadlock to the Go runtime.
func hang() {
	select {
	case <-make(chan struct{}):
	case <-newSignal():
	}
}

func newSignal() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c
}

func closeSocket() int {
	if err := syscall.Close(3); err != nil {
		return 1
	}
	hang()
	return 0
}

// leaveChild starts a sleeping child that inherits the pipes and writes its id to file.
func leaveChild(file string, session bool) error {
	cmd := exec.Command("/bin/sleep", "300")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(fmt.Sprint(cmd.Process.Pid)), 0o600)
}

// facts is what a process can tell about its own start.
type facts struct {
	Env, Fds []string
	Dir      string
	Session  bool // it leads a session and a group
	Core     uint64
	Stdin    string
}

func ownFacts() facts {
	f := facts{Env: os.Environ()}
	f.Dir, _ = os.Getwd()
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil {
			f.Fds = append(f.Fds, e.Name()+"="+target)
		}
	}
	sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	f.Session = int(sid) == os.Getpid() && syscall.Getpgrp() == os.Getpid()
	var lim syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_CORE, &lim)
	f.Core = lim.Cur
	f.Stdin, _ = os.Readlink("/proc/self/fd/0")
	return f
}

// testPlugin obeys commands in the names of containers.
type testPlugin struct {
	deaf bool

	mu     sync.Mutex
	stub   stub.Stub
	synced struct{ pods, ctrs []string }
	calls  []string
}

func (p *testPlugin) setStub(s stub.Stub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stub = s
}

func (p *testPlugin) record(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, what)
}

func (p *testPlugin) Configure(_ context.Context, config, _, _ string) (api.EventMask, error) {
	p.record("Configure " + config)
	if config == "print" {
		fmt.Println("from stdout")
		fmt.Fprintln(os.Stderr, "from stderr")
	}
	if config == "facts" {
		data, err := json.Marshal(ownFacts())
		if err != nil {
			return 0, err
		}
		return 0, os.WriteFile("facts.json", data, 0o600)
	}
	return 0, nil
}

func (p *testPlugin) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced.pods, p.synced.ctrs = nil, nil
	for _, pod := range pods {
		p.synced.pods = append(p.synced.pods, pod.GetId())
	}
	var updates []*api.ContainerUpdate
	for _, c := range ctrs {
		p.synced.ctrs = append(p.synced.ctrs, c.GetId())
	}
	if n := len(ctrs); n > 0 {
		u := &api.ContainerUpdate{ContainerId: ctrs[n-1].GetId()}
		u.SetLinuxCPUShares(uint64(n))
		updates = append(updates, u)
	}
	return updates, nil
}

func (p *testPlugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.record("CreateContainer " + c.GetName())
	adjust := &api.ContainerAdjustment{}
	verb, arg, _ := strings.Cut(c.GetName(), ":")
	switch verb {
	case "panic":
		panic("as told: " + arg)
	case "exit":
		os.Exit(5)
	case "hang":
		hang()
	case "flood":
		line := strings.Repeat("x", 99)
		for range 100000 {
			fmt.Fprintln(os.Stderr, line)
		}
	case "long":
		fmt.Println(strings.Repeat("y", 1<<20))
	case "error":
		return nil, nil, errors.New(arg)
	case "reject":
		return nil, nil, plugins.Reject(arg)
	case "not-interested":
		return adjust, nil, plugins.NotInterested(plugins.Scope(arg))
	case "calls":
		p.mu.Lock()
		adjust.AddEnv("CALLS", strings.Join(p.calls, ","))
		p.mu.Unlock()
	case "update":
		go func() { // not from inside the handler
			u := &api.ContainerUpdate{ContainerId: arg}
			u.SetLinuxCPUShares(7)
			failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{u})
			fmt.Printf("updated: failed=%d err=%v\n", len(failed), err)
		}()
	}
	adjust.AddEnv("PLUGIN", pod.GetName()+"/"+c.GetName())
	return adjust, nil, nil
}

func (p *testPlugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.record("RemoveContainer " + c.GetId())
	return nil
}

func (p *testPlugin) Shutdown(context.Context) {
	fmt.Println("shutdown handler called")
	if p.deaf {
		hang()
	}
}
