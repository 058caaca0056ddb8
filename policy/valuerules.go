package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// valueRules narrow what may stand in fields that were granted. A nil list narrows nothing; an empty one leaves nothing.
type valueRules struct {
	env, annotations               globs
	sources, destinations, devices []pathRule
}

// pathRule is a glob for paths: one that starts with / is a pathGlob, in which * stays within one folder; any other, such as tmpfs or *, is a glob
// for the whole text.
type pathRule struct {
	path  pathGlob
	other glob
}

func (r pathRule) match(text string) bool {
	if r.path != nil {
		return r.path.match(text)
	}
	return r.other.match(text)
}

func matchPath(rules []pathRule, text string) bool {
	return slices.ContainsFunc(rules, func(r pathRule) bool { return r.match(text) })
}

// compileValueRules compiles the value rules, reporting what is wrong with them.
func (d *document) compileValueRules(at string, s *PermissionsSpec) valueRules {
	var v valueRules
	given := func(field string, list []string) {
		if list == nil && !d.failedUnder(at+"."+field) {
			d.errorf(at+"."+field, "write it, or delete the line above", "the list is missing")
		}
	}
	if s.Env != nil {
		given("env.names", s.Env.Names)
		v.env = d.globs(at+".env.names", s.Env.Names)
	}
	if s.Annotations != nil {
		given("annotations.keys", s.Annotations.Keys)
		v.annotations = d.globs(at+".annotations.keys", s.Annotations.Keys)
	}
	if s.Mounts != nil {
		v.sources = d.pathRules(at+".mounts.sources", s.Mounts.Sources)
		v.destinations = d.pathRules(at+".mounts.destinations", s.Mounts.Destinations)
		if s.Mounts.Sources == nil && s.Mounts.Destinations == nil && !d.failedUnder(at+".mounts") {
			d.errorf(at+".mounts", "write sources, destinations or both, or delete mounts", "mounts narrows nothing")
		}
	}
	if s.Devices != nil {
		given("devices.paths", s.Devices.Paths)
		v.devices = d.pathRules(at+".devices.paths", s.Devices.Paths)
	}
	return v
}

// pathRules compiles the list; nil stays nil.
func (d *document) pathRules(at string, patterns []string) []pathRule {
	if patterns == nil {
		return nil
	}
	out := make([]pathRule, 0, len(patterns))
	for i, pattern := range patterns {
		place := indexPath(at, i)
		if d.failedUnder(place) {
			continue
		}
		var r pathRule
		var err error
		if strings.HasPrefix(pattern, "/") {
			r.path, err = compilePathGlob(pattern)
		} else {
			r.other, err = compileGlob(pattern)
		}
		if err != nil {
			d.errorf(place, `write a path in which * stays within one folder and ** crosses folders, such as "/opt/ml-infra/**", or a name such as tmpfs`,
				"bad glob %q: %v", pattern, err)
			continue
		}
		out = append(out, r)
	}
	return out
}

// fields are those that a rule looks at.
func (v *valueRules) fields() fieldSet {
	var set fieldSet
	if v.env != nil {
		set |= Field("Env").bit()
	}
	if v.annotations != nil {
		set |= Field("Annotations").bit()
	}
	if v.sources != nil || v.destinations != nil {
		set |= Field("Mounts").bit()
	}
	if v.devices != nil {
		set |= Field("Devices").bit()
	}
	return set
}

// denies says which rule forbids the entry, be it set or removed, and why; nothing when none does.
func (v *valueRules) denies(k FieldKey) (rule, detail string) {
	switch k.Field {
	case FieldUnknown:
	case "Env":
		if v.env != nil && !v.env.matchKnown(k.Key) {
			return ruleEnv, ""
		}
	case "Annotations":
		if v.annotations != nil && !v.annotations.matchKnown(k.Key) {
			return ruleAnnotations, ""
		}
	case "Mounts":
		if v.destinations != nil {
			return deniesPath(ruleDestinations, v.destinations, k.Key)
		}
	case "Devices":
		switch {
		case v.devices == nil:
		case !strings.HasPrefix(k.Key, "/"): // a rule of the device cgroup opens devices by number
			return ruleDevices, "a rule for the device cgroup names no path"
		default:
			return deniesPath(ruleDevices, v.devices, k.Key)
		}
	}
	return "", ""
}

// deniesPath judges a path as the runtime will use it: one that says .. or // means another place than it says.
func deniesPath(rule string, rules []pathRule, p string) (denied, detail string) {
	switch {
	case path.Clean(p) != p:
		return rule, "the path is not clean"
	case !matchPath(rules, p):
		return rule, ""
	}
	return "", ""
}

// inMemory are the types of mounts that show nothing of the host, whatever their options say.
func inMemory() []string { return []string{"tmpfs", "ramfs", "mqueue", "hugetlbfs"} }

// deniesSource says why the rule for sources forbids the mount; "" when it does not. A mount of another type than bind and
// those in memory can show what its source does not say (overlay: lowerdir=/etc), so none is allowed where sources are given.
func (v *valueRules) deniesSource(m *api.Mount) string {
	if v.sources == nil || m == nil {
		return ""
	}
	if _, removal := m.IsMarkedForRemoval(); removal {
		return ""
	}
	source := m.GetSource()
	switch {
	case isBind(m):
		switch {
		case !path.IsAbs(source) || path.Clean(source) != source:
			return fmt.Sprintf("the source %q is not a clean absolute path", short(source))
		case !matchPath(v.sources, source):
			return fmt.Sprintf("source %q", short(source))
		}
		return ""
	case !slices.Contains(inMemory(), m.GetType()):
		return fmt.Sprintf("a mount of type %q can show more than its source", short(m.GetType()))
	case !matchPath(v.sources, source):
		return fmt.Sprintf("source %q", short(source))
	}
	return ""
}

// isBind says whether the runtime will make a bind mount: runc goes by the option, whatever the type says.
func isBind(m *api.Mount) bool {
	return m.GetType() == "bind" || slices.Contains(m.GetOptions(), "bind") || slices.Contains(m.GetOptions(), "rbind")
}

// short bounds what a plugin can put into a message.
func short(s string) string {
	const limit = 128
	if s = printable(s); len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
