package policy

import (
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// maxDenials bounds how much is listed of one reply: nobody reads more, and lists of denials are kept.
const maxDenials = 64

const (
	// ruleAdjust names the allow-list of fields, also where it is the team's.
	ruleAdjust = "permissions.adjust"
	// ruleEnv, ruleSources, ruleDestinations, ruleAnnotations and ruleDevices name the value rules.
	ruleEnv          = "permissions.env.names"
	ruleSources      = "permissions.mounts.sources"
	ruleDestinations = "permissions.mounts.destinations"
	ruleAnnotations  = "permissions.annotations.keys"
	ruleDevices      = "permissions.devices.paths"
	// RuleOverride names the permission to remove or replace what another hosted plugin set.
	RuleOverride = "permissions.override"
	// RuleReject names the permission to refuse a container.
	RuleReject = "permissions.reject"
	// RuleReserved names the annotations that are the supervisor's own.
	RuleReserved = "reserved annotation"
)

// Denial is one thing that a reply does and its plugin may not do. One of them forbids the whole reply.
type Denial struct {
	// Field is the kind of adjustment; empty when a rule over the whole reply refused it.
	Field Field
	// Key is the entry, as in FieldKey; empty for fields without entries.
	Key string
	// Rule is the setting that forbids it, as the manifest writes it: permissions.env.names, permissions.rules[NAME].
	Rule string
	// Detail says more for people, or nothing. It holds no value of a variable or annotation.
	Detail string
}

// Label is the field for metrics: a Field, or "rule" for a rule over the whole reply. It is a closed set.
func (d Denial) Label() string {
	if d.Field == "" {
		return "rule"
	}
	return string(d.Field)
}

// String gives the field, the entry in brackets, and the rule: Env[LD_PRELOAD] by permissions.env.names.
func (d Denial) String() string {
	var b strings.Builder
	if d.Field != "" {
		b.WriteString(string(d.Field))
		if d.Key != "" {
			b.WriteString("[" + d.Key + "]")
		}
		b.WriteString(" by ")
	}
	b.WriteString(d.Rule)
	if d.Detail != "" {
		b.WriteString(" (" + d.Detail + ")")
	}
	return b.String()
}

// Reply is what a plugin wants to change, and the container that it speaks about: the one of the event, or, for updates outside of events, the one
// that the update names. Nil messages are empty ones.
type Reply struct {
	Adjust  *api.ContainerAdjustment
	Updates []*api.ContainerUpdate

	Pod       *api.PodSandbox
	Container *api.Container
}

// Denied lists what in the reply the plugin may not do: fields it was not granted, values outside its rules, then CEL rules that are not true. It is
// empty for a reply that may be used, in the order of NRI's fields and entries, and bounded. Whether a reply removes what another
// plugin set is not seen here. Reserved annotations that are never forwarded must have been taken out before.
func (p *Plugin) Denied(r Reply) []Denial {
	out := p.deniedFields(r)
	if len(out) > 0 {
		return out // rules may count on fields that are granted
	}
	return p.deniedByRules(r)
}

func (p *Plugin) deniedFields(r Reply) []Denial {
	var out []Denial
	add := func(d Denial) {
		if len(out) < maxDenials {
			out = append(out, d)
		}
	}
	seen := map[Field]bool{}
	judge := func(keys []FieldKey) {
		for _, k := range keys {
			switch {
			case !p.granted.has(k.Field):
				if !seen[k.Field] {
					seen[k.Field] = true
					add(Denial{Field: k.Field, Rule: ruleAdjust})
				}
			default:
				if rule, detail := p.values.denies(k); rule != "" {
					add(Denial{Field: k.Field, Key: k.Key, Rule: rule, Detail: detail})
				}
			}
		}
	}
	if p.touches(r) {
		judge(FieldsOf(r.Adjust))
		for _, u := range r.Updates {
			judge(FieldsOfUpdate(u))
		}
		if p.granted.has("Mounts") {
			for _, m := range r.Adjust.GetMounts() {
				if detail := p.values.deniesSource(m); detail != "" {
					add(Denial{Field: "Mounts", Key: m.GetDestination(), Rule: ruleSources, Detail: detail})
				}
			}
		}
	}
	return out
}

// touches says whether anything in the reply needs a closer look. It allocates nothing: most replies are fine.
func (p *Plugin) touches(r Reply) bool {
	var set fieldSet
	eachField(r.Adjust, func(k FieldKey) { set |= k.Field.bit() })
	for _, u := range r.Updates {
		eachUpdateField(u, func(k FieldKey) { set |= k.Field.bit() })
	}
	return set&^p.granted != 0 || set&p.values.fields() != 0
}

// MayOverride says whether the plugin may remove, and so replace, what another hosted plugin set.
func (p *Plugin) MayOverride() bool { return p.Spec.Permissions.Override }
