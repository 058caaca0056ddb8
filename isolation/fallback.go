package isolation

import (
	"context"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// eventFallback delivers events to plugins that are built with an NRI that had only the catch-all StateChange for them.
//
// Whether a plugin is one of those is decided once, by its first dedicated call that is not refused before any handler of
// the plugin ran; so no event is ever delivered twice. A plugin that says its NRI version is recent, and an error that a
// handler made up itself is returned as it is.
type eventFallback struct {
	api.PluginService // Configure, Synchronize, CreateContainer, … have always been dedicated calls

	version func() string // the NRI version the plugin registered with

	mu  sync.Mutex // guards old
	old bool       // only StateChange
}

func newEventFallback(p api.PluginService, version func() string) *eventFallback {
	return &eventFallback{PluginService: p, version: version}
}

func (f *eventFallback) isOld() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.old
}

// unknownMethod tells whether err says that the plugin's server does not have the method, so that no handler ran.
func (f *eventFallback) unknownMethod(method string, err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	if lacks(method, err) {
		return true
	}
	// Another implementation of ttrpc. A recent NRI has the method, so there the error comes from a handler.
	return st.Code() == codes.Unimplemented && f.version() == ""
}

// deliver sends an event by its dedicated call, or as a StateChange.
func deliver[Reply any](
	ctx context.Context, f *eventFallback, event api.Event, pod *api.PodSandbox, ctr *api.Container,
	dedicated func() (*Reply, error),
) (*Reply, error) {
	if !f.isOld() {
		reply, err := dedicated()
		if err == nil || !f.unknownMethod(event.PrettyName(), err) {
			return reply, err
		}
		f.mu.Lock()
		f.old = true
		f.mu.Unlock()
	}
	if _, err := f.StateChange(ctx, &api.StateChangeEvent{Event: event, Pod: pod, Container: ctr}); err != nil && !lacks("StateChange", err) {
		return nil, err
	}
	return new(Reply), nil
}

func (f *eventFallback) RunPodSandbox(ctx context.Context, r *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	return deliver(ctx, f, api.Event_RUN_POD_SANDBOX, r.GetPod(), nil,
		func() (*api.RunPodSandboxResponse, error) { return f.PluginService.RunPodSandbox(ctx, r) })
}

func (f *eventFallback) PostUpdatePodSandbox(
	ctx context.Context, r *api.PostUpdatePodSandboxRequest,
) (*api.PostUpdatePodSandboxResponse, error) {
	return deliver(ctx, f, api.Event_POST_UPDATE_POD_SANDBOX, r.GetPod(), nil,
		func() (*api.PostUpdatePodSandboxResponse, error) { return f.PluginService.PostUpdatePodSandbox(ctx, r) })
}

func (f *eventFallback) StopPodSandbox(ctx context.Context, r *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	return deliver(ctx, f, api.Event_STOP_POD_SANDBOX, r.GetPod(), nil,
		func() (*api.StopPodSandboxResponse, error) { return f.PluginService.StopPodSandbox(ctx, r) })
}

func (f *eventFallback) RemovePodSandbox(ctx context.Context, r *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	return deliver(ctx, f, api.Event_REMOVE_POD_SANDBOX, r.GetPod(), nil,
		func() (*api.RemovePodSandboxResponse, error) { return f.PluginService.RemovePodSandbox(ctx, r) })
}

func (f *eventFallback) PostCreateContainer(
	ctx context.Context, r *api.PostCreateContainerRequest,
) (*api.PostCreateContainerResponse, error) {
	return deliver(ctx, f, api.Event_POST_CREATE_CONTAINER, r.GetPod(), r.GetContainer(),
		func() (*api.PostCreateContainerResponse, error) { return f.PluginService.PostCreateContainer(ctx, r) })
}

func (f *eventFallback) StartContainer(ctx context.Context, r *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	return deliver(ctx, f, api.Event_START_CONTAINER, r.GetPod(), r.GetContainer(),
		func() (*api.StartContainerResponse, error) { return f.PluginService.StartContainer(ctx, r) })
}

func (f *eventFallback) PostStartContainer(
	ctx context.Context, r *api.PostStartContainerRequest,
) (*api.PostStartContainerResponse, error) {
	return deliver(ctx, f, api.Event_POST_START_CONTAINER, r.GetPod(), r.GetContainer(),
		func() (*api.PostStartContainerResponse, error) { return f.PluginService.PostStartContainer(ctx, r) })
}

func (f *eventFallback) PostUpdateContainer(
	ctx context.Context, r *api.PostUpdateContainerRequest,
) (*api.PostUpdateContainerResponse, error) {
	return deliver(ctx, f, api.Event_POST_UPDATE_CONTAINER, r.GetPod(), r.GetContainer(),
		func() (*api.PostUpdateContainerResponse, error) { return f.PluginService.PostUpdateContainer(ctx, r) })
}

func (f *eventFallback) RemoveContainer(ctx context.Context, r *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	return deliver(ctx, f, api.Event_REMOVE_CONTAINER, r.GetPod(), r.GetContainer(),
		func() (*api.RemoveContainerResponse, error) { return f.PluginService.RemoveContainer(ctx, r) })
}
