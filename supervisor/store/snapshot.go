package store

import (
	"iter"
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// view is what the store knows about one pod or container at one moment, not decoded yet.
type view struct {
	Entry // without Pod and Container
	pod   podBody
	ctr   ctrBody
	from  *pod
	of    *container // nil for a pod
}

// Snapshot returns what a plugin is to be told in its Synchronize: the containers whose pins select the plugin and that exist, and the pods
// that are selected themselves or in which such a container lives. Containers that are still being created are listed in creating, and only there: the
// plugin sees them as creations. Stopped containers are left out, as the runtimes do. All of it is one moment of the store; the cost is a pass over
// everything known. What it returns stays decoded until it has been quiet again, so that many plugins that select the same share it.
func (s *Store) Snapshot(plugin string) (pods []*api.PodSandbox, ctrs []*api.Container, creating []Ref) {
	s.thawing.Lock()
	defer s.thawing.Unlock()
	views := s.collectSelected(plugin)
	sortViews(views)
	for i := range views {
		v := &views[i]
		switch {
		case v.of == nil:
			pods = append(pods, v.pod.get())
			v.Pod = pods[len(pods)-1]
		case v.Phase == PhaseCreating:
			creating = append(creating, v.Ref)
		default:
			ctrs = append(ctrs, v.ctr.get())
			v.Container = ctrs[len(ctrs)-1]
		}
	}
	s.thaw(views)
	return pods, ctrs, creating
}

// thaw keeps what was decoded in views.
func (s *Store) thaw(views []view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range views {
		switch v := &views[i]; {
		case v.Pod != nil && v.pod.msg == nil:
			v.from.thaw(v.pod.raw, v.Pod)
			s.warmLocked(v.from, &v.from.warm)
		case v.Container != nil && v.ctr.msg == nil:
			v.of.thaw(v.ctr.raw, v.Container)
			s.warmLocked(v.of, &v.of.warm)
		}
	}
}

// All returns everything known at this moment, pods and containers each sorted by Ref: for decisions about a plugin that appears later. What is packed is decoded one after the other, when it
// is its turn.
func (s *Store) All() (pods, ctrs iter.Seq[Entry]) {
	p, c := s.collectAll()
	sortViews(p)
	sortViews(c)
	return entries(p), entries(c)
}

func entries(views []view) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		var pod *api.PodSandbox
		for i := range views {
			v := &views[i]
			if i == 0 || views[i-1].Ref.Pod != v.Ref.Pod {
				pod = v.pod.get()
			}
			e := v.Entry
			e.Pod = pod
			if v.of != nil {
				e.Container = v.ctr.get()
			}
			if !yield(e) {
				return
			}
		}
	}
}

// Mentions returns the pods and containers about which something is known of the plugin: a pin, work, or that it left the pod.
func (s *Store) Mentions(plugin string) []Ref {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Ref
	pinned := func(pins []Pin) bool {
		return slices.ContainsFunc(pins, func(p Pin) bool { return p.Plugin == plugin })
	}
	for pid, p := range s.pods {
		if pinned(p.pins) || slices.Contains(p.left, plugin) {
			out = append(out, Ref{Pod: pid})
		}
		for cid, c := range p.ctrs {
			if pinned(c.pins) || slices.ContainsFunc(c.work, func(w Work) bool { return w.Plugin == plugin }) {
				out = append(out, Ref{Pod: pid, Container: cid})
			}
		}
	}
	slices.SortFunc(out, Ref.Compare)
	return out
}

func (s *Store) collectSelected(plugin string) []view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []view
	for pid, p := range s.pods {
		include := selects(p.pins, plugin)
		for cid, c := range p.ctrs {
			if c.phase != PhaseStopped && selects(c.pins, plugin) {
				include = true
				out = append(out, c.view(Ref{Pod: pid, Container: cid}, p))
			}
		}
		if include {
			out = append(out, p.view(pid))
		}
	}
	return out
}

func (s *Store) collectAll() (pods, ctrs []view) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods, ctrs = make([]view, 0, len(s.pods)), make([]view, 0, s.ctrs)
	for pid, p := range s.pods {
		pods = append(pods, p.view(pid))
		for cid, c := range p.ctrs {
			ctrs = append(ctrs, c.view(Ref{Pod: pid, Container: cid}, p))
		}
	}
	return pods, ctrs
}

func selects(pins []Pin, plugin string) bool {
	return slices.ContainsFunc(pins, func(p Pin) bool { return p.Selected && p.Plugin == plugin })
}

func (p *pod) view(id string) view { return view{Entry: p.known(id), pod: p.podBody, from: p} }

func (c *container) view(ref Ref, p *pod) view {
	return view{Entry: c.known(ref), pod: p.podBody, ctr: c.ctrBody, from: p, of: c}
}

func sortViews(list []view) {
	slices.SortFunc(list, func(a, b view) int { return a.Ref.Compare(b.Ref) })
}
