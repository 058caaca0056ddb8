package eventlogger

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// RunPodSandbox logs the event.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("RunPodSandbox", pod, nil)
	return nil
}

// UpdatePodSandbox logs the event.
func (p *Plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) error {
	p.event("UpdatePodSandbox", pod, nil)
	return nil
}

// PostUpdatePodSandbox logs the event.
func (p *Plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("PostUpdatePodSandbox", pod, nil)
	return nil
}

// StopPodSandbox logs the event.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("StopPodSandbox", pod, nil)
	return nil
}

// RemovePodSandbox logs the event.
func (p *Plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.event("RemovePodSandbox", pod, nil)
	return nil
}

// CreateContainer logs the event and adjusts nothing.
func (p *Plugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.event("CreateContainer", pod, c)
	return nil, nil, nil
}

// PostCreateContainer logs the event.
func (p *Plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("PostCreateContainer", pod, c)
	return nil
}

// StartContainer logs the event.
func (p *Plugin) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("StartContainer", pod, c)
	return nil
}

// PostStartContainer logs the event.
func (p *Plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("PostStartContainer", pod, c)
	return nil
}

// UpdateContainer logs the event and updates nothing.
func (p *Plugin) UpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container, _ *api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	p.event("UpdateContainer", pod, c)
	return nil, nil
}

// PostUpdateContainer logs the event.
func (p *Plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("PostUpdateContainer", pod, c)
	return nil
}

// StopContainer logs the event and updates nothing.
func (p *Plugin) StopContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.event("StopContainer", pod, c)
	return nil, nil
}

// RemoveContainer logs the event.
func (p *Plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	p.event("RemoveContainer", pod, c)
	return nil
}
