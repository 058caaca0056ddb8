package harness

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/api"
)

// request is one request to the plugins: under the runtime's lane, and timed.
func (r *Runtime) request(what string, f func() error) error {
	r.lane.Lock()
	defer r.lane.Unlock()
	defer r.clock.start(what)()
	return f()
}

// RunPod creates a pod sandbox.
func (r *Runtime) RunPod(ctx context.Context, pod *api.PodSandbox) error {
	block := r.nri.BlockPluginSync()
	defer block.Unblock()
	err := r.request("RunPodSandbox", func() error { return r.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod}) })
	if err != nil {
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
	var rpl *api.CreateContainerResponse
	err := r.request("CreateContainer", func() (err error) {
		rpl, err = r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
		return err
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.ctrs[ctr.GetId()] = ctr
	r.mu.Unlock()
	return rpl, r.request("PostCreateContainer", func() error {
		return r.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: ctr})
	})
}

// StartContainer starts a created container.
func (r *Runtime) StartContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	err := r.request("StartContainer", func() error { return r.nri.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: ctr}) })
	if err != nil {
		return err
	}
	return r.request("PostStartContainer", func() error {
		return r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: ctr})
	})
}

// Update updates a container's resources.
func (r *Runtime) Update(ctx context.Context, pod *api.PodSandbox, ctr *api.Container, res *api.LinuxResources) (*api.UpdateContainerResponse, error) {
	var rpl *api.UpdateContainerResponse
	err := r.request("UpdateContainer", func() (err error) {
		rpl, err = r.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: pod, Container: ctr, LinuxResources: res})
		return err
	})
	if err != nil {
		return nil, err
	}
	return rpl, r.request("PostUpdateContainer", func() error {
		return r.nri.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: pod, Container: ctr})
	})
}

// UpdatePod updates a pod's resources.
func (r *Runtime) UpdatePod(ctx context.Context, pod *api.PodSandbox, overhead, res *api.LinuxResources) error {
	err := r.request("UpdatePodSandbox", func() error {
		_, err := r.nri.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{Pod: pod, OverheadLinuxResources: overhead, LinuxResources: res})
		return err
	})
	if err != nil {
		return err
	}
	return r.request("PostUpdatePodSandbox", func() error { return r.nri.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: pod}) })
}

// StopContainer stops a container and returns what the plugins want updated.
func (r *Runtime) StopContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) (*api.StopContainerResponse, error) {
	var rpl *api.StopContainerResponse
	err := r.request("StopContainer", func() (err error) {
		rpl, err = r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: ctr})
		return err
	})
	return rpl, err
}

// RemoveContainer removes a stopped container.
func (r *Runtime) RemoveContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	r.mu.Lock()
	delete(r.ctrs, ctr.GetId())
	r.mu.Unlock()
	return r.request("RemoveContainer", func() error {
		return r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: ctr})
	})
}

// Remove stops and removes a container.
func (r *Runtime) Remove(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) error {
	_, err := r.StopContainer(ctx, pod, ctr)
	return errors.Join(err, r.RemoveContainer(ctx, pod, ctr))
}

// RemovePod stops and removes a pod.
func (r *Runtime) RemovePod(ctx context.Context, pod *api.PodSandbox) error {
	stopErr := r.request("StopPodSandbox", func() error { return r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod}) })
	r.mu.Lock()
	delete(r.pods, pod.GetId())
	r.mu.Unlock()
	return errors.Join(stopErr, r.request("RemovePodSandbox", func() error {
		return r.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod})
	}))
}
