package isolation

import (
	"context"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lacks tells whether err says, in ttrpc's own words, that the plugin's server does not have the method, so that no handler ran. The code is the one that ttrpc uses now, or the one of its
// versions before 1.2.
func lacks(method string, err error) bool {
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return false
	}
	words := "method " + method
	return (st.Code() == codes.Unimplemented || st.Code() == codes.NotFound) && (st.Message() == words || strings.HasPrefix(st.Message(), words+" "))
}

// orNothing makes the answer of a plugin that lacks the method an empty one: it is not interested.
func orNothing[Reply any](reply *Reply, err error, method string) (*Reply, error) {
	if lacks(method, err) {
		return new(Reply), nil
	}
	return reply, err
}

// The calls below have always been dedicated ones, so nothing stands in for a method that is missing.

func (f *eventFallback) Configure(ctx context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	reply, err := f.PluginService.Configure(ctx, r)
	return orNothing(reply, err, "Configure")
}

func (f *eventFallback) Synchronize(ctx context.Context, r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	reply, err := f.PluginService.Synchronize(ctx, r)
	if lacks("Synchronize", err) {
		return &api.SynchronizeResponse{More: r.GetMore()}, nil
	}
	return reply, err
}

func (f *eventFallback) CreateContainer(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	reply, err := f.PluginService.CreateContainer(ctx, r)
	return orNothing(reply, err, "CreateContainer")
}

func (f *eventFallback) UpdateContainer(ctx context.Context, r *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	reply, err := f.PluginService.UpdateContainer(ctx, r)
	return orNothing(reply, err, "UpdateContainer")
}

func (f *eventFallback) StopContainer(ctx context.Context, r *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	reply, err := f.PluginService.StopContainer(ctx, r)
	return orNothing(reply, err, "StopContainer")
}

func (f *eventFallback) UpdatePodSandbox(ctx context.Context, r *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	reply, err := f.PluginService.UpdatePodSandbox(ctx, r)
	return orNothing(reply, err, "UpdatePodSandbox")
}

func (f *eventFallback) ValidateContainerAdjustment(
	ctx context.Context, r *api.ValidateContainerAdjustmentRequest,
) (*api.ValidateContainerAdjustmentResponse, error) {
	reply, err := f.PluginService.ValidateContainerAdjustment(ctx, r)
	return orNothing(reply, err, "ValidateContainerAdjustment")
}
