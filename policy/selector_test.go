package policy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestSelectionByEachPart(t *testing.T) {
	t.Parallel()
	gpu := &api.PodSandbox{
		Name: "train-0", Namespace: "ml-vision", RuntimeHandler: "nvidia",
		Labels: map[string]string{"accelerator": "gpu", "app": "train"},
	}
	main := &api.Container{Name: "main", Image: &api.Image{Name: "nvcr.io/nvidia/pytorch:24.01"}}
	for _, tt := range []struct {
		name, selector string
		pod, container policy.Part // which part refuses
	}{
		{"everything", "{}", policy.PartNone, policy.PartNone},
		{"empty parts are everything", "{namespaces: {}, podSelector: {}, runtimeHandlers: [], containers: {}, matchConditions: []}", policy.PartNone, policy.PartNone},
		{"namespace", "{namespaces: {include: [ml-vision]}}", policy.PartNone, policy.PartNone},
		{"namespace glob", `{namespaces: {include: [x, "ml-*"]}}`, policy.PartNone, policy.PartNone},
		{"other namespace", "{namespaces: {include: [ml]}}", policy.PartNamespaces, policy.PartNamespaces},
		{"exclude wins", `{namespaces: {include: ["*"], exclude: ["*-vision"]}}`, policy.PartNamespaces, policy.PartNamespaces},
		{"exclude alone", "{namespaces: {exclude: [kube-system]}}", policy.PartNone, policy.PartNone},
		{"label", "{podSelector: {matchLabels: {accelerator: gpu}}}", policy.PartNone, policy.PartNone},
		{"other label value", "{podSelector: {matchLabels: {accelerator: tpu}}}", policy.PartPodSelector, policy.PartPodSelector},
		{"not in with missing key", "{podSelector: {matchExpressions: [{key: none, operator: NotIn, values: [x]}]}}", policy.PartNone, policy.PartNone},
		{"does not exist", "{podSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}", policy.PartPodSelector, policy.PartPodSelector},
		{"handler", "{runtimeHandlers: [kata, nvidia]}", policy.PartNone, policy.PartNone},
		{"other handler", "{runtimeHandlers: [kata]}", policy.PartRuntimeHandlers, policy.PartRuntimeHandlers},
		{"container name", `{containers: {names: ["ma??"]}}`, policy.PartNone, policy.PartNone},
		{"other container name is no matter of the pod", "{containers: {names: [sidecar]}}", policy.PartNone, policy.PartContainers},
		{"image", `{containers: {images: ["nvcr.io/*"]}}`, policy.PartNone, policy.PartNone},
		{"name and image are ANDed", `{containers: {names: [main], images: ["docker.io/*"]}}`, policy.PartNone, policy.PartContainers},
		{"parts are ANDed", "{namespaces: {include: [ml-vision]}, podSelector: {matchLabels: {app: serve}}}", policy.PartPodSelector, policy.PartPodSelector},
		{"pod condition", `{matchConditions: [{name: c, expression: 'pod.name.startsWith("train-")'}]}`, policy.PartNone, policy.PartNone},
		{"false pod condition", `{matchConditions: [{name: c, expression: 'pod.uid != ""'}]}`, policy.PartMatchConditions, policy.PartMatchConditions},
		{"container condition is not looked at on pod events", `{matchConditions: [{name: c, expression: 'container.name == "x"'}]}`, policy.PartNone, policy.PartMatchConditions},
		{"when is not looked at on pod events", "{when: {always: false}}", policy.PartNone, policy.PartWhen},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := one(t, "selector: "+tt.selector)
			check := func(what string, d policy.Decision, want policy.Part) {
				if d.Err != nil || d.Part != want || d.Selected != (want == policy.PartNone) {
					t.Errorf("%s: got %+v, want part %s", what, d, want)
				}
			}
			check("pod", p.MatchPod(gpu), tt.pod)
			check("container", p.MatchContainer(gpu, main), tt.container)
		})
	}
}

func TestTheTeamsCeilingCannotBeWidenedByTheManifestOrThePod(t *testing.T) {
	t.Parallel()
	p := one(t, "team: ml", `selector: {namespaces: {include: ["*"]}}`)
	for ns, want := range map[string]bool{"ml-a": true, "ml-": true, "ml": false, "kube-system": false, "": false, "x-ml-a": false} {
		pod := &api.PodSandbox{Namespace: ns, Labels: map[string]string{"io.kubernetes.pod.namespace": "ml-a"}, Annotations: map[string]string{"namespace": "ml-a"}}
		d := p.MatchContainer(pod, &api.Container{})
		if d.Selected != want || (!want && d.Part != policy.PartTeam) {
			t.Errorf("namespace %q: %+v, want selected %v", ns, d, want)
		}
	}
}

func TestAnEmptyNamespaceMatchesOnlyTheStar(t *testing.T) {
	t.Parallel()
	for selector, want := range map[string]bool{
		"{}":                                               true,
		`{namespaces: {include: ["*"]}}`:                   true,
		`{namespaces: {include: ["a", "*"]}}`:              true,
		`{namespaces: {include: ["**"]}}`:                  false,
		`{namespaces: {include: ["default"]}}`:             false,
		`{namespaces: {include: ["*"], exclude: ["*"]}}`:   false,
		`{namespaces: {include: ["*"], exclude: ["*-a"]}}`: true,
	} {
		p := one(t, "selector: "+selector)
		if d := p.MatchPod(&api.PodSandbox{}); d.Selected != want {
			t.Errorf("%s: %+v, want selected %v", selector, d, want)
		}
	}
}

