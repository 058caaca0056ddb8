package probeplugin

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// RunPodSandbox does what the pod asks for.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("RunPodSandbox", pod, nil)
	return nil
}

// UpdatePodSandbox does what the pod asks for.
func (p *Plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) error {
	p.event("UpdatePodSandbox", pod, nil)
	return nil
}

// PostUpdatePodSandbox does what the pod asks for.
func (p *Plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("PostUpdatePodSandbox", pod, nil)
	return nil
}

// StopPodSandbox does what the pod asks for.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("StopPodSandbox", pod, nil)
	return nil
}

// RemovePodSandbox does what the pod asks for.
func (p *Plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("RemovePodSandbox", pod, nil)
	return nil
}

// PostCreateContainer does what the pod asks for.
func (p *Plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("PostCreateContainer", pod, c)
	return nil
}

// StartContainer does what the pod asks for.
func (p *Plugin) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("StartContainer", pod, c)
	return nil
}

// PostStartContainer does what the pod asks for.
func (p *Plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("PostStartContainer", pod, c)
	return nil
}

// PostUpdateContainer does what the pod asks for.
func (p *Plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("PostUpdateContainer", pod, c)
	return nil
}

// RemoveContainer does what the pod asks for.
func (p *Plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("RemoveContainer", pod, c)
	return nil
}
