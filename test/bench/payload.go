package main

import (
	"fmt"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// payload is the size of a pod and container.
type payload struct {
	name                               string
	labels, env, mounts, annotationLen int
}

// tiny is a pod that has next to nothing, so that a round trip between processes is all there is to measure.
func tiny() payload { return payload{name: "tiny", labels: 1, env: 1} }

// typical is what a kubelet makes of an ordinary pod; heavy is near the limits that Kubernetes sets (256 KiB of annotations).
func typical() payload {
	return payload{name: "typical", labels: 10, env: 30, mounts: 12, annotationLen: 2 << 10}
}

func heavy() payload {
	return payload{name: "heavy", labels: 10, env: 200, mounts: 100, annotationLen: 200 << 10}
}

// pod returns a pod of the role: a plugin's, "all", or "none".
func (p payload) pod(id, role string) *api.PodSandbox {
	pod := &api.PodSandbox{
		Id: "pod-" + id, Uid: "uid-" + id, Name: "app-" + id, Namespace: "default", RuntimeHandler: "runc",
		Labels: map[string]string{"role": role}, Annotations: map[string]string{},
		Linux: &api.LinuxPodSandbox{
			CgroupParent: "/kubepods/burstable/pod" + id,
			Namespaces:   []*api.LinuxNamespace{{Type: "network", Path: "/var/run/netns/cni-" + id}},
		},
		Ips: []string{"10.1.2.3"},
	}
	for i := 1; i < p.labels; i++ {
		pod.Labels[fmt.Sprintf("app.kubernetes.io/label-%d", i)] = fmt.Sprintf("value-%d", i)
	}
	const pieces = 8
	for i := range pieces {
		pod.Annotations[fmt.Sprintf("example.com/annotation-%d", i)] = strings.Repeat("x", p.annotationLen/pieces)
	}
	return pod
}

// container returns the container of the pod.
func (p payload) container(pod *api.PodSandbox) *api.Container {
	const name = "main"
	c := &api.Container{
		Id: "ctr-" + pod.GetId() + "-" + name, PodSandboxId: pod.GetId(), Name: name, State: api.ContainerState_CONTAINER_CREATED,
		Labels:      map[string]string{"io.kubernetes.container.name": name, "io.kubernetes.pod.name": pod.GetName(), "io.kubernetes.pod.uid": pod.GetUid()},
		Annotations: map[string]string{"io.kubernetes.container.restartCount": "0"},
		Args:        []string{"/usr/bin/app", "--config=/etc/app/config.yaml", "--verbose=2"},
		Linux: &api.LinuxContainer{
			CgroupsPath: "/kubepods/burstable/pod/" + name,
			Resources: &api.LinuxResources{
				Cpu:    &api.LinuxCPU{Shares: api.UInt64(uint64(1024)), Quota: api.Int64(int64(100000)), Period: api.UInt64(uint64(100000))},
				Memory: &api.LinuxMemory{Limit: api.Int64(int64(256 << 20))},
			},
		},
	}
	for i := range p.env {
		c.Env = append(c.Env, fmt.Sprintf("SERVICE_%d_PORT_8080_TCP_ADDR=10.0.%d.%d", i, i/250, i%250))
	}
	for i := range p.mounts {
		c.Mounts = append(c.Mounts, &api.Mount{
			Destination: fmt.Sprintf("/mnt/volume-%d", i), Type: "bind", Source: fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/v-%d", pod.GetUid(), i),
			Options: []string{"rbind", "rprivate", "rw"},
		})
	}
	return c
}
