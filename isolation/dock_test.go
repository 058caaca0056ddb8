package isolation_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// refusals collects what a dock turned away.
type refusals struct {
	mu  sync.Mutex
	all []isolation.Refusal
}

func (r *refusals) add(x isolation.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x)
}

func (r *refusals) get() []isolation.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]isolation.Refusal(nil), r.all...)
}

func openDock(t *testing.T, s isolation.DockSpec) *isolation.Dock {
	t.Helper()
	if s.Socket == "" {
		s.Socket = filepath.Join(runDir(t), "attach", "test", "nri.sock")
	}
	if s.AllowUIDs == nil {
		s.AllowUIDs = []uint32{uint32(os.Geteuid())}
	}
	d, err := isolation.OpenDock(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// dialled is a stock plugin that dialled a dock.
type dialled struct {
	plugin *testPlugin
	stub   stub.Stub
	closed chan struct{}
}

// dial makes a stock plugin dial. It registers in the background: NRI's stub waits for its configuration.
func dial(t *testing.T, socket, index string) *dialled {
	t.Helper()
	d := &dialled{plugin: &testPlugin{}, closed: make(chan struct{})}
	st, err := stub.New(d.plugin, stub.WithPluginName("test"), stub.WithPluginIdx(index), stub.WithSocketPath(socket),
		stub.WithOnClose(sync.OnceFunc(func() { close(d.closed) })))
	if err != nil {
		t.Fatal(err)
	}
	d.stub = st
	d.plugin.setStub(st)
	go func() { _ = st.Run(context.WithoutCancel(t.Context())) }() // ends with its connection, or stays in a start that nobody goes on with
	return d
}

func next(t *testing.T, d *isolation.Dock) *isolation.Attachment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := d.Next(ctx, func(_ context.Context, u []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return u, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Stop() })
	return a
}

func TestAPluginThatDialsIsServedAsByARuntime(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(runDir(t), "nri.sock")
	d := openDock(t, isolation.DockSpec{Socket: socket})
	p := dial(t, socket, "17")
	a := next(t, d)
	if got := a.Registration(); got.Name != "test" || got.Index != "17" {
		t.Errorf("registration %+v", got)
	}
	if a.PID() != os.Getpid() || int(a.Peer().UID) != os.Geteuid() {
		t.Errorf("peer %+v", a.Peer())
	}
	if _, err := a.Plugin().Configure(t.Context(), &api.ConfigureRequest{RuntimeName: "test", RuntimeVersion: "v1", RegistrationTimeout: 5000, RequestTimeout: 2000}); err != nil {
		t.Fatal(err)
	}
	updates, err := a.Synchronize(t.Context(), []*api.PodSandbox{{Id: "p1"}}, []*api.Container{{Id: "c1", PodSandboxId: "p1"}})
	if err != nil || len(updates) != 1 {
		t.Errorf("synchronized with %v, %v", updates, err)
	}
	rpl, err := a.Plugin().CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: &api.PodSandbox{Name: "pod"}, Container: &api.Container{Name: "web"}})
	if err != nil || env(rpl, "PLUGIN") != "pod/web" {
		t.Errorf("created with %v, %v", rpl, err)
	}
	if failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{{ContainerId: "c1"}}); err != nil || len(failed) != 1 {
		t.Errorf("updated with %v, %v", failed, err)
	}
	a.Kill(isolation.ReasonHung)
	wait(t, p.closed, "the plugin knows the end of its connection")
	wait(t, a.Done(), "the attachment is done")
	if x := a.Exit(); x.Reason != isolation.ReasonHung || !strings.HasPrefix(x.String(), "connection ended after ") {
		t.Errorf("exit %s", x)
	}
}

func TestThePluginsOwnEndIsADisconnection(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(runDir(t), "nri.sock")
	d := openDock(t, isolation.DockSpec{Socket: socket})
	p := dial(t, socket, "17")
	a := next(t, d)
	if _, err := a.Plugin().Configure(t.Context(), &api.ConfigureRequest{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is started", func() bool { p.stub.Stop(); return a.Exit().Reason != "" })
	if x := a.Exit(); x.Reason != isolation.ReasonDisconnected {
		t.Errorf("exit %s", x)
	}
}

func TestWhoIsNotAllowedIsTurnedAwayAndReportedOnce(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(runDir(t), "nri.sock")
	var told refusals
	openDock(t, isolation.DockSpec{Socket: socket, AllowUIDs: []uint32{uint32(os.Geteuid()) + 1}, OnRefused: told.add})
	for range 3 {
		ended(t, connect(t, socket))
	}
	got := told.get()
	if len(got) != 1 || int(got[0].Peer.UID) != os.Geteuid() || got[0].Peer.PID != os.Getpid() || !strings.Contains(got[0].Why, "allowUIDs") {
		t.Errorf("refusals %+v", got)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the socket of another user: %v, %v", info.Mode(), err)
	}
}

func TestAPeerThatDoesNotRegisterBlocksNobodyAndIsCutOff(t *testing.T) {
	t.Parallel()
	for name, first := range map[string][]byte{
		"silent":             nil,
		"half a frame":       {0, 0, 0, 2, 0, 0},
		"half a request":     {0, 0, 0, 2, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0},
		"an unknown channel": {0, 0, 0, 9, 0, 0, 0, 1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(runDir(t), "nri.sock")
			var told refusals
			d := openDock(t, isolation.DockSpec{Socket: socket, RegisterLimit: 4 * time.Second, OnRefused: told.add})
			var peers []net.Conn
			for range 3 {
				c := connect(t, socket)
				if _, err := c.Write(first); err != nil {
					t.Fatal(err)
				}
				peers = append(peers, c)
			}
			dial(t, socket, "17")
			next(t, d)
			for _, c := range peers {
				ended(t, c)
			}
			if name == "silent" && (len(told.get()) != 1 || !strings.Contains(told.get()[0].Why, "did not register in 4s")) {
				t.Errorf("refusals %+v", told.get())
			}
		})
	}
}

func TestOnlySoManyMayBeAboutToRegister(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(runDir(t), "nri.sock")
	var told refusals
	openDock(t, isolation.DockSpec{Socket: socket, RegisterLimit: time.Hour, OnRefused: told.add})
	var peers []net.Conn
	for range 4 {
		peers = append(peers, connect(t, socket))
	}
	ended(t, connect(t, socket))
	if got := told.get(); len(got) != 1 || !strings.Contains(got[0].Why, "have not registered yet") {
		t.Errorf("refusals %+v", got)
	}
	if err := peers[0].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the place of one that went is free", func() bool {
		c := connect(t, socket)
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	})
}

func TestOfThoseThatWaitTheNewestIsTaken(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(runDir(t), "nri.sock")
	waiting := make(chan struct{}, 10)
	d := openDock(t, isolation.DockSpec{Socket: socket, OnWaiting: func() { waiting <- struct{}{} }})
	dial(t, socket, "01")
	wait(t, waiting, "the first waits")
	dial(t, socket, "02")
	wait(t, waiting, "the second waits")
	if got := next(t, d).Registration().Index; got != "02" {
		t.Errorf("taken is %s, want the newest", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if a, err := d.Next(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v, want nobody", a, err)
	}
	d.Close()
	if _, err := d.Next(t.Context(), nil); !errors.Is(err, isolation.ErrDockClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func connect(t *testing.T, socket string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ended waits for the end of a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("still open after %s", patience)
	}
}
