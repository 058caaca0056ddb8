package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// demoPod is one pod of the stream, with its one container. It travels to the runtime process as JSON.
type demoPod struct {
	Number      int               `json:"number"` // from 0, its place in the stream
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Life is how long the container runs. 0 means that it outlives the demo.
	Life time.Duration `json:"life"`

	after time.Duration // its arrival, from the start of the stream
}

// demoKind is a kind of pod. Shares are hundredths of the stream; what rounding leaves over is the last kind.
type demoKind struct {
	name      string
	namespace string
	share     int
	gpu       bool
	net       bool
	vol       bool
}

// demoKinds are the pods of a node that is mostly about something else: four of five are none of the broken plugins' business.
func demoKinds() []demoKind {
	return []demoKind{
		{name: "train", namespace: "research", share: 18, gpu: true},
		{name: "proxy", namespace: "edge", share: 7, net: true},
		{name: "store", namespace: "data", share: 7, vol: true},
		{name: "train-rdma", namespace: "research", share: 3, gpu: true, net: true},
		{name: "train-disk", namespace: "research", share: 3, gpu: true, vol: true},
		{name: "web", namespace: "shop"},
	}
}

const (
	// The faults begin and end with these hundredths of the stream: before, every plugin has work to remember; after, it has to come back.
	demoFaultsFrom  = 10
	demoFaultsUntil = 60
	// demoStays is how many of a hundred containers outlive the demo, demoLifeMost how long the others live at most.
	demoStays    = 25
	demoLifeMost = 1500 * time.Millisecond
)

// demoStream makes the stream: the same for the same seed. Arrivals are spread at random over n/rate seconds, so pods come in bursts, as they do.
func demoStream(seed uint64, n int, rate float64) []demoPod {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same stream for the same seed
	var kinds []demoKind
	all := demoKinds()
	for _, k := range all {
		for range k.share * n / 100 {
			kinds = append(kinds, k)
		}
	}
	for len(kinds) < n {
		kinds = append(kinds, all[len(all)-1])
	}
	r.Shuffle(n, func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	span := time.Duration(float64(n) / rate * float64(time.Second))
	arrivals := make([]time.Duration, n)
	for i := range arrivals {
		arrivals[i] = time.Duration(r.Int64N(int64(span)))
	}
	slices.Sort(arrivals)
	pods := make([]demoPod, n)
	for i, k := range kinds {
		pods[i] = k.pod(i)
		pods[i].after = arrivals[i]
		if r.IntN(100) >= demoStays {
			pods[i].Life = time.Duration(r.Int64N(int64(demoLifeMost))) + 1
		}
	}
	return pods
}

func (k demoKind) pod(number int) demoPod {
	p := demoPod{Number: number, Namespace: k.namespace, Name: fmt.Sprintf("%s-%03d", k.name, number), Labels: map[string]string{"app": k.name}}
	for _, l := range []struct {
		has    bool
		plugin demoPlugin
	}{{k.gpu, demoGPU()}, {k.net, demoNet()}, {k.vol, demoVol()}} {
		if l.has {
			p.Labels[l.plugin.labelKey] = l.plugin.labelValue
		}
	}
	return p
}

// demoProbe is a pod for one plugin alone. It stays, and the plugin writes down what it knows when the pod is updated.
func demoProbe(p demoPlugin, number int) demoPod {
	pod := demoKind{name: "probe-" + p.name, namespace: "default"}.pod(number)
	pod.Labels[p.labelKey] = p.labelValue
	pod.Annotations = map[string]string{"chaos.nri-supervisor.dev/UpdatePodSandbox": "dump"}
	return pod
}

// id names the container. The runtime process and the conductor agree on it.
func (p demoPod) id() string { return fmt.Sprintf("ctr-%04d", p.Number) }

// sandbox is the pod as a runtime tells NRI of it.
func (p demoPod) sandbox() *api.PodSandbox {
	return &api.PodSandbox{
		Id: fmt.Sprintf("pod-%04d", p.Number), Name: p.Name, Namespace: p.Namespace, Uid: fmt.Sprintf("00000000-0000-4000-8000-%012d", p.Number),
		Labels: p.Labels, Annotations: p.Annotations,
		Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/" + p.Name},
	}
}

// container is the pod's one container, with what a kubelet gives to each.
func (p demoPod) container() *api.Container {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOSTNAME=" + p.Name}
	for i := range 8 {
		env = append(env, fmt.Sprintf("BACKEND_%d_SERVICE_HOST=10.96.0.%d", i, i))
	}
	return &api.Container{
		Id: p.id(), PodSandboxId: p.sandbox().GetId(), Name: "main", State: api.ContainerState_CONTAINER_CREATED,
		Labels: map[string]string{"io.kubernetes.container.name": "main", "io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace},
		Args:   []string{"/bin/" + p.Labels["app"], "--serve"}, Env: env,
		Mounts: []*api.Mount{
			{Destination: "/etc/hosts", Type: "bind", Source: "/var/lib/kubelet/pods/" + p.Name + "/etc-hosts", Options: []string{"rbind", "rprivate", "rw"}},
			{Destination: "/dev/termination-log", Type: "bind", Source: "/var/lib/kubelet/pods/" + p.Name + "/log", Options: []string{"rbind", "rprivate", "rw"}},
		},
		Linux: &api.LinuxContainer{Resources: &api.LinuxResources{
			Cpu:    &api.LinuxCPU{Shares: api.UInt64(uint64(1024))},
			Memory: &api.LinuxMemory{Limit: api.Int64(int64(256 << 20))},
		}},
	}
}
