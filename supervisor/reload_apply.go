package supervisor

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// step is what a reload does to one plugin.
type step struct {
	PluginChange
	h    *host // as it is from now on; nil when removed
	old  *host // that is stopped; nil when none is
	kind change
}

// apply makes a configuration the one in force. It holds up no event: the plan is replaced between two of them, everything that takes time comes after or before.
func (s *Supervisor) apply(old *plan, cfg *policy.Config) (ReloadReport, []waiting) {
	steps, byName := s.steps(old, cfg)
	next := newPlan(old.generation+1, cfg, byName)
	next.brokenSince(old, time.Now())
	report := ReloadReport{
		Hash: cfg.Hash, Changes: []PluginChange{}, NeedRestart: needRestart(s.opts.Config.Supervisor, cfg.Supervisor), Unchanged: len(cfg.Plugins),
	}
	report.Problems, report.MoreProblems = listed(errorTexts(cfg.Problems))

	s.actions.Lock() // a manual action comes before all of it or after
	defer s.actions.Unlock()
	s.mu.Lock()
	s.deciding.Lock()
	for _, m := range cfg.Plugins { // what is allowed is always today's, also for plugins that did not change
		byName[m.Name].rules.Store(m)
	}
	s.lanes.apply(cfg, next.hosts)
	s.inForce.Store(next)
	s.deciding.Unlock()
	for _, st := range steps {
		if st.h != nil && st.kind == changeWhole && s.conn.connected { // later sessions are told to the hosts of the plan
			st.h.post(plugin.RuntimeUp{Session: s.sessions})
		}
	}
	s.mu.Unlock()

	for _, st := range steps {
		if st.old != nil {
			s.retire(st)
			s.ending = append(s.ending, st.old)
		}
	}
	var added []*host
	for _, st := range steps {
		if st.Change == "added" {
			added = append(added, st.h)
		}
	}
	s.decideFor(added)
	var waits []waiting
	for _, st := range steps {
		if st.Change != "removed" {
			report.Unchanged--
		}
		report.Changes = append(report.Changes, st.PluginChange)
		if done := s.carryOut(st); done != nil {
			waits = append(waits, waiting{len(report.Changes) - 1, done, st.h})
		}
	}
	s.metrics.configured(cfg)
	for _, p := range old.config.Invalid {
		if cfg.Plugin(p.Name) == nil && !listsInvalid(cfg, p.Name) {
			s.metrics.forget(prometheus.Labels{"plugin": p.Name})
		}
	}
	for _, name := range requiredNames(old.config) {
		if cfg.Plugin(name) == nil && !listsInvalid(cfg, name) && !slices.Contains(requiredNames(cfg), name) {
			s.metrics.forget(prometheus.Labels{"plugin": name})
		}
	}
	s.keepGood(cfg)
	return report, waits
}

func listsInvalid(cfg *policy.Config, name string) bool {
	for _, p := range cfg.Invalid {
		if p.Name == name {
			return true
		}
	}
	return false
}

// steps compares the plan with a configuration. It returns what is to be done, and the hosts from now on.
func (s *Supervisor) steps(old *plan, cfg *policy.Config) ([]step, map[string]*host) {
	byName := make(map[string]*host, len(cfg.Plugins))
	var steps, removed []step
	for _, h := range old.hosts {
		if cfg.Plugin(h.name) == nil {
			removed = append(removed, step{PluginChange: PluginChange{Plugin: h.name, Change: "removed", How: "stopped"}, old: h})
		}
	}
	for _, m := range cfg.Plugins {
		h := old.byName[m.Name]
		if h == nil {
			h = newHost(s, m)
			st := step{PluginChange: PluginChange{Plugin: m.Name, Change: "added", How: "started"}, h: h, kind: changeWhole}
			for i, r := range removed {
				if sameButName(r.old.policy(), m) {
					st.Change, st.From, st.How, st.old = "renamed", r.old.name, "replaced", r.old
					removed = append(removed[:i:i], removed[i+1:]...)
					break
				}
			}
			byName[m.Name] = h
			steps = append(steps, st)
			continue
		}
		kind := changeOf(h.policy(), m)
		if h.stuck.Load() {
			kind = max(kind, changeProcess) // once more
		}
		byName[m.Name] = h
		if kind == changeNone {
			continue
		}
		st := step{PluginChange: PluginChange{Plugin: m.Name, Change: "changed", How: kind.String()}, h: h, kind: kind}
		if kind == changeConfig && !h.sdk() { // it can be configured once only
			st.How = changeProcess.String()
		}
		if kind == changeWhole {
			st.old, st.h = h, newHost(s, m)
			byName[m.Name] = st.h
		}
		steps = append(steps, st)
	}
	return append(steps, removed...), byName
}

