package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// maxConfigData bounds what is sent to a plugin's Configure: ttrpc's frame of 4 MiB without 64 KiB for the rest of the request.
const maxConfigData = 4<<20 - 64<<10

// buildPlugin decodes, validates and compiles one Plugin document.
func (b *builder) buildPlugin(c *candidate) {
	d, p := c.doc, c.plugin
	own := d.root.get("spec")
	root := *d.root
	root.values = slices.Clone(root.values)
	for i, k := range root.keys {
		if k.text == "spec" {
			root.values[i] = overlay(b.defaultsFor(own), own)
		}
	}
	d.root = &root
	doc := pluginDocument{Spec: defaultPluginSpec()}
	d.decode("", d.root, reflect.ValueOf(&doc).Elem(), "")
	if own == nil {
		d.errorf("spec", "write spec with team, index, exec and selector", "the spec is missing")
	}
	p.Spec, p.Name, p.Team, p.Index = doc.Spec, doc.Metadata.Name, doc.Spec.Team, doc.Spec.Index
	d.checkAPIVersion(doc.APIVersion)
	d.checkName("metadata.name", p.Name, "a plugin name")
	b.checkNameFits(d, p.Name)
	d.checkIndex("spec.index", p.Index)
	d.checkOneOf(&p.Spec)
	b.completeAttach(d, own, p)
	if own.get("selector") == nil && !d.failedUnder("spec.selector") {
		d.errorf("spec.selector", "write selector: {} to select everything that the team may see", "the selector is missing")
	}
	d.validateValues("spec", &p.Spec)
	p.selectors = d.compileSelector("spec.selector", p.Spec.Selector, &b.cel)
	p.values = d.compileValueRules("spec.permissions", &p.Spec.Permissions)
	p.rules = d.compileRules("spec.permissions.rules", p.Spec.Permissions.Rules, &b.cel)
	d.rejectUnsupported(unsupported(), "spec", p.Spec, defaultPluginSpec())
	p.ProfileWritten, p.NetworkWritten = d.isWritten("spec.sandbox.profile"), d.isWritten("spec.sandbox.network")
	p.FileTrust, p.ManifestDirs = b.spec.FileTrust, b.manifestDirs()
	d.validateSandbox("spec", &p.Spec)
	b.applyTeam(d, p)
	d.validateProfile("spec", &p.Spec)
	p.compile(b)
	p.statesFailurePolicy = d.isWritten("spec.failurePolicy")
	if p.validates() && !p.statesFailurePolicy {
		d.errorf("spec.failurePolicy", "write Fail to refuse containers that it could not judge, or Ignore to create them", "a plugin that validates (events) must state its failurePolicy")
	}
	b.loadConfigData(d, p)
	b.checkPluginFiles(d, p)
}

// defaultsFor returns the defaults without what the plugin chose another alternative of.
func (b *builder) defaultsFor(own *node) *node {
	base := b.defaults
	for _, group := range [][]string{{"exec", "attach"}, {"config", "configText", "configFrom"}} {
		for _, chosen := range group {
			if own.get(chosen) == nil {
				continue
			}
			for _, other := range group {
				if other != chosen {
					base = base.without(other)
				}
			}
		}
	}
	return base
}

// checkNameFits checks that the plugin's sockets will fit below runDir.
func (b *builder) checkNameFits(d *document, name string) {
	room := maxSocketPath - len(b.spec.RunDir) - pluginSocketRoom
	if b.usable && len(name) > room && !d.failedUnder("metadata.name") {
		d.errorf("metadata.name", "shorten the name or runDir", "the name has %d bytes; in runDir %s there is room for %d, since a unix socket's path ends at %d",
			len(name), b.spec.RunDir, max(room, 0), maxSocketPath)
	}
}

