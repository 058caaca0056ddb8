package harness

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
)

// Runtime is a simulated container runtime: NRI's real adaptation, with its state and callbacks under one mutex as in containerd. Safe for concurrent use.
type Runtime struct {
	Socket string
	tb     testing.TB
	dir    string
	nri    *adaptation.Adaptation
	front  *proxy

	mu       sync.Mutex
	pods     map[string]*api.PodSandbox
	ctrs     map[string]*api.Container
	updates  []*api.ContainerUpdate
	refuse   func(*api.ContainerUpdate) bool
	syncs    atomic.Int64
	starting atomic.Bool
	synced   chan struct{} // one token for each synchronized plugin
	options  []adaptation.Option
}

// quiet drops NRI's log, which is process-wide.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}

// NewRuntime starts a runtime on a socket of its own. Options are passed to the adaptation, for example builtin plugins.
func NewRuntime(tb testing.TB, options ...adaptation.Option) *Runtime {
	tb.Helper()
	nrilog.Set(quiet{})
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
	a, err := adaptation.New("harness", "1.0.0", r.sync, r.update, opts...)
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
	r.front = newProxy(r.tb, r.Socket, r.Socket+".real")
}

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
	r.mu.Lock()
	defer r.mu.Unlock()
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

// RunPod creates a pod sandbox.
func (r *Runtime) RunPod(ctx context.Context, pod *api.PodSandbox) error {
	block := r.nri.BlockPluginSync()
	defer block.Unblock()
	if err := r.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.GetId()] = pod
	return nil
}

// Create creates a container, without starting it, and returns the adjustment that the plugins made.
func (r *Runtime) Create(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) (*api.CreateContainerResponse, error) {
	block := r.nri.BlockPluginSync()
	defer block.Unblock()
	rpl, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.ctrs[ctr.GetId()] = ctr
	r.mu.Unlock()
	return rpl, r.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: ctr})
}

// StartContainer starts a created container.
func (r *Runtime) StartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	if err := r.nri.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: ctr}); err != nil {
		return err
	}
	return r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: ctr})
}

// Update updates a container's resources.
func (r *Runtime) Update(ctx context.Context, pod *api.PodSandbox, ctr *api.Container, res *api.LinuxResources) (*api.UpdateContainerResponse, error) {
	rpl, err := r.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: pod, Container: ctr, LinuxResources: res})
	if err != nil {
		return nil, err
	}
	return rpl, r.nri.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: pod, Container: ctr})
}

// UpdatePod updates a pod's resources.
func (r *Runtime) UpdatePod(ctx context.Context, pod *api.PodSandbox, overhead, res *api.LinuxResources) error {
	if _, err := r.nri.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: pod, OverheadLinuxResources: overhead, LinuxResources: res}); err != nil {
		return err
	}
	return r.nri.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: pod})
}

// Remove stops and removes a container.
func (r *Runtime) Remove(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, stopErr := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: ctr})
	r.mu.Lock()
	delete(r.ctrs, ctr.GetId())
	r.mu.Unlock()
	return errors.Join(stopErr, r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: ctr}))
}

// RemovePod stops and removes a pod.
func (r *Runtime) RemovePod(ctx context.Context, pod *api.PodSandbox) error {
	stopErr := r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod})
	r.mu.Lock()
	delete(r.pods, pod.GetId())
	r.mu.Unlock()
	return errors.Join(stopErr, r.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod}))
}
