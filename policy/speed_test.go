package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// hundred are 100 plugins without CEL, of which one selects the pod of typical. They have no regular expressions
// either: those take their memory from a pool that the race detector empties at random.
func hundred(tb testing.TB) []*policy.Plugin {
	tb.Helper()
	var docs []string
	for i := range 100 {
		app := fmt.Sprintf("app-%d", i)
		if i == 99 {
			app = "train"
		}
		docs = append(docs, plugin(fmt.Sprintf("p%d", i), fmt.Sprintf(`selector:
  namespaces: {include: ["team-*", "ml-*"], exclude: [kube-system, "*-secret"]}
  podSelector: {matchLabels: {app: %s}, matchExpressions: [{key: accelerator, operator: In, values: [gpu, tpu]}, {key: legacy, operator: DoesNotExist}]}
  runtimeHandlers: [runc, nvidia]
  containers: {names: ["main*"]}
  when: {hasBindMounts: true}`, app)))
	}
	return parse(tb, supervisorYAML, docs...).Plugins
}

// typical is a pod and container as a kubelet makes them.
func typical() (*api.PodSandbox, *api.Container) {
	pod := &api.PodSandbox{
		Name: "train-0", Namespace: "ml-vision", RuntimeHandler: "nvidia",
		Labels: map[string]string{
			"app": "train", "accelerator": "gpu", "pod-template-hash": "abc", "io.kubernetes.pod.name": "train-0",
			"io.kubernetes.pod.namespace": "ml-vision", "io.kubernetes.pod.uid": "1",
		},
		Annotations: map[string]string{"io.example/gpu": "on", "kubernetes.io/config.source": "api", "kubernetes.io/config.seen": "now"},
	}
	container := &api.Container{
		Name: "main", Args: []string{"python"}, Annotations: map[string]string{"io.kubernetes.container.restartCount": "0"},
		Mounts: []*api.Mount{{Destination: "/etc/hosts", Type: "bind"}, {Destination: "/data", Source: "/mnt", Type: "bind"}},
	}
	return pod, container
}

func TestSelectionWithoutCELAllocatesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	plugins := hundred(t)
	pod, c := typical()
	selected := 0
	allocs := testing.AllocsPerRun(100, func() {
		selected = 0
		for _, p := range plugins {
			if p.MatchContainer(pod, c).Selected && p.MatchPod(pod).Selected {
				selected++
			}
		}
	})
	if selected != 1 {
		t.Errorf("%d plugins select the container", selected)
	}
	if allocs != 0 {
		t.Errorf("%v allocations for 100 plugins, want none", allocs)
	}
}

// The bar is 20 µs. The race detector and busy machines are slower by a factor, so the test
// allows ten times that, which still tells a linear walk from anything worse; the benchmark tells the figure.
func TestSelectionByAHundredPluginsIsFast(t *testing.T) { //nolint:paralleltest // measures time
	plugins := hundred(t)
	pod, c := typical()
	best := time.Hour
	for range 200 {
		start := time.Now()
		for _, p := range plugins {
			p.MatchContainer(pod, c)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("fastest round: %s", best)
	if best > 200*time.Microsecond {
		t.Errorf("the fastest of 200 rounds took %s for 100 plugins, want at most 200 µs", best)
	}
}

func BenchmarkSelectionByAHundredPlugins(b *testing.B) {
	plugins := hundred(b)
	pod, c := typical()
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range plugins {
			p.MatchContainer(pod, c)
		}
	}
}

func BenchmarkSelectionByOneCondition(b *testing.B) {
	p := one(b, conditions(`pod.labels[?"accelerator"].orValue("") == "gpu" && container.name.startsWith("m")`))
	pod, c := typical()
	b.ReportAllocs()
	for b.Loop() {
		if !p.MatchContainer(pod, c).Selected {
			b.Fatal("not selected")
		}
	}
}

func BenchmarkDenied(b *testing.B) {
	p := one(b)
	adj := &api.ContainerAdjustment{
		Env:    []*api.KeyValue{{Key: "A", Value: "1"}, {Key: "B", Value: "2"}},
		Mounts: []*api.Mount{{Destination: "/a", Source: "/b", Type: "bind", Options: []string{"ro"}}},
		Linux:  &api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/x", Type: "c", Major: 1, Minor: 2}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if p.Denied(policy.Reply{Adjust: adj}) != nil {
			b.Fatal("forbidden")
		}
	}
}

func BenchmarkLoadOfAHundredPlugins(b *testing.B) {
	docs := make([]string, 100)
	for i := range docs {
		docs[i] = plugin(fmt.Sprintf("p%d", i), conditions(`pod.labels[?"accelerator"].orValue("") == "gpu"`))
	}
	for b.Loop() {
		parse(b, supervisorYAML, docs...)
	}
}
