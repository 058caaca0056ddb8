package harness

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
)

// Pod returns a typical pod; labels are pairs of key and value.
func Pod(namespace, name string, labels ...string) *api.PodSandbox {
	p := &api.PodSandbox{
		Id: "pod-" + namespace + "-" + name, Name: name, Namespace: namespace, Uid: "uid-" + namespace + "-" + name,
		Labels: map[string]string{"app": name}, Annotations: map[string]string{"kubernetes.io/config.source": "api"},
		Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/" + name},
	}
	for i := 0; i+1 < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	return p
}

// Container returns a typical container of the pod.
func Container(pod *api.PodSandbox, name string) *api.Container {
	c := &api.Container{
		Id: "ctr-" + pod.GetNamespace() + "-" + pod.GetName() + "-" + name, PodSandboxId: pod.GetId(), Name: name, State: api.ContainerState_CONTAINER_CREATED,
		Labels: map[string]string{"io.kubernetes.container.name": name}, Annotations: map[string]string{}, Args: []string{"/bin/app"},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/root"},
		Linux: &api.LinuxContainer{
			Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(1024))}, Memory: &api.LinuxMemory{Limit: api.Int64(int64(256 << 20))}},
		},
	}
	for i := range 8 {
		c.Env = append(c.Env, fmt.Sprintf("SERVICE_%d_HOST=10.0.0.%d", i, i))
	}
	c.Mounts = []*api.Mount{{Destination: "/etc/hosts", Type: "bind", Source: "/var/lib/kubelet/pods/x/etc-hosts", Options: []string{"rbind", "rprivate"}}}
	return c
}