// checkOneOf checks the alternatives of which exactly one, or at most one, is given.
func (d *document) checkOneOf(s *PluginSpec) {
	exec, attach := s.Exec != nil, attached(s)
	switch {
	case d.failedUnder("spec.exec") || d.failedUnder("spec.attach"):
	case exec && attach:
		d.errorf("spec.attach", "keep one of them", "exec and attach are both given")
	case !exec && !attach:
		d.errorf("spec.exec", "write exec: {path: /path/of/the/binary}, or attach: {} for a plugin that dials", "neither exec nor attach is given")
	case exec && s.Exec.Path == "":
		d.errorf("spec.exec.path", "write the absolute path of the binary", "the path is missing")
	}
	if exec && s.Exec.Protocol == "" {
		s.Exec.Protocol = GoPlugin
	}
	var given []string
	for field, has := range map[string]bool{"config": len(s.Config) > 0, "configText": s.ConfigText != "", "configFrom": s.ConfigFrom != nil} {
		if has {
			given = append(given, field)
		}
	}
	if slices.Sort(given); len(given) > 1 {
		d.errorf("spec."+given[1], "keep one of them", "%s are given together", strings.Join(given, " and "))
	}
}

// applyTeam holds the plugin against its team's ceiling, and fills in what the team grants.
func (b *builder) applyTeam(d *document, p *Plugin) {
	if p.Team == "" {
		if !d.failedUnder("spec.team") {
			d.errorf("spec.team", "write team: NAME with a team of the Supervisor document", "the team is missing")
		}
		return
	}
	team, ok := b.teams[p.Team]
	switch {
	case !b.usable || d.failedUnder("spec.team"):
		return
	case !ok && d.checkName("spec.team", p.Team, "a team name"):
		known := slices.Collect(maps.Keys(b.teams))
		remedy := fmt.Sprintf("write %s: {contact: %q, namespaces: [%q]} under spec.teams of the Supervisor document", p.Team, "#"+p.Team, p.Team+"-*")
		if best := nearest(p.Team, known); best != "" {
			remedy = "did you mean " + best + "? Otherwise " + remedy
		}
		d.errorf("spec.team", remedy, "the team %q is not declared", p.Team)
		return
	case !ok:
		return
	}
	setting := func(field string) string { return childPath("spec.teams", p.Team) + "." + field }
	p.Contact, p.teamNamespaces, p.execPaths = team.Contact, team.namespaces, team.execPaths
	if p.Index != "" && !d.failedUnder("spec.index") && (p.Index < team.first || p.Index > team.last) {
		d.errorf("spec.index", "write an index of that range, or change "+setting("indexRange"),
			"the index %q is outside the range of team %s, %q to %q", p.Index, p.Team, team.first, team.last)
	}
	if e := p.Spec.Exec; e != nil && team.ExecPaths != nil && e.Path != "" && !d.failedUnder("spec.exec.path") &&
		!slices.ContainsFunc(team.execPaths, func(g pathGlob) bool { return g.match(e.Path) }) {
		d.errorf("spec.exec.path", "install the binary there, or change "+setting("execPaths"),
			"%q is outside the paths of team %s, %q", e.Path, p.Team, team.ExecPaths)
	}
	for _, ask := range []struct {
		field, allow string
		asked, may   bool
	}{
		{"spec.failurePolicy", "failurePolicyFail", p.Spec.FailurePolicy == Fail, team.Allow.FailurePolicyFail},
		{"spec.permissions.reject", "reject", p.Spec.Permissions.Reject, team.Allow.Reject},
		{"spec.includeCritical", "includeCritical", p.Spec.IncludeCritical, team.Allow.IncludeCritical},
		{"spec.attach", "attach", p.Spec.Attach != nil, team.Allow.Attach},
	} {
		if ask.asked && !ask.may {
			d.errorf(ask.field, "delete the line, or set "+setting("allow."+ask.allow)+": true", "team %s may not ask for this", p.Team)
		}
	}
	b.applyPermissions(d, p, team, setting("permissions.adjust"))
	d.applyMaxTimeout(p, team, setting("maxTimeout"))
	b.applySandbox(d, p, team, setting)
}

func (b *builder) applyPermissions(d *document, p *Plugin, team *teamCeiling, setting string) {
	p.granted = team.granted
	if p.Spec.Permissions.Adjust == nil {
		return
	}
	p.granted = grantedFields(p.Spec.Permissions.Adjust)
	if d.failedUnder("spec.permissions.adjust") {
		return
	}
	for i, g := range p.Spec.Permissions.Adjust {
		beyond := (g.fields() &^ team.granted).list()
		if len(beyond) == 0 {
			continue
		}
		remedy, what := fmt.Sprintf("delete it, or add it to %s", setting), joinFields(beyond)
		if g == GrantAll {
			what = "everything"
			remedy = "leave permissions.adjust out to get all that the team may have, or write " + setting + `: ["*"]`
		}
		d.errorf(indexPath("spec.permissions.adjust", i), remedy, "team %s may not be granted %s", p.Team, what)
	}
}