func TestAnUnknownImageMatchesOnlyTheStar(t *testing.T) {
	t.Parallel()
	for glob, want := range map[string]bool{"*": true, "nvcr.io/*": false, "**": false} {
		p := one(t, fmt.Sprintf("selector: {containers: {images: [%q]}}", glob))
		if d := p.MatchContainer(&api.PodSandbox{}, &api.Container{Name: "c"}); d.Selected != want {
			t.Errorf("%q: %+v, want selected %v", glob, d, want)
		}
	}
}

func TestMissingMessagesAreEmptyOnes(t *testing.T) {
	t.Parallel()
	p := one(t, `selector: {matchConditions: [{name: c, expression: 'pod.name == "" && container.name == ""'}], when: {always: true}}`)
	if d := p.MatchContainer(nil, nil); !d.Selected {
		t.Errorf("%+v", d)
	}
	if d := p.MatchPod(nil); !d.Selected {
		t.Errorf("%+v", d)
	}
	if got := p.ExplainContainer(nil, nil); len(got) == 0 {
		t.Error("nothing explained")
	}
}

func TestExplainTellsOfEachPartWhatWasComparedWithWhat(t *testing.T) {
	t.Parallel()
	p := one(t, "team: ml", `selector:
  namespaces: {include: ["ml-*"], exclude: [ml-secret]}
  podSelector: {matchLabels: {accelerator: gpu}}
  runtimeHandlers: [nvidia]
  containers: {names: ["main*"], images: ["nvcr.io/*"]}
  when: {commands: [python]}
  matchConditions:
  - {name: pod-part, expression: 'pod.labels["x"] == "y"'}
  - {name: container-part, expression: 'container.name == "main"'}`)
	pod := &api.PodSandbox{Namespace: "ml-a", Labels: map[string]string{"accelerator": "tpu"}}
	c := &api.Container{Name: "main", Args: []string{"/bin/sh"}}
	var got []string
	for _, r := range p.ExplainContainer(pod, c) {
		got = append(got, fmt.Sprintf("%s given=%v matched=%v err=%v: %s", r.Part, r.Given, r.Matched, r.Err != nil, r.Detail))
	}
	want := []string{
		`team given=true matched=true err=false: namespace "ml-a", team may see ["ml-*"]`,
		`namespaces given=true matched=true err=false: namespace "ml-a", include ["ml-*"], exclude ["ml-secret"]`,
		`podSelector given=true matched=false err=false: accelerator=gpu: the pod has accelerator=tpu`,
		`runtimeHandlers given=true matched=false err=false: runtime handler "", wanted one of ["nvidia"]`,
		`containers given=true matched=false err=false: name "main", image not told by the runtime, names ["main*"], images ["nvcr.io/*"]`,
		`when given=true matched=false err=false: command "/bin/sh" matches none of ["python"]`,
		`matchConditions given=true matched=false err=true: pod-part: no such key`,
		`matchConditions given=true matched=true err=false: container-part is true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, r := range p.ExplainPod(pod) {
		if r.Part == policy.PartContainers || r.Part == policy.PartWhen || strings.Contains(r.Detail, "container-part") {
			t.Errorf("a container part on a pod event: %+v", r)
		}
	}
}

func TestManyMayAskAPluginAtOnce(t *testing.T) {
	t.Parallel()
	p := one(t, `selector: {podSelector: {matchLabels: {a: b}}, when: {annotations: {a: b}}, matchConditions: [{name: n, expression: 'pod.labels["a"] == container.name'}]}`)
	pod := &api.PodSandbox{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if d := p.MatchContainer(pod, &api.Container{Name: "b"}); !d.Selected {
					t.Errorf("%+v", d)
				}
				p.ExplainPod(pod)
				p.Denied(policy.Reply{Adjust: &api.ContainerAdjustment{Args: []string{"x"}}})
				if _, err := p.Manifest(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestExplainAgreesWithTheVerdict(t *testing.T) {
	t.Parallel()
	selectors := []string{
		"{}", "{namespaces: {include: [a]}}", "{podSelector: {matchLabels: {k: v}}}", "{runtimeHandlers: [h]}", "{containers: {names: [c]}}",
		"{when: {commands: [x]}}", `{matchConditions: [{name: n, expression: 'pod.labels["k"] == "v"'}]}`,
	}
	pods := []*api.PodSandbox{nil, {Namespace: "a"}, {Labels: map[string]string{"k": "v"}}, {RuntimeHandler: "h"}}
	containers := []*api.Container{nil, {Name: "c"}, {Args: []string{"x"}}}
	for _, s := range selectors {
		p := one(t, "selector: "+s)
		for _, pod := range pods {
			for _, c := range containers {
				all := true
				for _, r := range p.ExplainContainer(pod, c) {
					all = all && r.Matched
				}
				if d := p.MatchContainer(pod, c); d.Selected != all {
					t.Errorf("%s on %v, %v: verdict %+v, explained as %v", s, pod, c, d, all)
				}
			}
		}
	}
}
