package supervisor

import (
	"cmp"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// selected is a plugin that gets an event. matchErr: its selector could not be evaluated, so it does not get it and its failure policy decides.
type selected struct {
	h        *host
	matchErr bool
}

// podSelection returns who gets the events of a pod. The decision is taken at first sight and pinned; then it also returns who does not, unless nobody does.
func (s *Supervisor) podSelection(p *api.PodSandbox) ([]selected, []journal.NotMatched) {
	ref := store.Ref{Pod: p.GetId()}
	if pins, ok := s.store.Pins(ref); ok {
		return s.fromPins(pins, p), nil
	}
	return s.selectPod(p)
}

// containerSelection is podSelection for a container.
func (s *Supervisor) containerSelection(ref store.Ref, p *api.PodSandbox, c *api.Container) ([]selected, []journal.NotMatched) {
	if pins, ok := s.store.Pins(ref); ok {
		return s.fromPins(pins, p), nil
	}
	return s.selectContainer(ref, p, c)
}

// selectUnpinned takes the decisions that are still due for what the runtime lists.
func (s *Supervisor) selectUnpinned(pods []*api.PodSandbox, ctrs []*api.Container) {
	for _, p := range pods {
		if known, ok := s.store.Pod(p.GetId()); ok {
			s.podSelection(known)
		}
	}
	for _, c := range ctrs {
		ref := s.store.Resolve(nil, c)
		p, hasPod := s.store.Pod(ref.Pod)
		known, ok := s.store.Container(ref)
		if !ok || !hasPod {
			continue
		}
		if _, pinned := s.store.Pins(ref); !pinned {
			s.selectContainer(ref, p, known)
			if pins, _ := s.store.Pins(ref); s.history.why(ref) == reasonStateLost {
				s.store.SetPins(ref, recomputed(pins))
			}
			s.history.decided(s, ref)
		}
	}
}

// selectPod also remembers the decision. That about a container is remembered when the container was created, with what became of it.
func (s *Supervisor) selectPod(p *api.PodSandbox) ([]selected, []journal.NotMatched) {
	ref := store.Ref{Pod: p.GetId()}
	sel, others := s.decide(ref, func(pl *policy.Plugin) policy.Decision { return pl.MatchPod(p) })
	s.history.decided(s, ref)
	return sel, others
}

func (s *Supervisor) selectContainer(ref store.Ref, p *api.PodSandbox, c *api.Container) ([]selected, []journal.NotMatched) {
	return s.decide(ref, func(pl *policy.Plugin) policy.Decision { return pl.MatchContainer(p, c) })
}

// refusal is a plugin that is not selected.
type refusal struct {
	h      *host
	detail string
	part   policy.Part // PartNone: it has left the pod
}

// commonHosts is how many plugins a node has at most, as a rule: the decision about so many needs no memory.
const commonHosts = 128

func (s *Supervisor) decide(ref store.Ref, match func(*policy.Plugin) policy.Decision) ([]selected, []journal.NotMatched) {
	var onStack [commonHosts]refusal
	refusals := onStack[:0]
	var out []selected
	var pins []store.Pin
	left := s.store.Left(ref.Pod)
	s.deciding.RLock()
	defer s.deciding.RUnlock()
	for _, h := range s.plan().hosts {
		if len(left) > 0 && slices.Contains(left, h.name) {
			refusals = append(refusals, refusal{h: h})
			continue // it said so
		}
		d := match(h.policy())
		h.met.matched(d)
		if d.Selected || d.Err != nil {
			out = append(out, selected{h: h, matchErr: d.Err != nil})
			pins = append(pins, store.Pin{Plugin: h.name, Selected: d.Selected, MatchErr: d.Err != nil})
		} else {
			refusals = append(refusals, refusal{h, d.Detail, d.Part})
		}
	}
	s.store.SetPins(ref, pins)
	if len(out) == 0 {
		return nil, nil
	}
	return out, notMatched(refusals)
}

// notMatched names for the journal who was not selected.
func notMatched(refusals []refusal) []journal.NotMatched {
	out := make([]journal.NotMatched, len(refusals))
	for i, r := range refusals {
		out[i] = journal.NotMatched{Plugin: r.h.name, Part: r.part.String(), Detail: r.detail}
		if r.part == policy.PartNone {
			out[i].Part = "opted out"
		}
	}
	return out
}

// fromPins returns who was selected and may still see the pod: a team's ceiling is always today's.
func (s *Supervisor) fromPins(pins []store.Pin, pod *api.PodSandbox) []selected {
	if len(pins) == 0 {
		return nil
	}
	now := s.plan()
	out := make([]selected, 0, len(pins))
	for _, p := range pins {
		if h := now.byName[p.Plugin]; h != nil && h.policy().MaySee(pod) {
			out = append(out, selected{h: h, matchErr: p.MatchErr && !p.Selected})
		}
	}
	inOrder := func(a, b selected) int { return cmp.Compare(now.place[a.h], now.place[b.h]) }
	if !slices.IsSortedFunc(out, inOrder) { // a plugin came later, or changed its index
		slices.SortFunc(out, inOrder)
	}
	return out
}

// mayUpdate reports whether the container is in the plugin's scope: it is selected for it, and may still see it.
func (s *Supervisor) mayUpdate(h *host, ref store.Ref) bool {
	pins, _ := s.store.Pins(ref)
	if !slices.ContainsFunc(pins, func(p store.Pin) bool { return p.Plugin == h.name && p.Selected }) {
		return false
	}
	p, ok := s.store.Pod(ref.Pod)
	return ok && h.policy().MaySee(p)
}

// podKey names a pod in a way that survives the kubelet's retries with a new sandbox.
func podKey(p *api.PodSandbox) string {
	if p.GetUid() != "" {
		return p.GetUid()
	}
	if p.GetName() != "" {
		return p.GetNamespace() + "/" + p.GetName()
	}
	return p.GetId()
}
