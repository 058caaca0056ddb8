package merge_test

import "github.com/containerd/nri/pkg/api"

// newCreate gives a request with something in every field that plugins change.
func newCreate() *api.CreateContainerRequest {
	return &api.CreateContainerRequest{
		Pod: &api.PodSandbox{Id: "pod0", Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Container: &api.Container{
			Id: "ctr0", PodSandboxId: "pod0", Name: "main",
			Labels:      map[string]string{"l": "1"},
			Annotations: map[string]string{"a": "own", "b": "own"},
			Args:        []string{"sleep", "1"},
			Env:         []string{"A=own", "B=own", "PATH=/bin"},
			Mounts: []*api.Mount{
				{Destination: "/a", Type: "bind", Source: "/own/a"},
				{Destination: "/proc", Type: "proc", Source: "proc"},
			},
			Hooks:   &api.Hooks{Prestart: []*api.Hook{{Path: "/own"}}},
			Rlimits: []*api.POSIXRlimit{{Type: "RLIMIT_CORE", Hard: 1, Soft: 1}},
			Linux: &api.LinuxContainer{
				Namespaces: []*api.LinuxNamespace{{Type: "pid"}, {Type: "network", Path: "/own"}},
				Devices:    []*api.LinuxDevice{{Path: "/dev/a", Type: "c", Major: 1, Minor: 1}},
				Resources: &api.LinuxResources{
					Memory:  &api.LinuxMemory{Limit: api.Int64(1000)},
					Cpu:     &api.LinuxCPU{Shares: api.UInt64(10), Cpus: "0-3"},
					Unified: map[string]string{"memory.high": "1"},
				},
				Sysctl:     map[string]string{"net.a": "own"},
				NetDevices: map[string]*api.LinuxNetDevice{"eth0": {Name: "own0"}},
			},
		},
	}
}

func newUpdate() *api.UpdateContainerRequest {
	return &api.UpdateContainerRequest{
		Pod:       &api.PodSandbox{Id: "pod0", Name: "web", Namespace: "shop"},
		Container: &api.Container{Id: "ctr0", PodSandboxId: "pod0", Name: "main"},
		LinuxResources: &api.LinuxResources{
			Memory: &api.LinuxMemory{Limit: api.Int64(1000)},
			Cpu:    &api.LinuxCPU{Shares: api.UInt64(10), Cpus: "0-3"},
		},
	}
}

func newStop() *api.StopContainerRequest {
	return &api.StopContainerRequest{
		Pod:       &api.PodSandbox{Id: "pod0", Name: "web", Namespace: "shop"},
		Container: &api.Container{Id: "ctr0", PodSandboxId: "pod0", Name: "main"},
	}
}

// adjusting replies with an adjustment, updating with updates.
func adjusting(change func(*api.ContainerAdjustment)) *api.CreateContainerResponse {
	a := &api.ContainerAdjustment{}
	change(a)
	return &api.CreateContainerResponse{Adjust: a}
}

func updateOf(id string, change func(*api.ContainerUpdate)) *api.ContainerUpdate {
	u := &api.ContainerUpdate{ContainerId: id}
	change(u)
	return u
}
