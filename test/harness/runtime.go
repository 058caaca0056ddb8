package harness

import (
	"cmp"
	"context"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
)

// Runtime is a simulated container runtime: NRI's real adaptation, with its events and callbacks under one mutex as in containerd. Safe for concurrent use, except that Start
// and Stop are called by one goroutine while no event is under way.
type Runtime struct {
	Socket string
	tb     testing.TB
	dir    string
	nri    *adaptation.Adaptation
	front  *proxy
	clock  stopwatch

	// lane is held during each event and each unsolicited update, as containerd does: an update from inside a handler, passed on at once, waits for the event that waits for it.
	lane sync.Mutex

	mu       sync.Mutex // guards what follows; taken after lane
	pods     map[string]*api.PodSandbox
	ctrs     map[string]*api.Container
	updates  []*api.ContainerUpdate
	refuse   func(*api.ContainerUpdate) bool
	batches  int
	syncs    atomic.Int64
	dials    atomic.Int64
	starting atomic.Bool
	synced   chan struct{} // one token for each synchronized plugin
	options  []adaptation.Option
	version  string // empty: 1.0.0

	intercept atomic.Pointer[func(n int, c net.Conn) bool]
}

// quiet drops NRI's log, which is process-wide.
type quiet struct{}

var quietly sync.Once //nolint:gochecknoglobals // NRI's logger is one for the process, and tests run side by side

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}

// NewRuntime starts a runtime on a socket of its own. Options are passed to the adaptation, for example builtin plugins.
func NewRuntime(tb testing.TB, options ...adaptation.Option) *Runtime {
	tb.Helper()
	quietly.Do(func() { nrilog.Set(quiet{}) })
	dir := TempDir(tb)
	r := &Runtime{
		Socket: filepath.Join(dir, "nri.sock"), tb: tb, dir: dir, pods: map[string]*api.PodSandbox{}, ctrs: map[string]*api.Container{},
		synced: make(chan struct{}, 1024), options: options,
	}
	r.Start()
	tb.Cleanup(r.Stop)
	return r
}

// Start starts the runtime again after a Stop, with the state that it had.
func (r *Runtime) Start() {
	opts := append([]adaptation.Option{
		adaptation.WithSocketPath(r.Socket + ".real"), adaptation.WithPluginPath(filepath.Join(r.dir, "none")), adaptation.WithPluginConfigPath(filepath.Join(r.dir, "none")),
	}, r.options...)
	a, err := adaptation.New("harness", cmp.Or(r.version, "1.0.0"), r.sync, r.update, opts...)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.starting.Store(true) // the adaptation synchronizes its preinstalled plugins, of which there are none
	err = a.Start()
	r.starting.Store(false)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.nri = a
	r.front = newProxy(r.tb, r.Socket, r.Socket+".real", &r.dials, &r.intercept)
}

// Upgrade makes the next Start that of another version. By the goroutine that starts and stops.
func (r *Runtime) Upgrade(version string) { r.version = version }

// Stop ends the runtime: its socket and connections close.
func (r *Runtime) Stop() {
	if r.nri != nil {
		r.nri.Stop()
		r.front.close()
		r.nri = nil
	}
}

func (r *Runtime) sync(ctx context.Context, cb adaptation.SyncCB) error {
	r.mu.Lock()
	pods, ctrs := r.stateLocked()
	r.mu.Unlock()
	_, err := cb(ctx, pods, ctrs)
	if err == nil && !r.starting.Load() {
		r.syncs.Add(1)
		r.synced <- struct{}{}
	}
	return err
}

func (r *Runtime) stateLocked() ([]*api.PodSandbox, []*api.Container) {
	pods := make([]*api.PodSandbox, 0, len(r.pods))
	for _, p := range r.pods {
		pods = append(pods, p)
	}
	ctrs := make([]*api.Container, 0, len(r.ctrs))
	for _, c := range r.ctrs {
		ctrs = append(ctrs, c)
	}
	return pods, ctrs
}

func (r *Runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.lane.Lock()
	defer r.lane.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches++
	var failed []*api.ContainerUpdate
	for _, u := range updates {
		if _, known := r.ctrs[u.GetContainerId()]; !known || r.refuse != nil && r.refuse(u) {
			failed = append(failed, u)
			continue
		}
		r.updates = append(r.updates, u)
	}
	return failed, nil
}

// Syncs is how many plugins have registered and been synchronized.
func (r *Runtime) Syncs() int { return int(r.syncs.Load()) }

// WaitSync returns when one more plugin has registered and been synchronized.
func (r *Runtime) WaitSync() {
	r.tb.Helper()
	select {
	case <-r.synced:
	case <-time.After(30 * time.Second):
		r.tb.Fatal("no plugin registered in 30 s")
	}
	// The adaptation adds the plugin to its list after the callback, under its own lock, while the sync is still blocked.
	r.nri.BlockPluginSync().Unblock()
}

// Dials is how many connections to the runtime's NRI socket there have been; each is one RegisterPlugin at most.
func (r *Runtime) Dials() int { return int(r.dials.Load()) }

// Intercept gives each new connection to f first, with its number from 1; when f returns true the connection is f's, otherwise it goes to the adaptation. Set it before anybody dials.
func (r *Runtime) Intercept(f func(n int, c net.Conn) bool) { r.intercept.Store(&f) }

// Refuse makes the runtime fail the unsolicited updates for which f holds.
func (r *Runtime) Refuse(f func(*api.ContainerUpdate) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = f
}

// UpdateRequests is how many requests with unsolicited updates reached the runtime.
func (r *Runtime) UpdateRequests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches
}

// Updates returns the unsolicited updates that reached the runtime.
func (r *Runtime) Updates() []*api.ContainerUpdate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*api.ContainerUpdate(nil), r.updates...)
}

// Preload adds a pod and container that exist already, without telling anybody.
func (r *Runtime) Preload(pod *api.PodSandbox, ctrs ...*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.GetId()] = pod
	for _, c := range ctrs {
		r.ctrs[c.GetId()] = c
	}
}

// Forget leaves a pod out of what the runtime says that there is, as runtimes do while a sandbox is being made.
func (r *Runtime) Forget(pod *api.PodSandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod.GetId())
}

// Lose forgets a container without telling anybody, as a runtime that was away.
func (r *Runtime) Lose(ctrs ...*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range ctrs {
		delete(r.ctrs, c.GetId())
	}
}

// Cut closes all connections of plugins. The runtime goes on, and so do the requests that wait for an answer, until they notice.
func (r *Runtime) Cut() { r.front.cut() }

// Live returns the ids of the containers that exist.
func (r *Runtime) Live() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, 0, len(r.ctrs))
	for id := range r.ctrs {
		ids = append(ids, id)
	}
	return ids
}
