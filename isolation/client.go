package isolation

import (
	"context"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// pluginClient is a plugin's service, by its connection's caller.
type pluginClient struct{ caller *caller }

// message is a pointer to M that is a protobuf message.
type message[M any] interface {
	*M
	proto.Message
}

// request calls a method whose reply is an M.
func request[M any, P message[M]](ctx context.Context, c pluginClient, method string, req proto.Message) (*M, error) {
	reply := P(new(M))
	if err := c.caller.call(ctx, method, req, reply); err != nil {
		return nil, err
	}
	return reply, nil
}

func (c pluginClient) Configure(ctx context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	return request[api.ConfigureResponse](ctx, c, "Configure", r)
}

func (c pluginClient) Synchronize(ctx context.Context, r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	return request[api.SynchronizeResponse](ctx, c, "Synchronize", r)
}

func (c pluginClient) Shutdown(ctx context.Context, r *api.Empty) (*api.Empty, error) {
	return request[api.Empty](ctx, c, "Shutdown", r)
}

func (c pluginClient) RunPodSandbox(ctx context.Context, r *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	return request[api.RunPodSandboxResponse](ctx, c, "RunPodSandbox", r)
}

func (c pluginClient) UpdatePodSandbox(ctx context.Context, r *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	return request[api.UpdatePodSandboxResponse](ctx, c, "UpdatePodSandbox", r)
}

func (c pluginClient) PostUpdatePodSandbox(ctx context.Context, r *api.PostUpdatePodSandboxRequest) (*api.PostUpdatePodSandboxResponse, error) {
	return request[api.PostUpdatePodSandboxResponse](ctx, c, "PostUpdatePodSandbox", r)
}

func (c pluginClient) StopPodSandbox(ctx context.Context, r *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	return request[api.StopPodSandboxResponse](ctx, c, "StopPodSandbox", r)
}

func (c pluginClient) RemovePodSandbox(ctx context.Context, r *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	return request[api.RemovePodSandboxResponse](ctx, c, "RemovePodSandbox", r)
}

func (c pluginClient) CreateContainer(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	return request[api.CreateContainerResponse](ctx, c, "CreateContainer", r)
}

func (c pluginClient) PostCreateContainer(ctx context.Context, r *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	return request[api.PostCreateContainerResponse](ctx, c, "PostCreateContainer", r)
}

func (c pluginClient) StartContainer(ctx context.Context, r *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	return request[api.StartContainerResponse](ctx, c, "StartContainer", r)
}

func (c pluginClient) PostStartContainer(ctx context.Context, r *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	return request[api.PostStartContainerResponse](ctx, c, "PostStartContainer", r)
}

func (c pluginClient) UpdateContainer(ctx context.Context, r *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	return request[api.UpdateContainerResponse](ctx, c, "UpdateContainer", r)
}

func (c pluginClient) PostUpdateContainer(ctx context.Context, r *api.PostUpdateContainerRequest) (*api.PostUpdateContainerResponse, error) {
	return request[api.PostUpdateContainerResponse](ctx, c, "PostUpdateContainer", r)
}

func (c pluginClient) StopContainer(ctx context.Context, r *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	return request[api.StopContainerResponse](ctx, c, "StopContainer", r)
}

func (c pluginClient) RemoveContainer(ctx context.Context, r *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	return request[api.RemoveContainerResponse](ctx, c, "RemoveContainer", r)
}

func (c pluginClient) StateChange(ctx context.Context, r *api.StateChangeEvent) (*api.Empty, error) {
	return request[api.Empty](ctx, c, "StateChange", r)
}

func (c pluginClient) ValidateContainerAdjustment(ctx context.Context, r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
	return request[api.ValidateContainerAdjustmentResponse](ctx, c, "ValidateContainerAdjustment", r)
}
