package store

import (
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// Snapshot returns what a plugin is to be told in its Synchronize: the containers whose pins select the plugin and that exist, and the pods
// that are selected themselves or in which such a container lives. Containers that are still being created are listed in creating, and only there: the
// plugin sees them as creations. Stopped containers are left out, as the runtimes do. All of it is one moment of the store; the cost is a pass over
// everything known.
func (s *Store) Snapshot(plugin string) (pods []*api.PodSandbox, ctrs []*api.Container, creating []Ref) {
	entries := s.collectSelected(plugin)
	sortEntries(entries)
	for _, e := range entries {
		switch {
		case e.Ref.IsPod():
			pods = append(pods, e.Pod)
		case e.Phase == PhaseCreating:
			creating = append(creating, e.Ref)
		default:
			ctrs = append(ctrs, e.Container)
		}
	}
	return pods, ctrs, creating
}

// All returns everything known, pods and containers each sorted by Ref: for decisions about a plugin that appears later.
func (s *Store) All() (pods, ctrs []Entry) {
	pods, ctrs = s.collectAll()
	sortEntries(pods)
	sortEntries(ctrs)
	return pods, ctrs
}

func (s *Store) collectSelected(plugin string) []Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Entry
	for pid, p := range s.pods {
		include := selects(p.pins, plugin)
		for cid, c := range p.ctrs {
			if c.phase != PhaseStopped && selects(c.pins, plugin) {
				include = true
				out = append(out, c.entry(Ref{Pod: pid, Container: cid}, p.msg))
			}
		}
		if include {
			out = append(out, p.entry(pid))
		}
	}
	return out
}

func (s *Store) collectAll() (pods, ctrs []Entry) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods, ctrs = make([]Entry, 0, len(s.pods)), make([]Entry, 0, s.ctrs)
	for pid, p := range s.pods {
		pods = append(pods, p.entry(pid))
		for cid, c := range p.ctrs {
			ctrs = append(ctrs, c.entry(Ref{Pod: pid, Container: cid}, p.msg))
		}
	}
	return pods, ctrs
}

func selects(pins []Pin, plugin string) bool {
	return slices.ContainsFunc(pins, func(p Pin) bool { return p.Selected && p.Plugin == plugin })
}
