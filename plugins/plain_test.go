package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
)

const patience = 30 * time.Second

// runtime is a real NRI runtime, without containers.
type runtime struct {
	*adaptation.Adaptation
	socket string
	synced chan struct{} // one value for each plugin that was synchronized
}

func newRuntime(t *testing.T, opts ...adaptation.Option) *runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri") // unix sockets want short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &runtime{socket: filepath.Join(dir, "nri.sock"), synced: make(chan struct{}, 8)}
	sync := func(ctx context.Context, cb adaptation.SyncCB) error {
		_, err := cb(ctx, nil, nil)
		r.synced <- struct{}{}
		return err
	}
	update := func(_ context.Context, u []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		return u, nil
	}
	opts = append([]adaptation.Option{
		adaptation.WithSocketPath(r.socket), adaptation.WithPluginPath(filepath.Join(dir, "none")),
		adaptation.WithPluginConfigPath(filepath.Join(dir, "none")),
	}, opts...)
	if r.Adaptation, err = adaptation.New("test", "v1", sync, update, opts...); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	for len(r.synced) > 0 {
		<-r.synced // the start synchronizes as well
	}
	return r
}

func (r *runtime) awaitPlugin(t *testing.T) {
	t.Helper()
	select {
	case <-r.synced:
	case <-time.After(patience):
		t.Fatal("no plugin was synchronized")
	}
	r.BlockPluginSync().Unblock() // the adaptation adds the plugin to its list after the synchronization, and lets others in only then
}

func (r *runtime) create(t *testing.T, name string) (*api.CreateContainerResponse, error) {
	t.Helper()
	return r.CreateContainer(t.Context(), &api.CreateContainerRequest{
		Pod: &api.PodSandbox{Id: "p"}, Container: &api.Container{Id: "c", Name: name},
	})
}

func calls(reply *api.CreateContainerResponse) string {
	for _, kv := range reply.GetAdjust().GetEnv() {
		if kv.GetKey() == "CALLS" {
			return kv.GetValue()
		}
	}
	return ""
}

// process is a plugin's process whose output is collected.
type process struct {
	*exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// external starts a plugin by hand.
func external(t *testing.T, socket string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(exe)}
	p.Env = append(os.Environ(), modeEnv+"=plain", socketEnv+"="+socket)
	p.Stdout, p.Stderr = io.Writer(p), io.Writer(p)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

func TestTheSameBinaryIsAnOrdinaryPluginOfAPlainRuntime(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	p := external(t, r.socket)
	r.awaitPlugin(t)

	if err := r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: &api.PodSandbox{Name: "web"}}); err != nil {
		t.Error(err)
	}
	if reply, err := r.create(t, "main"); err != nil || calls(reply) != "RunPodSandbox web,CreateContainer main" {
		t.Errorf("got %q, %v", calls(reply), err)
	}
	for _, scope := range []string{"pod", "container"} {
		reply, err := r.create(t, "not-interested:"+scope)
		if err != nil || len(reply.GetAdjust().GetEnv()) > 0 {
			t.Errorf("not interested: got %v, %v; want nothing", reply, err)
		}
	}
	if err := r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: &api.PodSandbox{Name: "not-interested:pod"}}); err != nil {
		t.Errorf("not interested: %v", err)
	}
	if _, err := r.create(t, "reject:no GPU left"); err == nil || !strings.Contains(err.Error(), "rejected by plugin: no GPU left") {
		t.Errorf("rejection: got %v", err)
	}
	if _, err := r.create(t, "error:broken"); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error: got %v", err)
	}

	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("exit after SIGTERM: %v\n%s", err, p.output())
	}
	if n := strings.Count(p.output(), "shutdown handler called"); n != 1 {
		t.Errorf("shutdown handler called %d times", n)
	}
}

func TestAHandlersUnimplementedDoesNotBringTheEventTwice(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	external(t, r.socket)
	r.awaitPlugin(t)
	err := r.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: &api.PodSandbox{Name: "unimplemented:later"}})
	if err == nil || !strings.Contains(err.Error(), "later") {
		t.Errorf("got %v", err)
	}
	reply, err := r.create(t, "main")
	if err != nil {
		t.Fatal(err)
	}
	if got := calls(reply); got != "RunPodSandbox unimplemented:later,CreateContainer main" {
		t.Errorf("calls %q", got)
	}
}

func TestAPluginThatTheRuntimeLaunchesIsNamedByIt(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, exe, filepath.Join(dir, preinstalled))
	r := newRuntime(t, adaptation.WithPluginPath(dir))
	if reply, err := r.create(t, "main"); err != nil || calls(reply) != "CreateContainer main" {
		t.Errorf("got %q, %v", calls(reply), err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a process that another test forks meanwhile would hold the file open for writing, and it could not be executed
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(to, data, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestAPluginEndsWhenItsConnectionDoes(t *testing.T) {
	t.Parallel()
	for name, registered := range map[string]bool{"before it is registered": false, "in service": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRuntime(t)
			between, err := net.Listen("unix", filepath.Join(filepath.Dir(r.socket), "between"))
			if err != nil {
				t.Fatal(err)
			}
			p := external(t, between.Addr().String())
			conn, err := between.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if registered {
				forward(t, conn, r.socket)
				r.awaitPlugin(t)
			} else if _, err := conn.Read(make([]byte, 1)); err != nil { // it waits for the answer to its registration
				t.Fatal(err)
			}
			if err := errors.Join(conn.Close(), between.Close()); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait() // the code is checked
			if code := p.ProcessState.ExitCode(); code != 3 {
				t.Errorf("exit code %d\n%s", code, p.output())
			}
		})
	}
}

func TestAPluginEndsWhenItsRuntimeGoesAwayBeforeItConfigures(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(filepath.Dir(newRuntime(t).socket), "half")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := external(t, socket)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	mux := multiplex.Multiplex(conn)
	listener, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	half := &halfRuntime{registered: make(chan struct{})}
	api.RegisterRuntimeService(server, half)
	go func() { _ = server.Serve(context.Background(), listener) }()
	<-half.registered
	if err := errors.Join(mux.Close(), server.Close()); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // the code is checked
	if code := p.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d\n%s", code, p.output())
	}
}

// halfRuntime takes registrations and does no more.
type halfRuntime struct{ registered chan struct{} }

func (h *halfRuntime) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	close(h.registered)
	return &api.Empty{}, nil
}

func (*halfRuntime) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return &api.UpdateContainersResponse{}, nil
}

// forward connects conn with the socket.
func forward(t *testing.T, conn net.Conn, socket string) {
	t.Helper()
	up, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	go func() { _, _ = io.Copy(up, conn) }()
	go func() { _, _ = io.Copy(conn, up) }()
}

func TestAMissingSocketIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	p := external(t, "/nowhere/nri.sock")
	_ = p.Wait() // the code is checked
	if code := p.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.output(), "/nowhere/nri.sock") {
		t.Errorf("exit code %d, output %q", code, p.output())
	}
}
