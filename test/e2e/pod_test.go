package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pod is a running sandbox.
type pod struct {
	n      *node
	id     string
	config *cri.PodSandboxConfig
}

// runPod starts a sandbox in the node's network. labels are pairs; a key that begins with @ is an annotation.
func (n *node) runPod(namespace, name string, labels ...string) (*pod, error) {
	c := n.sandbox(namespace, name)
	for i := 0; i+1 < len(labels); i += 2 {
		if key, ok := strings.CutPrefix(labels[i], "@"); ok {
			c.Annotations[key] = labels[i+1]
			continue
		}
		c.Labels[labels[i]] = labels[i+1]
	}
	return n.runPodOf(c)
}

// sandbox is the configuration of a sandbox in the node's network.
func (n *node) sandbox(namespace, name string) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: "uid-" + namespace + "-" + name},
		LogDirectory: n.dir, Labels: map[string]string{}, Annotations: map[string]string{},
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: "/" + n.name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_NODE},
			},
		},
	}
}

// runPrivilegedPod starts a sandbox whose containers may do everything.
func (n *node) runPrivilegedPod(namespace, name string) (*pod, error) {
	c := n.sandbox(namespace, name)
	c.Linux.SecurityContext.Privileged = true
	return n.runPodOf(c)
}

// runPodOf starts a sandbox.
func (n *node) runPodOf(c *cri.PodSandboxConfig) (*pod, error) {
	rsp, err := n.cri.RunPodSandbox(n.t.Context(), &cri.RunPodSandboxRequest{Config: c})
	if err != nil {
		return nil, err
	}
	return &pod{n: n, id: rsp.GetPodSandboxId(), config: c}, nil
}

// create creates a container that does nothing for ever and starts it.
func (p *pod) create(name string) (string, error) {
	return p.createOf(&cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: "localhost/busybox:1"}, Command: []string{"/bin/sleep", "1000000"},
		Linux: &cri.LinuxContainerConfig{Resources: &cri.LinuxContainerResources{MemoryLimitInBytes: 64 << 20, CpuShares: 512}},
	})
}

func (p *pod) createOf(c *cri.ContainerConfig) (string, error) {
	c.LogPath = p.config.GetMetadata().GetName() + "-" + c.GetMetadata().GetName() + ".log"
	if c.Linux.SecurityContext == nil {
		c.Linux.SecurityContext = &cri.LinuxContainerSecurityContext{}
	}
	c.Linux.SecurityContext.NamespaceOptions = p.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	ctx := p.n.t.Context()
	rsp, err := p.n.cri.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config, Config: c})
	if err != nil {
		return "", err
	}
	_, err = p.n.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: rsp.GetContainerId()})
	return rsp.GetContainerId(), err
}

// mustCreate runs a pod in the namespace "default" with one container and returns the container.
func (n *node) mustCreate(name string, labels ...string) string {
	n.t.Helper()
	id, err := n.tryCreate(name, labels...)
	if err != nil {
		n.t.Fatalf("pod %q: %v", name, err)
	}
	return id
}

func (n *node) tryCreate(name string, labels ...string) (string, error) {
	p, err := n.runPod("default", name, labels...)
	if err != nil {
		return "", err
	}
	return p.create("main")
}

// exec runs a command in a container and returns its output.
func (n *node) exec(id string, args ...string) string {
	n.t.Helper()
	rsp, err := n.cri.ExecSync(n.t.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: args, Timeout: 10})
	if err != nil {
		n.t.Fatal(err)
	}
	return string(rsp.GetStdout()) + string(rsp.GetStderr())
}

// remove stops and removes a container, as the kubelet does: a forced removal is refused while the runtime is learning that the container has just ended by itself.
func (n *node) remove(id string) {
	n.t.Helper()
	if _, err := n.cri.StopContainer(n.t.Context(), &cri.StopContainerRequest{ContainerId: id}); err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.cri.RemoveContainer(n.t.Context(), &cri.RemoveContainerRequest{ContainerId: id}); err != nil {
		n.t.Fatal(err)
	}
}

// running are the containers that the runtime says are running.
func (n *node) running(ctx context.Context) []string {
	n.t.Helper()
	rsp, err := n.cri.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}})
	if err != nil {
		n.t.Fatal(err)
	}
	var ids []string
	for _, c := range rsp.GetContainers() {
		ids = append(ids, c.GetId())
	}
	return ids
}

// spec is the part of an OCI runtime spec that tests look at.
type spec struct {
	Process struct {
		Args    []string `json:"args"`
		Env     []string `json:"env"`
		Rlimits []struct {
			Type string `json:"type"`
			Hard uint64 `json:"hard"`
		} `json:"rlimits"`
	} `json:"process"`
	Mounts []struct {
		Destination string   `json:"destination"`
		Source      string   `json:"source"`
		Options     []string `json:"options"`
	} `json:"mounts"`
	Hooks struct {
		Poststart []struct {
			Path string `json:"path"`
		} `json:"poststart"`
	} `json:"hooks"`
	Linux struct {
		CgroupsPath string `json:"cgroupsPath"`
		Devices     []struct {
			Path string `json:"path"`
		} `json:"devices"`
	} `json:"linux"`
	Annotations map[string]string `json:"annotations"`
}

// spec reads what runc was given, from the bundle on disk.
func (n *node) spec(id string) spec {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "state", "io.containerd.runtime.v2.task", "k8s.io", id, "config.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	var s spec
	if err := json.Unmarshal(data, &s); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// env is the value of a variable in the runtime spec, with all its values if it is there more than once.
func (s spec) env(key string) string {
	var values []string
	for _, kv := range s.Process.Env {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			values = append(values, v)
		}
	}
	return strings.Join(values, ",")
}

// memoryLimit reads the limit of a container's control group, in bytes; both versions of control groups are known.
func (n *node) memoryLimit(id string) int64 {
	n.t.Helper()
	path := n.spec(id).Linux.CgroupsPath
	for _, file := range []string{filepath.Join(cgroupRoot, "memory", path, "memory.limit_in_bytes"), filepath.Join(cgroupRoot, path, "memory.max")} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			n.t.Fatalf("%s: %v", file, err)
		}
		return limit
	}
	n.t.Fatalf("no memory control group %q below %s", path, cgroupRoot)
	return 0
}

// has says whether the command "env" in a container prints a variable with a value.
func (n *node) has(id, key, value string) bool {
	n.t.Helper()
	return slices.Contains(strings.Split(n.exec(id, "/bin/env"), "\n"), fmt.Sprintf("%s=%s", key, value))
}

// updateMemory changes a container's memory limit as the kubelet does.
func (n *node) updateMemory(id string, limit int64) {
	n.t.Helper()
	if _, err := n.cri.UpdateContainerResources(n.t.Context(), &cri.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &cri.LinuxContainerResources{MemoryLimitInBytes: limit, CpuShares: 512},
	}); err != nil {
		n.t.Fatal(err)
	}
}
