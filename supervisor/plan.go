package supervisor

import (
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// plan is the configuration in force and the plugins that it makes. It is immutable: a change replaces it as a whole. An event takes it once and keeps it to its end, so that a change
// comes between two events.
type plan struct {
	generation uint64 // counts the changes, from 1
	config     *policy.Config
	hosts      []*host // in calling order
	byName     map[string]*host
	place      map[*host]int        // in hosts
	broken     map[string]time.Time // since when each of invalid is
}

// invalid are the manifests that cannot be used, and of which no last good version is in force.
func (p *plan) invalid() []policy.InvalidPlugin {
	var out []policy.InvalidPlugin
	for _, i := range p.config.Invalid {
		if p.byName[i.Name] == nil {
			out = append(out, i)
		}
	}
	return out
}

// brokenKey tells invalid manifests apart.
func brokenKey(i policy.InvalidPlugin) string { return i.Name + "\x00" + i.File }

// brokenSince notes since when what is invalid is: since now, if it was not before. Before the plan is in force.
func (p *plan) brokenSince(before *plan, now time.Time) {
	p.broken = map[string]time.Time{}
	for _, i := range p.invalid() {
		key := brokenKey(i)
		p.broken[key] = now
		if before != nil && !before.broken[key].IsZero() {
			p.broken[key] = before.broken[key]
		}
	}
}

// plan returns what is in force now.
func (s *Supervisor) plan() *plan { return s.inForce.Load() }

// newPlan makes a plan of the plugins' hosts by name; each valid plugin of the configuration has one.
func newPlan(generation uint64, cfg *policy.Config, byName map[string]*host) *plan {
	p := &plan{generation: generation, config: cfg, byName: byName, hosts: make([]*host, 0, len(cfg.Plugins)), place: make(map[*host]int, len(cfg.Plugins))}
	for i, m := range cfg.Plugins {
		h := byName[m.Name]
		p.hosts = append(p.hosts, h)
		p.place[h] = i
	}
	return p
}
