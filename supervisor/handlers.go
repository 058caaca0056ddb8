package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

const (
	// A budget keeps a tenth of the runtime's timeout, but at least 20 ms and at most 200 ms, for the way back (design §4.1).
	marginShare    = 10
	marginLeast    = 20 * time.Millisecond
	marginMost     = 200 * time.Millisecond
	spareUnlisted  = 30 * time.Second // a sandbox known only from RunPodSandbox outlives a snapshot without it for so long
	unlistedSpared = 5 * time.Minute  // after that the runtime has given it up
)

var errGaveUp = errors.New("registration was given up")

// handlers is what NRI's stub calls. Validation is not among its methods: see validator.
type handlers struct{ session *session }

// Configure learns what the runtime is and subscribes to the events it knows.
func (h *handlers) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	se := h.session
	if se.giveUp {
		return 0, errGaveUp
	}
	info := RuntimeInfo{Name: runtime, Version: version, NRIVersion: se.stub.RuntimeNRIVersion(), RequestTimeout: se.stub.RequestTimeout()}
	if info.RequestTimeout <= 0 { // runtimes older than NRI 0.6 do not say
		info.RequestTimeout = api.DefaultPluginRequestTimeout
	}
	se.configured = true
	se.timeout = info.RequestTimeout
	se.limit.Store(int64(info.RequestTimeout + stuckAfter))
	se.budget = info.RequestTimeout - margin(info.RequestTimeout)
	se.sup.runtime.Store(&info)
	return se.mask, nil
}

func margin(timeout time.Duration) time.Duration {
	return min(max(timeout/marginShare, marginLeast), marginMost)
}

// leastShare of the budget is left for a request that may have waited, unseen, for longer: it may as well be new.
const leastShare = 4

// deadline is the moment by which the runtime must have been answered. lost is the moment from which on the runtime must be taken to have given the request up.
func (a arrival) deadline(ctx context.Context) (until, lost time.Time) {
	se, sent := a.se, a.seen.Add(-a.waited)
	lost = sent.Add(se.timeout - margin(se.timeout)/4)
	d := sent.Add(se.budget)
	if least := time.Now().Add(se.budget / leastShare); d.Before(least) {
		d = least
	}
	if c, ok := ctx.Deadline(); ok {
		left := time.Until(c)
		if t := c.Add(-margin(left)); t.Before(d) {
			d = t
		}
	}
	return d, lost
}

// Synchronize takes the runtime's state. It is acknowledged at once; the plugins get theirs in the background.
func (h *handlers) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	se := h.session
	s := se.sup
	defer s.opts.Computing()()
	s.syncs.Lock() // one after the other: a runtime that lost patience may come again while its first is still looked at
	defer s.syncs.Unlock()
	if s.sessionOver(se) {
		return nil, nil // what a dead session listed is not the truth any more
	}
	now := time.Now()
	never := s.store.DropSpared(now.Add(-unlistedSpared))
	diff := s.store.Replace(pods, ctrs, now, now.Add(-spareUnlisted))
	begins := s.history.synchronized(s, diff)
	s.selectUnpinned(pods, ctrs)
	if begins {
		s.decideForNewcomers()
	}
	s.restoreOptOuts()
	for _, e := range slices.Concat(never, diff.GoneContainers, diff.GonePods) {
		s.history.forget(e.Ref)
	}
	s.untold = append(s.untold, farewells(slices.Concat(never, diff.GonePods), diff.GoneContainers)...)
	s.updates.connected(se) // before a plugin can ask for updates of what it is told
	if !s.sessionBegan(se, now, s.untold) {
		return nil, nil // it ended meanwhile
	}
	s.untold = nil
	info := s.runtimeInfo()
	s.metrics.runtimeConnected(info)
	nPods, nCtrs := s.store.Len()
	s.emit(RuntimeConnected{
		Runtime: info.Name, Version: info.Version, NRIVersion: info.NRIVersion, RequestTimeout: info.RequestTimeout, Pods: nPods, Containers: nCtrs,
		Events: se.mask.PrettyString(),
	})
	for _, w := range s.plan().config.TimeoutWarnings(info.RequestTimeout) {
		s.emit(ConfigProblem{Problem: w})
	}
	se.once.Do(func() { close(se.ready) })
	return nil, nil
}

// RunPodSandbox relays the event.
func (h *handlers) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return h.session.pod(ctx, api.Event_RUN_POD_SANDBOX, pod, toPods(func(pod *api.PodSandbox) *api.RunPodSandboxRequest {
		return &api.RunPodSandboxRequest{Pod: pod}
	}, api.PluginService.RunPodSandbox))
}

// UpdatePodSandbox relays the event.
func (h *handlers) UpdatePodSandbox(ctx context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources) error {
	return h.session.pod(ctx, api.Event_UPDATE_POD_SANDBOX, pod, toPods(func(pod *api.PodSandbox) *api.UpdatePodSandboxRequest {
		return &api.UpdatePodSandboxRequest{Pod: pod, OverheadLinuxResources: overhead, LinuxResources: resources}
	}, api.PluginService.UpdatePodSandbox))
}