// carryOut does the step. It returns where its outcome will be told, or nil when there is nothing to wait for.
func (s *Supervisor) carryOut(st step) <-chan error {
	switch {
	case st.h == nil:
		return nil
	case st.kind != changeWhole:
		return st.h.change(st.kind)
	}
	done := make(chan error, 1)
	h := st.h
	h.restoreManual()
	h.box.put(message{fn: func() { h.update = done }})
	s.running.Go(h.loop)
	if !s.launchInTurn(st) {
		return nil
	}
	return done
}

// retire stops the plugin of a step for good. What it did stays its successor's if it was only renamed.
func (s *Supervisor) retire(st step) {
	old := st.old
	switch {
	case st.h == nil:
		refs := s.store.Mentions(old.name)
		s.store.ForgetPlugin(old.name)
		s.history.decided(s, refs...)
	case st.h.name != old.name:
		refs := s.store.Mentions(old.name)
		s.store.RenamePlugin(old.name, st.h.name)
		s.history.renamed(old.name, st.h.name)
		s.history.decided(s, refs...)
		for _, state := range s.manual.states(old.name) {
			s.keepManual(st.h.name, state, true)
			s.keepManual(old.name, state, false)
		}
	}
	quarantined := old.endQuarantine()
	if st.h != nil && st.Change == "renamed" {
		st.h.inheritQuarantine(quarantined)
	}
	old.post(plugin.Stop{})
	old.met.forget(st.h != nil && st.h.name == old.name)
}

// decideFor takes the decisions about plugins that are new for the pods and containers that are there already. What they have missed of them is recorded when they have been told of them.
func (s *Supervisor) decideFor(hosts []*host) {
	if len(hosts) == 0 {
		return
	}
	pods, ctrs := s.store.All()
	for e := range pods {
		if !e.Pinned {
			continue
		}
		left := s.store.Left(e.Ref.Pod)
		for _, h := range hosts {
			if !slices.Contains(left, h.name) {
				s.addDecision(h, e.Ref, h.policy().MatchPod(e.Pod))
			}
		}
	}
	for e := range ctrs {
		if !e.Pinned { // one whose decision is still due gets it by the new plan
			continue
		}
		left := s.store.Left(e.Ref.Pod)
		for _, h := range hosts {
			if !slices.Contains(left, h.name) {
				s.history.before(e.Ref)
				s.addDecision(h, e.Ref, h.policy().MatchContainer(e.Pod, e.Container))
			}
		}
	}
}

func (s *Supervisor) addDecision(h *host, ref store.Ref, d policy.Decision) {
	h.met.matched(d)
	if d.Selected || d.Err != nil {
		s.store.AddPins(ref, store.Pin{Plugin: h.name, Selected: d.Selected, MatchErr: d.Err != nil})
		s.history.decided(s, ref)
	}
}

// restarts reports whether two incarnations of the plugin may not live side by side.
func restarts(p *policy.Plugin) bool {
	return p.Spec.UpdateStrategy.Type == policy.Recreate || p.Attaches()
}

// change makes the loop of a plugin that stays take notice of its new manifest.
func (h *host) change(kind change) <-chan error {
	p := h.policy()
	h.guard.Reconfigure(guardConfig(p))
	h.beside.Store(false)
	done := make(chan error, 1)
	var in plugin.Input
	switch kind {
	case changeConfig:
		in = plugin.Reconfigure{Restart: restarts(p)}
	case changeProcess:
		in = plugin.Replace{}
		if restarts(p) {
			in = plugin.Restart{}
		}
		h.stuck.Store(false)
	case changeNone, changeRules, changeWhole:
		done = nil
	}
	h.box.put(message{in: in, fn: func() {
		h.machine.Reconfigure(machineConfig(p))
		h.spec = p
		if done == nil {
			return
		}
		h.endUpdate(errSuperseded)
		h.update = done
		if h.machine.Phase() == plugin.Disabled || !h.machine.Started() { // it starts with it when it is enabled, or its turn comes
			h.endUpdate(nil)
		}
	}})
	return done
}
