package chaosplugin

import (
	"context"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// RunPodSandbox is an event that can be failed.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("RunPodSandbox", pod, nil)
}

// UpdatePodSandbox is an event that can be failed.
func (p *Plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) error {
	return p.event("UpdatePodSandbox", pod, nil)
}

// PostUpdatePodSandbox is an event that can be failed.
func (p *Plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("PostUpdatePodSandbox", pod, nil)
}

// StopPodSandbox is an event that can be failed.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("StopPodSandbox", pod, nil)
}

// RemovePodSandbox is an event that can be failed.
func (p *Plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("RemovePodSandbox", pod, nil)
}

// CreateContainer sets CHAOS on the container unless a fault keeps it from that.
func (p *Plugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.mu.Lock()
	p.record.event("CreateContainer", pod, c)
	name := p.config.Name
	p.mu.Unlock()
	a, err := p.choose("CreateContainer", pod)
	if err != nil {
		return nil, nil, err
	}
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv(InjectedEnv, name)
	switch a.verb {
	case "oversize":
		adjust.AddAnnotation("chaos", strings.Repeat("x", oversize))
	case "forbidden":
		adjust.AddHooks(&api.Hooks{CreateRuntime: []*api.Hook{{Path: "/bin/true"}}})
	case "conflict":
		adjust.SetArgs([]string{"chaos"})
		adjust.AddMount(&api.Mount{Destination: "/dev/shm/gpu", Type: "bind", Source: "/tmp"})
	case "empty":
		adjust.Env = append(adjust.Env, nil, &api.KeyValue{})
		return adjust, p.replies(a, c), nil
	case "foreign":
		return adjust, p.replies(a, c), nil
	default:
		if err := p.carryOut(a, c); err != nil {
			return nil, nil, err
		}
	}
	return adjust, nil, nil
}

// ValidateContainerAdjustment agrees unless a fault keeps it from that.
func (p *Plugin) ValidateContainerAdjustment(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	return p.event("ValidateContainerAdjustment", req.GetPod(), req.GetContainer())
}

// PostCreateContainer is an event that can be failed.
func (p *Plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("PostCreateContainer", pod, c)
}

// StartContainer is an event that can be failed.
func (p *Plugin) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("StartContainer", pod, c)
}

// PostStartContainer is an event that can be failed.
func (p *Plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("PostStartContainer", pod, c)
}

// UpdateContainer is an event that can be failed.
func (p *Plugin) UpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container, _ *api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	return p.updating("UpdateContainer", pod, c)
}

// PostUpdateContainer is an event that can be failed.
func (p *Plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("PostUpdateContainer", pod, c)
}

// StopContainer is an event that can be failed.
func (p *Plugin) StopContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	return p.updating("StopContainer", pod, c)
}

// RemoveContainer is an event that can be failed.
func (p *Plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("RemoveContainer", pod, c)
}
