package policy

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// strength orders the profiles: less is weaker.
func (p Profile) strength() int { return slices.Index(p.Values(), string(p)) }

// applySandbox refuses what the manifest itself asks for beyond the team's ceiling on confinement and limits, and holds the rest to it. A plugin that attaches runs elsewhere: allow.attach says whether
// it may.
func (b *builder) applySandbox(d *document, p *Plugin, team *teamCeiling, setting func(field string) string) {
	if p.Spec.Attach != nil && p.Spec.Exec == nil {
		return
	}
	if least := team.MinimumProfile; least != "" {
		d.applyProfile(p, least, setting("minimumProfile"))
		b.keepHidden(d, p, least, setting("minimumProfile"))
	}
	own, most := &p.Spec.Resources.Limits, team.Resources.Limits
	type bound struct {
		name string
		own  **resource.Quantity
		most *resource.Quantity
	}
	bounds := []bound{{"memory", &own.Memory, most.Memory}, {"cpu", &own.CPU, most.CPU}, {"pids", &own.PIDs, most.PIDs}}
	ceilings := most.RLimits()
	for i, r := range own.RLimits() {
		bounds = append(bounds, bound{r.Name, r.Limit, *ceilings[i].Limit})
	}
	for _, l := range bounds {
		if l.most == nil || *l.own != nil && (*l.own).Cmp(*l.most) <= 0 {
			continue
		}
		if at := "spec.resources.limits." + l.name; *l.own != nil && d.written(at) && !d.failedUnder(at) {
			d.errorf(at, "write "+l.most.String()+" or less, or change "+setting("resources.limits."+l.name), "%s is more than the %s of team %s", *l.own, l.most, p.Team)
		}
		limit := l.most.DeepCopy()
		*l.own = &limit
		if l.name == "nproc" && isRoot(&p.Spec.Sandbox) {
			d.errorf("spec.sandbox.user", "give the plugin a user, or change "+setting("resources.limits.nproc"), "team %s bounds nproc, and the kernel does not bound the processes of root", p.Team)
		}
	}
}

// keepHidden refuses paths that show a socket with which a plugin is root on the node, whatever its profile is.
func (b *builder) keepHidden(d *document, p *Plugin, least Profile, setting string) {
	if least == ProfileNone {
		return
	}
	for field, paths := range map[string][]string{"readOnlyPaths": p.Spec.Sandbox.ReadOnlyPaths, "readWritePaths": p.Spec.Sandbox.ReadWritePaths} {
		if path, at := b.showsSocket(paths, field == "readWritePaths"), "spec.sandbox."+field; path != "" && !d.failedUnder(at) {
			d.errorf(at, "delete it, or change "+setting, "%q shows a socket that the profile %s hides, which is the minimum of team %s", path, least, p.Team)
		}
	}
}

// applyProfile holds the plugin to the least profile, and refuses settings that would leave less of it than its name says.
func (d *document) applyProfile(p *Plugin, least Profile, setting string) {
	s := &p.Spec.Sandbox
	if s.Profile.strength() < least.strength() {
		if at := "spec.sandbox.profile"; d.written(at) && !d.failedUnder(at) {
			d.errorf(at, "write "+string(least)+", or change "+setting, "%s is weaker than the minimum of team %s, %s", s.Profile, p.Team, least)
		}
		s.Profile = least
	}
	if least == ProfileNone {
		return
	}
	strict := least == ProfileStrict
	p.ProfileWritten = true // by who wrote the minimum: no part of it is optional
	p.NeverRoot = strict
	for field, weaker := range map[string]bool{
		"seccomp":            s.Seccomp == SeccompUnconfined,
		"capabilities.add":   len(s.Capabilities.Add) > 0,
		"network":            strict && s.Network == NetworkHost && d.isWritten("spec.sandbox.network"),
		"user":               strict && rootAccount(s.User),
		"group":              strict && rootAccount(s.Group),
		"supplementalGroups": strict && len(s.SupplementalGroups) > 0,
		"readWritePaths":     strict && len(s.ReadWritePaths) > 0,
	} {
		if at := "spec.sandbox." + field; weaker && !d.failedUnder(at) {
			d.errorf(at, "delete it, or change "+setting, "it leaves less confinement than %s, which is the minimum of team %s", least, p.Team)
		}
	}
}
