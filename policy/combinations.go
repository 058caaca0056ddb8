package policy

import (
	"fmt"
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// combinationWarnings says which settings cannot work together, or will refuse containers that nobody meant.
func (c *Config) combinationWarnings(config string, line int) Problems {
	var out Problems
	warn := func(p *Plugin, field, remedy, format string, args ...any) {
		w := Problem{File: config, Line: line, Field: field, Severity: Warning, Message: fmt.Sprintf(format, args...), Remedy: remedy}
		if p != nil {
			w.File, w.Line, w.Plugin = p.File, p.Line, p.Name
		}
		out = append(out, w)
	}
	for i, name := range c.Supervisor.RequiredPlugins {
		p, field := c.Plugin(name), indexPath("spec.requiredPlugins", i)
		switch {
		case p == nil && c.knows(name):
			warn(nil, field, "correct its manifest", "the manifest of the required plugin %q is invalid, so no container but those of critical pods will be created", name)
			continue
		case p == nil:
			warn(nil, field, "correct the name, or write a manifest for it", "no plugin is named %q, so no container but those of critical pods will be created", name)
			continue
		}
		if !p.selectsEverything() {
			warn(p, "spec.selector", "write selector: {} and a team without namespaces, or require it by the annotation "+RequiredAnnotation+" of the pods that need it",
				"%s is required for every container but does not select all of them: the others will be refused", name)
		}
		if !p.subscribes(api.Event_CREATE_CONTAINER) {
			warn(p, "spec.events", "add CreateContainer", "%s is required for every container but never hears of a creation: all will be refused", name)
		}
		if !p.Spec.IncludeCritical && len(c.Supervisor.Critical.Namespaces) == 0 && !c.Supervisor.Critical.StaticPods {
			warn(nil, "spec.critical", "leave critical at its default", "%s is required and no pod is critical: while it is down, not even what it needs itself can start", name)
		}
	}
	if len(c.Supervisor.RequiredPlugins) > 0 && slices.ContainsFunc(c.Plugins, func(p *Plugin) bool {
		return p.Spec.IncludeCritical && slices.Contains(c.Supervisor.RequiredPlugins, p.Name)
	}) {
		warn(nil, "spec.requiredPlugins", "delete includeCritical from its manifest, unless nothing on the way to a running node needs a container",
			"a required plugin says includeCritical: while it is down, no container at all is created, static pods included")
	}
	for _, p := range c.Plugins {
		if p.Spec.FailurePolicy != Fail {
			continue
		}
		if !slices.ContainsFunc(p.Spec.FailurePolicyEvents, func(e EventName) bool { return p.subscribes(e.Event()) }) && !p.validates() {
			warn(p, "spec.failurePolicyEvents", "add one of them to events", "failurePolicy Fail never acts: the plugin hears of none of %v", p.Spec.FailurePolicyEvents)
		}
		if p.Spec.LaneShare.Ratio > 0 {
			warn(p, "spec.laneShare", "delete laneShare, or write failurePolicy: Ignore", "with failurePolicy Fail, containers are refused whenever the plugin has used up its share")
		}
		if l := c.Supervisor.Teams[p.Team].LaneShare; l != nil && l.Ratio > 0 {
			warn(p, "spec.failurePolicy", "write failurePolicy: Ignore, or have laneShare deleted from spec.teams."+p.Team, "with failurePolicy Fail, containers are refused whenever the team has used up its share")
		}
	}
	return out
}

// selectsEverything says whether the manifest and the team leave no container out.
func (p *Plugin) selectsEverything() bool {
	all := func(gs globs) bool {
		return len(gs) == 0 || slices.ContainsFunc(gs, func(g glob) bool { return g.pattern == "*" })
	}
	return (p.teamNamespaces == nil || all(p.teamNamespaces) && len(p.teamNamespaces) > 0) && all(p.include) && len(p.exclude) == 0 && len(p.labels) == 0 &&
		len(p.runtimeHandlers) == 0 && all(p.names) && all(p.images) && len(p.conditions) == 0 && p.when == nil
}

// validates says whether the manifest names validation among its events.
func (p *Plugin) validates() bool { return inMask(p.events, api.Event_VALIDATE_CONTAINER_ADJUSTMENT) }

// StatesFailurePolicy says whether the manifest, or the defaults, say what a failure of the plugin means. A validator must: a built-in default for the question whether a
// container may run would be a decision that nobody took.
func (p *Plugin) StatesFailurePolicy() bool { return p.statesFailurePolicy }