// PostUpdatePodSandbox relays the event.
func (h *handlers) PostUpdatePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return h.session.pod(ctx, api.Event_POST_UPDATE_POD_SANDBOX, pod, toPods(func(pod *api.PodSandbox) *api.PostUpdatePodSandboxRequest {
		return &api.PostUpdatePodSandboxRequest{Pod: pod}
	}, api.PluginService.PostUpdatePodSandbox))
}

// StopPodSandbox relays the event.
func (h *handlers) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return h.session.pod(ctx, api.Event_STOP_POD_SANDBOX, pod, toPods(func(pod *api.PodSandbox) *api.StopPodSandboxRequest {
		return &api.StopPodSandboxRequest{Pod: pod}
	}, api.PluginService.StopPodSandbox))
}

// RemovePodSandbox relays the event.
func (h *handlers) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return h.session.pod(ctx, api.Event_REMOVE_POD_SANDBOX, pod, toPods(func(pod *api.PodSandbox) *api.RemovePodSandboxRequest {
		return &api.RemovePodSandboxRequest{Pod: pod}
	}, api.PluginService.RemovePodSandbox))
}

// CreateContainer relays the request.
func (h *handlers) CreateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return h.session.createContainer(ctx, pod, ctr)
}

// PostCreateContainer relays the event.
func (h *handlers) PostCreateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	return h.session.container(ctx, api.Event_POST_CREATE_CONTAINER, pod, ctr, toContainers(func(pod *api.PodSandbox, ctr *api.Container) *api.PostCreateContainerRequest {
		return &api.PostCreateContainerRequest{Pod: pod, Container: ctr}
	}, api.PluginService.PostCreateContainer))
}

// StartContainer relays the event.
func (h *handlers) StartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	return h.session.container(ctx, api.Event_START_CONTAINER, pod, ctr, toContainers(func(pod *api.PodSandbox, ctr *api.Container) *api.StartContainerRequest {
		return &api.StartContainerRequest{Pod: pod, Container: ctr}
	}, api.PluginService.StartContainer))
}

// PostStartContainer relays the event.
func (h *handlers) PostStartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	return h.session.container(ctx, api.Event_POST_START_CONTAINER, pod, ctr, toContainers(func(pod *api.PodSandbox, ctr *api.Container) *api.PostStartContainerRequest {
		return &api.PostStartContainerRequest{Pod: pod, Container: ctr}
	}, api.PluginService.PostStartContainer))
}

// UpdateContainer relays the request.
func (h *handlers) UpdateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return h.session.updateContainer(ctx, pod, ctr, r)
}

// PostUpdateContainer relays the event.
func (h *handlers) PostUpdateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	return h.session.container(ctx, api.Event_POST_UPDATE_CONTAINER, pod, ctr, toContainers(func(pod *api.PodSandbox, ctr *api.Container) *api.PostUpdateContainerRequest {
		return &api.PostUpdateContainerRequest{Pod: pod, Container: ctr}
	}, api.PluginService.PostUpdateContainer))
}

// StopContainer relays the request.
func (h *handlers) StopContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) ([]*api.ContainerUpdate, error) {
	return h.session.stopContainer(ctx, pod, ctr)
}

// RemoveContainer relays the event.
func (h *handlers) RemoveContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	return h.session.container(ctx, api.Event_REMOVE_CONTAINER, pod, ctr, toContainers(func(pod *api.PodSandbox, ctr *api.Container) *api.RemoveContainerRequest {
		return &api.RemoveContainerRequest{Pod: pod, Container: ctr}
	}, api.PluginService.RemoveContainer))
}

type (
	podInvoke func(context.Context, api.PluginService, *api.PodSandbox) (any, error)
	ctrInvoke func(context.Context, api.PluginService, *api.PodSandbox, *api.Container) (any, error)
)

// toContainers sends each plugin the same request, which is built when the first one gets it.
func toContainers[Req, Rpl any](build func(*api.PodSandbox, *api.Container) *Req, call func(api.PluginService, context.Context, *Req) (*Rpl, error)) ctrInvoke {
	var once sync.Once
	var req *Req
	return func(ctx context.Context, p api.PluginService, pod *api.PodSandbox, ctr *api.Container) (any, error) {
		once.Do(func() { req = build(pod, ctr) })
		return call(p, ctx, req)
	}
}

// toPods is toContainers for events of pods.
func toPods[Req, Rpl any](build func(*api.PodSandbox) *Req, call func(api.PluginService, context.Context, *Req) (*Rpl, error)) podInvoke {
	send := toContainers(func(pod *api.PodSandbox, _ *api.Container) *Req { return build(pod) }, call)
	return func(ctx context.Context, p api.PluginService, pod *api.PodSandbox) (any, error) {
		return send(ctx, p, pod, nil)
	}
}
