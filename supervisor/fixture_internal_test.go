package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// callTimeout is the request timeout the runtime announces: containerd's default.
const callTimeout = 2 * time.Second

// fakeRuntime is a runtime at the other end of a socket pair.
type fakeRuntime struct {
	t     *testing.T
	conns chan net.Conn
	name  string // "fake" when empty
	// onUpd is called with each update that arrives; set it before accept. Never two calls at once.
	onUpd func(*api.ContainerUpdate)
}

func (r *fakeRuntime) dial(context.Context) (net.Conn, error) {
	a, b := pair(r.t)
	r.conns <- b
	return a, nil
}

// pair is a socket pair; the path is short enough for a unix socket.
func pair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// sessionOf is one connection of the runtime.
type sessionOf struct {
	conn   net.Conn
	plugin api.PluginService
	mask   api.EventMask
	reg    chan struct{}
	rt     *fakeRuntime
}

func (s *sessionOf) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	close(s.reg)
	return &api.Empty{}, nil
}

func (s *sessionOf) UpdateContainers(_ context.Context, r *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	for _, u := range r.GetUpdate() {
		if s.rt.onUpd != nil {
			s.rt.onUpd(u)
		}
	}
	return &api.UpdateContainersResponse{}, nil
}

func (s *sessionOf) cut() { _ = s.conn.Close() }

// accept takes a registration up to Configure.
func (r *fakeRuntime) accept() *sessionOf {
	r.t.Helper()
	var c net.Conn
	select {
	case c = <-r.conns:
	case <-time.After(time.Minute):
		r.t.Fatal("nobody dialled")
	}
	s := &sessionOf{conn: c, reg: make(chan struct{}), rt: r}
	mux := multiplex.Multiplex(c, multiplex.WithBlockedRead())
	conn, err := mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		r.t.Fatal(err)
	}
	client := ttrpc.NewClient(conn)
	l, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		r.t.Fatal(err)
	}
	srv, err := ttrpc.NewServer()
	if err != nil {
		r.t.Fatal(err)
	}
	api.RegisterRuntimeService(srv, s)
	go func() { _ = srv.Serve(context.Background(), l) }()
	mux.Unblock()
	<-s.reg
	s.plugin = api.NewPluginClient(client)
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	rpl, err := s.plugin.Configure(ctx, &api.ConfigureRequest{RuntimeName: cmp.Or(r.name, "fake"), RuntimeVersion: "1", NRIVersion: "v0.12.5", RequestTimeout: callTimeout.Milliseconds(), RegistrationTimeout: 5000})
	if err != nil {
		r.t.Fatal(err)
	}
	s.mask = api.EventMask(rpl.GetEvents())
	return s
}

func (s *sessionOf) synchronize(pods []*api.PodSandbox, ctrs []*api.Container) error {
	ctx, cancel := context.WithTimeout(s.rt.t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.plugin.Synchronize(ctx, &api.SynchronizeRequest{Pods: pods, Containers: ctrs})
	return err
}

func (s *sessionOf) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.rt.t.Context(), callTimeout)
	s.rt.t.Cleanup(cancel)
	return ctx
}

func (s *sessionOf) create(p *api.PodSandbox, c *api.Container) (*api.CreateContainerResponse, error) {
	return s.plugin.CreateContainer(s.ctx(), &api.CreateContainerRequest{Pod: p, Container: c})
}

// fixture is a supervisor between a fakeRuntime and a fakeLauncher.
type fixture struct {
	t   *testing.T
	s   *Supervisor
	l   *fakeLauncher
	rt  *fakeRuntime
	mu  sync.Mutex
	evs []Event
	end func() error
}

func (f *fixture) events(match func(Event) bool) []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Event
	for _, e := range f.evs {
		if match(e) {
			out = append(out, e)
		}
	}
	return out
}

func (f *fixture) eventually(what string, cond func() bool) {
	f.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			f.t.Fatalf("never: %s", what)
		}
	}
}

func (f *fixture) ready(name string) {
	f.t.Helper()
	f.eventually(name+" ready", func() bool { return f.s.plan().byName[name].view.Load().state == "ready" })
}

