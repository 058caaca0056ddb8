package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// selectors is a compiled selector together with the team's ceiling.
type selectors struct {
	// teamNamespaces is the team's ceiling; nil is no ceiling.
	teamNamespaces   globs
	include, exclude globs
	// labels is nil when podSelector is not given.
	labels          podLabels
	runtimeHandlers []string
	names, images   globs
	conditions      []condition
	when            *when
}

// compileSelector compiles the selector, reporting what is wrong with it.
func (d *document) compileSelector(path string, s *Selector, env *celEnv) selectors {
	var out selectors
	if s == nil {
		return out
	}
	if n := s.Namespaces; n != nil {
		out.include = d.globs(path+".namespaces.include", n.Include)
		out.exclude = d.globs(path+".namespaces.exclude", n.Exclude)
	}
	if s.PodSelector != nil && !d.failedUnder(path+".podSelector") {
		out.labels = d.compileLabels(path+".podSelector", s.PodSelector)
	}
	for i, h := range s.RuntimeHandlers {
		if h == "" || strings.ContainsAny(h, "*?") {
			d.errorf(indexPath(path+".runtimeHandlers", i), `write the exact name of the handler, such as "kata"`, "%q is not the name of a runtime handler", h)
		}
	}
	out.runtimeHandlers = s.RuntimeHandlers
	if c := s.Containers; c != nil {
		out.names = d.globs(path+".containers.names", c.Names)
		out.images = d.globs(path+".containers.images", c.Images)
		if len(c.Images) > 0 {
			d.warnf(path+".containers.images", "select by names or by a matchCondition where older runtimes are in use",
				"only runtimes with NRI 0.13 or later say which image a container has; on others nothing but \"*\" matches")
		}
	}
	out.conditions = d.compileConditions(path+".matchConditions", s.MatchConditions, env)
	if s.When != nil {
		out.when = d.compileWhen(path+".when", s.When)
	}
	return out
}

// MatchPod decides whether the plugin hears of the pod's own events. Container parts are not looked at.
// A nil pod is an empty one.
func (p *Plugin) MatchPod(pod *api.PodSandbox) Decision {
	if part := p.refusesPod(pod); part != PartNone {
		return Decision{Part: part}
	}
	return p.evaluate(pod, nil)
}

// MatchContainer decides whether the plugin hears of the container's events. Nil messages are empty ones.
func (p *Plugin) MatchContainer(pod *api.PodSandbox, c *api.Container) Decision {
	if part := p.refusesPod(pod); part != PartNone {
		return Decision{Part: part}
	}
	switch {
	case !p.matchesContainer(c):
		return Decision{Part: PartContainers}
	case p.when != nil && !p.when.match(pod, c):
		return Decision{Part: PartWhen}
	}
	if c == nil {
		c = &api.Container{}
	}
	return p.evaluate(pod, c)
}

// refusesPod returns the first of the cheap pod parts that does not match.
func (p *Plugin) refusesPod(pod *api.PodSandbox) Part {
	switch {
	case !p.matchesTeam(pod):
		return PartTeam
	case !p.matchesNamespace(pod):
		return PartNamespaces
	case !p.matchesLabels(pod):
		return PartPodSelector
	case !p.matchesHandler(pod):
		return PartRuntimeHandlers
	default:
		return PartNone
	}
}

func (p *Plugin) matchesTeam(pod *api.PodSandbox) bool {
	return p.teamNamespaces == nil || p.teamNamespaces.matchKnown(pod.GetNamespace())
}

func (p *Plugin) matchesNamespace(pod *api.PodSandbox) bool {
	ns := pod.GetNamespace()
	return (len(p.include) == 0 || p.include.matchKnown(ns)) && !p.exclude.matchKnown(ns)
}

func (p *Plugin) matchesLabels(pod *api.PodSandbox) bool {
	return p.labels.match(pod.GetLabels())
}

func (p *Plugin) matchesHandler(pod *api.PodSandbox) bool {
	return len(p.runtimeHandlers) == 0 || slices.Contains(p.runtimeHandlers, pod.GetRuntimeHandler())
}

func (p *Plugin) matchesContainer(c *api.Container) bool {
	return (len(p.names) == 0 || p.names.matchKnown(c.GetName())) &&
		(len(p.images) == 0 || p.images.matchKnown(c.GetImage().GetName()))
}

// ExplainPod says of each part of the selection whether it matches the pod. Parts that do not apply
// to pod events are left out.
func (p *Plugin) ExplainPod(pod *api.PodSandbox) []PartResult {
	ns := pod.GetNamespace()
	shown := fmt.Sprintf("namespace %q", ns)
	if ns == "" {
		shown = `no namespace, which only "*" matches`
	}
	out := []PartResult{
		{Part: PartTeam, Given: p.teamNamespaces != nil, Matched: p.matchesTeam(pod), Detail: shown + listed("team may see", p.teamNamespaces)},
		{
			Part: PartNamespaces, Given: len(p.include)+len(p.exclude) > 0, Matched: p.matchesNamespace(pod),
			Detail: shown + listed("include", p.include) + listed("exclude", p.exclude),
		},
		{Part: PartPodSelector, Given: p.labels != nil, Matched: p.matchesLabels(pod), Detail: p.labels.explain(pod.GetLabels())},
		{
			Part: PartRuntimeHandlers, Given: len(p.runtimeHandlers) > 0, Matched: p.matchesHandler(pod),
			Detail: fmt.Sprintf("runtime handler %q, wanted one of %q", pod.GetRuntimeHandler(), p.runtimeHandlers),
		},
	}
	out = append(out, p.explainConditions(pod, nil)...)
	return blankUngiven(out)
}

// ExplainContainer says of each part of the selection whether it matches the container. Of the
// matchConditions there is one entry each.
func (p *Plugin) ExplainContainer(pod *api.PodSandbox, c *api.Container) []PartResult {
	if c == nil {
		c = &api.Container{}
	}
	all := p.ExplainPod(pod)
	out := slices.DeleteFunc(all, func(r PartResult) bool { return r.Part == PartMatchConditions })
	image := fmt.Sprintf("image %q", c.GetImage().GetName())
	if c.GetImage().GetName() == "" {
		image = "image not told by the runtime"
	}
	out = append(out,
		PartResult{
			Part: PartContainers, Given: len(p.names)+len(p.images) > 0, Matched: p.matchesContainer(c),
			Detail: fmt.Sprintf("name %q, %s", c.GetName(), image) + listed("names", p.names) + listed("images", p.images),
		},
		PartResult{Part: PartWhen, Given: p.when != nil, Matched: p.when == nil || p.when.match(pod, c), Detail: p.when.explain(pod, c)},
	)
	out = append(out, p.explainConditions(pod, c)...)
	return blankUngiven(out)
}

// blankUngiven empties the details of parts that are not given: they have nothing to compare.
func blankUngiven(results []PartResult) []PartResult {
	for i := range results {
		if !results[i].Given {
			results[i].Detail = ""
		}
	}
	return results
}

func listed(name string, gs globs) string {
	if len(gs) == 0 {
		return ""
	}
	patterns := make([]string, len(gs))
	for i, g := range gs {
		patterns[i] = g.pattern
	}
	return fmt.Sprintf(", %s %q", name, patterns)
}