func joinFields(fields []Field) string {
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// applyMaxTimeout refuses timeouts that the manifest itself sets above the ceiling, and cuts the others to it.
func (d *document) applyMaxTimeout(p *Plugin, team *teamCeiling, setting string) {
	limit := team.MaxTimeout
	if limit == 0 {
		return
	}
	cut := func(field string, value *Duration) {
		if *value <= limit {
			return
		}
		if at := "spec.timeouts." + field; d.written(at) {
			d.errorf(at, "write "+limit.String()+" or less, or change "+setting, "%s is more than the %s of team %s", *value, limit, p.Team)
		}
		*value = limit
	}
	cut("default", &p.Spec.Timeouts.Default)
	for _, e := range EventNames() {
		cut(string(e), p.Spec.Timeouts.perEvent(e.Event()))
	}
}

// compile fills in the verdicts that need no more than a table.
func (p *Plugin) compile(b *builder) {
	for _, e := range p.Spec.Events {
		if e != "" {
			p.events.Set(e.Event())
		}
	}
	p.blocking.Set(blockingByDefault()...)
	for e, how := range p.Spec.Delivery {
		switch how {
		case Sync:
			p.blocking.Set(e.Event())
		case Async:
			p.blocking.Clear(e.Event())
		}
	}
	if p.Spec.FailurePolicy == Fail {
		for _, e := range p.Spec.FailurePolicyEvents {
			if canFail(e.Event()) {
				p.fails.Set(e.Event())
			}
		}
		// Validating is a step of creating.
		if inMask(p.fails, api.Event_CREATE_CONTAINER) {
			p.fails.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
		}
	}
	for e := range api.Event_LAST {
		p.timeouts[e] = p.Spec.Timeouts.of(e)
	}
	p.critical, p.staticPods = b.critical, b.spec.Critical.StaticPods
}

// loadConfigData decides what goes to the plugin's Configure.
func (b *builder) loadConfigData(d *document, p *Plugin) {
	field := "spec.configText"
	switch {
	case len(p.Spec.Config) > 0:
		p.configData, field = string(p.Spec.Config), "spec.config"
	case p.Spec.ConfigFrom != nil:
		field = "spec.configFrom.file"
		path := p.Spec.ConfigFrom.File
		if !b.options.CheckFiles || d.failedUnder("spec.configFrom") {
			return
		}
		f, err := b.readReference(path)
		if err != nil && p.goodData != nil {
			p.configData = *p.goodData
			break
		}
		if err != nil {
			d.errorf(field, "create the file, or correct the path", "read %q: %s", path, cause(err))
			return
		}
		b.hash.add(path, f.Data)
		p.configData = string(f.Data)
	case p.Spec.ConfigText != "":
		p.configData = p.Spec.ConfigText
	case p.Spec.Exec != nil && p.Spec.Exec.Protocol == GoPlugin:
		p.configData = "{}" // the default of config: a plugin built with the SDK can always parse it
	}
	if len(p.configData) > maxConfigData {
		d.errorf(field, "shorten it", "the plugin's configuration has %d bytes, more than the limit of %d, which is what one message holds", len(p.configData), maxConfigData)
	}
}

// checkPluginFiles looks at the files that the manifest refers to.
func (b *builder) checkPluginFiles(d *document, p *Plugin) {
	e := p.Spec.Exec
	if !b.options.CheckFiles || p.hosted {
		return
	}
	if a := p.Spec.Attach; a != nil && !d.failedUnder("spec.attach") {
		b.warnAttachFolder(d, a.Socket)
	}
	if e == nil {
		return
	}
	if e.Path != "" && !d.failedUnder("spec.exec.path") {
		b.checkBinary(d, "spec.exec.path", e.Path, p.Spec.Sandbox.Profile)
		d.checkExecTarget(p, b.options.Looks)
		b.checkEnviron(d, e)
	}
	for i, v := range e.Env {
		at := indexPath("spec.exec.env", i) + ".valueFrom.fileRef"
		if v.ValueFrom != nil && v.ValueFrom.FileRef != "" && !d.failedUnder(at) {
			b.checkReadable(d, at, v.ValueFrom.FileRef)
		}
	}
}