// load makes a configuration of plugins: pairs of a name and the rest of its spec, in the order of their index.
func load(t *testing.T, plugins ...[2]string) *policy.Config {
	t.Helper()
	return loadWith(t, "  teams:\n    t: {contact: \"#t\", allow: {failurePolicyFail: true, reject: true, includeCritical: true}}\n", plugins...)
}

// loadWith is load with the given part of the Supervisor document's spec, teams included.
func loadWith(t *testing.T, spec string, plugins ...[2]string) *policy.Config {
	t.Helper()
	dir := t.TempDir()
	conf := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  fileTrust: \"off\"\n  pluginDirs: [" + dir + "/p]\n" + spec
	if err := os.MkdirAll(dir+"/p", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, p := range plugins {
		text := fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: %s}\nspec:\n  team: t\n  index: \"%02d\"\n  exec: {path: /bin/true}\n%s\n", p[0], 10+i, p[1])
		if err := os.WriteFile(dir+"/p/"+p[0]+".yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := policy.Load(policy.LoadOptions{ConfigFile: dir + "/config.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range cfg.Problems {
		t.Log(p.Error())
	}
	if len(cfg.Plugins) != len(plugins) {
		t.Fatal("a manifest is wrong")
	}
	return cfg
}

// begin runs a supervisor until the test, or f.end, ends it.
func begin(t *testing.T, cfg *policy.Config, db *state.DB, loaded state.Loaded, plugins makers) *fixture {
	t.Helper()
	return beginWith(t, Options{Config: cfg, State: db, Loaded: loaded}, plugins)
}

// beginWith is begin with options, in which the test's runtime, launcher and sink are put.
func beginWith(t *testing.T, o Options, plugins makers) *fixture {
	t.Helper()
	f := &fixture{t: t, l: &fakeLauncher{make: plugins, incs: map[string]*fakeInc{}}, rt: &fakeRuntime{t: t, conns: make(chan net.Conn, 100)}}
	o.Launcher, o.Dial, o.WaitForPlugins = f.l, f.rt.dial, time.Second
	o.Sink = func(e Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.evs = append(f.evs, e)
	}
	f.s = New(o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.s.Run(ctx) }()
	f.end = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		_ = f.end()
		for _, e := range f.events(func(e Event) bool { _, ok := e.(Defect); return ok }) {
			t.Logf("defect: %+v", e)
		}
	})
	return f
}

// serve begins a supervisor without state, synchronizes it with an empty runtime and waits until all plugins are ready.
func serve(t *testing.T, cfg *policy.Config, plugins makers) (*fixture, *sessionOf) {
	t.Helper()
	return serveWith(t, cfg, plugins, nil, nil, nil)
}

// serveWith is serve with a runtime that has pods and containers, and to whose onUpd the updates go.
func serveWith(t *testing.T, cfg *policy.Config, plugins makers, onUpd func(*api.ContainerUpdate), pods []*api.PodSandbox, ctrs []*api.Container) (*fixture, *sessionOf) {
	t.Helper()
	f := begin(t, cfg, nil, state.Loaded{}, plugins)
	f.rt.onUpd = onUpd
	s := f.rt.accept()
	if err := s.synchronize(pods, ctrs); err != nil {
		t.Fatal(err)
	}
	for _, p := range cfg.Plugins {
		f.ready(p.Name)
	}
	return f, s
}

// makers are the plugins of a test by name: each is called with the number of the incarnation.
type makers = map[string]func(n int) (*fakePlugin, error)

func one(p *fakePlugin) func(int) (*fakePlugin, error) {
	return func(int) (*fakePlugin, error) { return p, nil }
}

// sel selects the pods with the label.
func sel(l string) string { return "  selector: {podSelector: {matchLabels: {" + l + ": \"1\"}}}\n" }

// setEnv is a plugin that adds one variable to each container.
func setEnv(key, value string) *fakePlugin {
	return &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Env: []*api.KeyValue{{Key: key, Value: value}}}}, nil
	}}
}

func pod(id string, labels ...string) *api.PodSandbox {
	p := &api.PodSandbox{Id: id, Name: "n-" + id, Namespace: "default", Uid: "u-" + id, Labels: map[string]string{}}
	for i := 0; i+1 < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	return p
}

func ctr(p, id string) *api.Container {
	return &api.Container{Id: id, PodSandboxId: p, Name: "c-" + id, State: api.ContainerState_CONTAINER_CREATED, Linux: &api.LinuxContainer{}}
}
