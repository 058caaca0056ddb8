package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// watcher is a probe that selects by the selector and records everything.
func TestAPluginHearsNothingOfWhatItDidNotSelect(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	type kind struct {
		name, selector string
		match          func(p *api.PodSandbox)
	}
	kinds := []kind{
		{"namespace", `namespaces: {include: [ml]}`, func(p *api.PodSandbox) { p.Namespace = "ml" }},
		{"glob", `namespaces: {include: ["team-*"], exclude: ["team-x*"]}`, func(p *api.PodSandbox) { p.Namespace = "team-a" }},
		{"label", `podSelector: {matchLabels: {gpu: "yes"}}`, func(p *api.PodSandbox) { p.Labels["gpu"] = "yes" }},
		{"expression", `podSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [web, ""]}, {key: tier, operator: Exists}]}`, func(p *api.PodSandbox) { p.Labels["tier"] = "batch" }},
		{"handler", `runtimeHandlers: [kata]`, func(p *api.PodSandbox) { p.RuntimeHandler = "kata" }},
		{"cel", `matchConditions: [{name: big, expression: "pod.annotations[?'size'].orValue('') == 'big'"}]`, func(p *api.PodSandbox) { p.Annotations["size"] = "big" }},
	}
	probes := map[string]*probe{}
	manifests, names := "", []string{}
	for i, k := range kinds {
		p := newProbe(t, "by-"+k.name)
		probes[k.name] = p
		names = append(names, p.name)
		manifests += p.manifest(fmt.Sprint(10+i), fmt.Sprintf(", %q: %q", "name", k.name), "  selector: {"+k.selector+"}")
	}
	// Some exist before anybody registers.
	old := harness.Pod("default", "old")
	rt.Preload(old, harness.Container(old, "main"))
	sup := start(t, rt, teams, manifests, names...)
	mine := map[string][]string{}
	for _, k := range kinds {
		pod := harness.Pod("default", "pod-"+k.name)
		k.match(pod)
		for event, err := range life(t.Context(), rt, pod) {
			if err != nil {
				t.Errorf("%s: %v", event, err)
			}
		}
		mine[k.name] = []string{pod.GetId(), harness.Container(pod, "main").GetId()}
	}
	nobody := harness.Pod("team-x1", "nobody")
	for event, err := range life(t.Context(), rt, nobody) {
		if err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
	for _, k := range kinds {
		p := probes[k.name]
		p.wait(1, "RemovePodSandbox", mine[k.name][0])
		for _, l := range p.lines(func(l probeLine) bool { return l.ID != "" && !slices.Contains(mine[k.name], l.ID) }) {
			t.Errorf("the plugin that selects by %s heard %s of %s", k.name, l.What, l.ID)
		}
		if l := p.wait(1, "Synchronize", ""); l.Pods != 0 || l.Containers != 0 {
			t.Errorf("the plugin that selects by %s was synchronized with %d pods and %d containers", k.name, l.Pods, l.Containers)
		}
		for _, event := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox"} {
			if n := len(p.about(event, "")); n != 1 {
				t.Errorf("the plugin that selects by %s heard %s %d times, want once", k.name, event, n)
			}
		}
	}
	if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
		t.Errorf("%v fallbacks", n)
	}
}

func TestAContainerSelectorAppliesToContainersOnly(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "sidecars")
	start(t, rt, teams, p.manifest("10", `, "name": "sidecars"`, "  selector: {containers: {names: [\"side*\"]}, matchConditions: [{name: c, expression: \"container.args.size() > 0\"}]}"), "sidecars")
	pod := harness.Pod("default", "a")
	if err := rt.RunPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want bool
	}{{"main", []string{"x"}, false}, {"sidecar", []string{"x"}, true}, {"side-without-args", nil, false}} {
		c := harness.Container(pod, tt.name)
		c.Args = tt.args
		rpl, err := rt.Create(t.Context(), pod, c)
		if err != nil {
			t.Fatal(err)
		}
		if got := env(rpl.GetAdjust())["PROBE"] == "sidecars"; got != tt.want {
			t.Errorf("container %s adjusted: %v, want %v", tt.name, got, tt.want)
		}
	}
	if len(p.about("RunPodSandbox", pod.GetId())) != 1 {
		t.Error("the pod's own event did not reach the plugin")
	}
}

func TestADecisionHoldsForTheContainersLife(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "pinned")
	start(t, rt, teams, p.manifest("10", "", ""), "pinned")
	pod := harness.Pod("default", "a", "probe", "pinned")
	c, _ := created(t, rt, pod)
	// Runtimes send an empty pod at the end, and ids only.
	empty := &api.PodSandbox{Id: pod.GetId()}
	bare := &api.Container{Id: c.GetId(), PodSandboxId: pod.GetId()}
	if err := rt.Remove(t.Context(), empty, bare); err != nil {
		t.Fatal(err)
	}
	if err := rt.RemovePod(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	p.wait(1, "StopContainer", c.GetId())
	p.wait(1, "RemoveContainer", c.GetId())
	p.wait(1, "StopPodSandbox", pod.GetId())
	p.wait(1, "RemovePodSandbox", pod.GetId())
}

func TestATeamsCeilingCannotBeWidenedByAPod(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	ceiling := `
  teams:
    net: {contact: "#net", namespaces: ["net-*"]}
`
	p := newProbe(t, "greedy")
	start(t, rt, ceiling, p.manifest("10", `, "name": "greedy"`, "  selector: {}"), "greedy")
	for ns, want := range map[string]bool{"net-a": true, "default": false, "kube-system": false, "": false} {
		pod := harness.Pod(ns, "p", "probe", "greedy", "team", "net", "namespace", "net-a")
		pod.Annotations["nri-supervisor.dev/team"] = "net"
		_, rpl := created(t, rt, pod)
		if got := env(rpl.GetAdjust())["PROBE"] != ""; got != want {
			t.Errorf("namespace %q: adjusted %v, want %v", ns, got, want)
		}
	}
}

func TestPodsWithoutANamespaceMatchOnlyTheStar(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	plugin := func(name, index, selector string) string {
		p := newProbe(t, name)
		return p.manifest(index, "", "  selector: {"+selector+"}\n  permissions: {update: none}")
	}
	injector := func(name, index, selector string) string {
		return strings.ReplaceAll(plugin(name, index, selector), "config: {", fmt.Sprintf(`config: {"adjust": {"env": [{"key": %q, "value": "1"}]}, `, strings.ToUpper(name)))
	}
	sup := start(t, rt, teams, injector("all", "10", "")+injector("star", "20", `namespaces: {include: ["*"]}`)+
		injector("named", "30", "namespaces: {include: [default]}")+injector("excluded", "40", `namespaces: {exclude: ["*"]}`)+
		injector("some", "50", `namespaces: {include: ["?*"]}`), "all", "star", "named", "excluded", "some")
	// Docker: no pod events, an empty namespace, only CreateContainer and Synchronize.
	pod := &api.PodSandbox{Id: "docker-1"}
	c := &api.Container{Id: "c1", PodSandboxId: "docker-1", Name: "web", Args: []string{"/bin/web"}}
	rpl, err := rt.Create(t.Context(), pod, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for k := range env(rpl.GetAdjust()) {
		got = append(got, k)
	}
	slices.Sort(got)
	if want := []string{"ALL", "STAR"}; !slices.Equal(got, want) {
		t.Errorf("adjusted by %v, want %v", got, want)
	}
	if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
		t.Errorf("%v fallbacks", n)
	}
}
