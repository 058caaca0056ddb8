package store_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// typicalPod is a pod of a Deployment as containerd shows it.
func typicalPod(i int) *api.PodSandbox {
	id := fmt.Sprintf("%064x", i)
	name := fmt.Sprintf("frontend-7d4b9c6f5d-%05d", i)
	return &api.PodSandbox{
		Id: id, Name: name, Uid: fmt.Sprintf("6f0c1f0e-0000-4000-8000-%012x", i), Namespace: "shop",
		Labels: map[string]string{
			"app": "frontend", "pod-template-hash": "7d4b9c6f5d", "app.kubernetes.io/name": "frontend", "app.kubernetes.io/part-of": "shop",
			"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": fmt.Sprintf("6f0c1f0e-0000-4000-8000-%012x", i),
		},
		Annotations: map[string]string{
			"kubernetes.io/config.seen": "2026-01-01T12:00:00.000000000Z", "kubernetes.io/config.source": "api", "io.kubernetes.cri.container-type": "sandbox",
			"io.kubernetes.cri.sandbox-id": id, "io.kubernetes.cri.sandbox-log-directory": "/var/log/pods/shop_" + name, "io.kubernetes.cri.sandbox-name": name,
		},
		RuntimeHandler: "runc", Ips: []string{"10.0.12.34"}, Pid: 4242,
		Linux: &api.LinuxPodSandbox{
			CgroupParent: "/kubepods/burstable/pod" + id[:36], CgroupsPath: "/kubepods/burstable/pod" + id[:36] + "/" + id,
			Namespaces: []*api.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "network", Path: "/var/run/netns/cni-" + id[:36]}},
			Resources:  &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(2)}},
		},
	}
}

// typicalContainer is the container of such a pod: a service's environment, kubelet's mounts, the usual resources.
func typicalContainer(i int) *api.Container {
	pod := typicalPod(i)
	c := &api.Container{
		Id: fmt.Sprintf("%064x", 1<<32+i), PodSandboxId: pod.GetId(), Name: "server", State: api.ContainerState_CONTAINER_RUNNING, Pid: 4343,
		Labels: map[string]string{
			"io.kubernetes.container.name": "server", "io.kubernetes.pod.name": pod.GetName(), "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": pod.GetUid(),
		},
		Annotations: map[string]string{
			"io.kubernetes.container.hash": "a1b2c3d4", "io.kubernetes.container.restartCount": "0", "io.kubernetes.cri.image-name": "registry.example/shop/frontend:1.2.3",
			"io.kubernetes.cri.sandbox-id": pod.GetId(), "io.kubernetes.cri.container-type": "container",
		},
		Args:      []string{"/usr/bin/frontend", "--listen=:8080", "--config=/etc/frontend/config.yaml"},
		CreatedAt: 1767268800, StartedAt: 1767268801,
		Linux: &api.LinuxContainer{
			CgroupsPath: "/kubepods/burstable/pod" + pod.GetId()[:36] + "/c", OomScoreAdj: api.Int(990),
			Namespaces: pod.GetLinux().GetNamespaces(),
			Resources: &api.LinuxResources{
				Memory: &api.LinuxMemory{Limit: api.Int64(256 << 20)}, Cpu: &api.LinuxCPU{Shares: api.UInt64(256), Quota: api.Int64(50000), Period: api.UInt64(100000)},
			},
		},
	}
	for n := range 24 {
		c.Env = append(c.Env, fmt.Sprintf("SHOP_SERVICE_%02d_PORT_8080_TCP_ADDR=10.96.%d.%d", n, n, i%250))
	}
	for dst := range strings.FieldsSeq("/proc /dev /dev/pts /dev/mqueue /sys /sys/fs/cgroup /etc/hosts /dev/termination-log /etc/hostname /etc/resolv.conf /dev/shm /var/run/secrets") {
		c.Mounts = append(c.Mounts, &api.Mount{
			Destination: dst, Type: "bind", Source: "/var/lib/kubelet/pods/" + pod.GetUid() + dst, Options: []string{"rbind", "rprivate", "rw"},
		})
	}
	return c
}

// TestAKnownContainerStaysWithinItsMemory holds the bar of the design: under 4 KiB plus twice the encoded pod and container. It is serial,
// because it reads the heap of the process.
func TestAKnownContainerStaysWithinItsMemory(t *testing.T) { //nolint:paralleltest // it reads the heap of the process
	const n = 2000
	wirePods, wireCtrs := make([][]byte, n), make([][]byte, n)
	encoded := 0
	for i := range n {
		wirePods[i], wireCtrs[i] = encode(t, typicalPod(i)), encode(t, typicalContainer(i))
		encoded += len(wirePods[i]) + len(wireCtrs[i])
	}
	s := store.New()
	before := heap()
	for i := range n {
		p, c := &api.PodSandbox{}, &api.Container{}
		decode(t, wirePods[i], p)
		decode(t, wireCtrs[i], c)
		ref := s.ObserveCreation(p, c, noon).Ref
		s.SetCreated(ref)
		for _, at := range []store.Ref{{Pod: ref.Pod}, ref} {
			s.SetPins(at, []store.Pin{{Plugin: "gpu-env", Selected: true}, {Plugin: "logger", Selected: true}})
		}
		s.SetWork(ref, store.Work{Plugin: "gpu-env", Outcome: "timeout", Reason: "timeout", At: noon, Missed: true})
		s.SetWork(ref, store.Work{Plugin: "logger", Outcome: "success", At: noon})
		// The next event repeats the whole pod and lacks the container's spec; neither may make the store grow.
		again := &api.PodSandbox{}
		decode(t, wirePods[i], again)
		s.ObserveContainer(again, &api.Container{Id: ref.Container, PodSandboxId: ref.Pod}, noon)
	}
	used := int(heap()-before) / n
	bar := 4<<10 + 2*encoded/n
	runtime.KeepAlive(s)
	runtime.KeepAlive(wirePods)
	runtime.KeepAlive(wireCtrs)
	t.Logf("%d bytes a container with its pod, encoded %d, bar %d", used, encoded/n, bar)
	if used > bar {
		t.Errorf("%d bytes a container with its pod, want at most %d (4 KiB + 2 × %d encoded)", used, bar, encoded/n)
	}
	if used < encoded/n {
		t.Errorf("%d bytes a container with its pod, less than the %d encoded: the measurement is broken", used, encoded/n)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("encode %T: %v", m, err)
	}
	return b
}

func decode(t *testing.T, b []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatalf("decode %T: %v", m, err)
	}
}
