package supervisor

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// patient is a plugin in this process whose calls can be given up, as those of a process.
type patient struct{ api.PluginService }

func givingUp[Req, Rpl any](ctx context.Context, r Req, call func(context.Context, Req) (Rpl, error)) (Rpl, error) {
	late, ok := ctx.(interface{ Late(err error) })
	if !ok {
		return call(ctx, r)
	}
	type answer struct {
		rpl Rpl
		err error
	}
	came := make(chan answer)
	gone := make(chan struct{})
	go func() {
		rpl, err := call(ctx, r)
		select {
		case came <- answer{rpl, err}:
		case <-gone:
			late.Late(err)
		}
	}()
	select {
	case a := <-came:
		return a.rpl, a.err
	case <-ctx.Done():
		close(gone)
		var none Rpl
		return none, ctx.Err()
	}
}

func (p patient) RunPodSandbox(ctx context.Context, r *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	return givingUp(ctx, r, p.PluginService.RunPodSandbox)
}

func (p patient) UpdatePodSandbox(ctx context.Context, r *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	return givingUp(ctx, r, p.PluginService.UpdatePodSandbox)
}

func (p patient) PostUpdatePodSandbox(ctx context.Context, r *api.PostUpdatePodSandboxRequest) (*api.PostUpdatePodSandboxResponse, error) {
	return givingUp(ctx, r, p.PluginService.PostUpdatePodSandbox)
}

func (p patient) StopPodSandbox(ctx context.Context, r *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	return givingUp(ctx, r, p.PluginService.StopPodSandbox)
}

func (p patient) RemovePodSandbox(ctx context.Context, r *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	return givingUp(ctx, r, p.PluginService.RemovePodSandbox)
}

func (p patient) CreateContainer(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	hasty, ok := ctx.(interface {
		Late(err error)
		Aside(decode func())
	})
	if f, is := p.PluginService.(*fakePlugin); ok && is && f.decode != nil {
		rpl, err := f.CreateContainer(ctx, r)
		decoded := make(chan struct{})
		hasty.Aside(func() {
			f.decode()
			select {
			case decoded <- struct{}{}:
			case <-ctx.Done():
				hasty.Late(err)
			}
		})
		select {
		case <-decoded:
			return rpl, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return givingUp(ctx, r, p.PluginService.CreateContainer)
}

func (p patient) PostCreateContainer(ctx context.Context, r *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.PostCreateContainer)
}

func (p patient) StartContainer(ctx context.Context, r *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.StartContainer)
}

func (p patient) PostStartContainer(ctx context.Context, r *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.PostStartContainer)
}

func (p patient) UpdateContainer(ctx context.Context, r *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.UpdateContainer)
}

func (p patient) PostUpdateContainer(ctx context.Context, r *api.PostUpdateContainerRequest) (*api.PostUpdateContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.PostUpdateContainer)
}

func (p patient) StopContainer(ctx context.Context, r *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.StopContainer)
}

func (p patient) RemoveContainer(ctx context.Context, r *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	return givingUp(ctx, r, p.PluginService.RemoveContainer)
}

func (p patient) ValidateContainerAdjustment(ctx context.Context, r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
	return givingUp(ctx, r, p.PluginService.ValidateContainerAdjustment)
}
