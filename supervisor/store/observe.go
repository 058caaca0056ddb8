package store

import (
	"time"

	"github.com/containerd/nri/pkg/api"
)

// ObservePod learns of a pod from one of its events, at the given time, and returns it completed with what the runtime left out. The store
// never loses what it knew: stored metadata fills what p lacks. A pod without an id is returned as it is and not stored; nil becomes an
// empty pod. p belongs to the store afterwards.
func (s *Store) ObservePod(p *api.PodSandbox, at time.Time) *api.PodSandbox {
	if p == nil {
		return &api.PodSandbox{}
	}
	if p.GetId() == "" {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, isNew := s.podLocked(p.GetId(), p, at)
	if !isNew {
		rec.heard()
	}
	return rec.get()
}

// ObserveCreation learns of a container from its CreateContainer request. If the Ref is known already, the former life ends here: it is
// returned in Replaced, and the new one starts in [PhaseCreating] without metadata, pins or work of the old. Both p and c may be nil or
// incomplete, and belong to the store afterwards. A container that has no id, or that cannot be tied to a pod, is returned as it is and not stored.
func (s *Store) ObserveCreation(p *api.PodSandbox, c *api.Container, at time.Time) Observed {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.resolveLocked(p, c)
	if ref.Pod == "" || ref.IsPod() {
		return unplaced(ref, p, c)
	}
	rec := s.podOfLocked(ref, p, at)
	out := Observed{Ref: ref, Pod: rec.get(), New: true}
	if old, ok := rec.ctrs[ref.Container]; ok {
		gone := old.entry(ref, rec.get())
		s.dropLocked(ref.Pod, rec, ref.Container)
		out.Replaced = &gone
	}
	out.Container = s.addLocked(rec, ref, c, PhaseCreating).msg
	return out
}

// ObserveContainer learns of a container from any event but its creation and returns it completed with what the runtime left out. An unknown
// container is added in [PhaseCreated]; a known one keeps its phase, except that the state stopped moves it to [PhaseStopped] and running or paused
// ends [PhaseCreating]. p and c may be nil or incomplete and belong to the store afterwards. What has no id or pod is not stored, as in
// [Store.ObserveCreation].
func (s *Store) ObserveContainer(p *api.PodSandbox, c *api.Container, at time.Time) Observed {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.resolveLocked(p, c)
	if ref.Pod == "" || ref.IsPod() {
		return unplaced(ref, p, c)
	}
	rec := s.podOfLocked(ref, p, at)
	ctr, isNew := s.containerLocked(rec, ref, c)
	s.advanceLocked(ctr, phaseOf(ctr.msg, ctr.phase))
	return Observed{Ref: ref, Pod: rec.get(), Container: ctr.msg, New: isNew}
}

// unplaced is what an observation of a container without a Ref comes to.
func unplaced(ref Ref, p *api.PodSandbox, c *api.Container) Observed {
	if p == nil {
		p = &api.PodSandbox{}
	}
	if c == nil {
		c = &api.Container{}
	}
	return Observed{Ref: ref, Pod: p, Container: c}
}

// Resolve returns the Ref of the container of an event: the pod's id, else the sandbox id that the container carries, else the only known
// pod that has a container with this id. Only if all of that fails is the Ref's pod empty.
func (s *Store) Resolve(p *api.PodSandbox, c *api.Container) Ref {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resolveLocked(p, c)
}

func (s *Store) resolveLocked(p *api.PodSandbox, c *api.Container) Ref {
	ref := Ref{Pod: p.GetId(), Container: c.GetId()}
	if ref.Pod != "" {
		return ref
	}
	if ref.Pod = c.GetPodSandboxId(); ref.Pod != "" {
		return ref
	}
	if in := s.byID[ref.Container]; len(in) == 1 {
		ref.Pod = in[0]
	}
	return ref
}

// podOfLocked learns of the pod of a container event, which may have come without one.
func (s *Store) podOfLocked(ref Ref, p *api.PodSandbox, at time.Time) *pod {
	if p != nil && p.GetId() == "" {
		p = completePod(p, &api.PodSandbox{Id: ref.Pod})
	}
	rec, _ := s.podLocked(ref.Pod, p, at)
	rec.heard()
	return rec
}

// podLocked adds or refreshes the pod with that id; p has it, too, or is nil.
func (s *Store) podLocked(id string, p *api.PodSandbox, at time.Time) (rec *pod, isNew bool) {
	rec, ok := s.pods[id]
	switch {
	case ok && p != nil:
		s.refreshPodLocked(rec, p)
	case !ok:
		if p == nil {
			p = &api.PodSandbox{Id: id}
		}
		rec = &pod{seen: at, ctrs: map[string]*container{}}
		rec.set(p)
		s.warmLocked(rec, &rec.warm)
		s.pods[id] = rec
	}
	return rec, !ok
}

// refreshPodLocked completes p with what is known of the pod, and puts it in its place.
func (s *Store) refreshPodLocked(rec *pod, p *api.PodSandbox) {
	if rec.msg != nil || !coversPod(p, rec.raw) {
		p = completePod(p, rec.get())
	}
	rec.set(p)
	s.warmLocked(rec, &rec.warm)
}

// heard records that the pod got past its creation.
func (p *pod) heard() { p.past, p.spared = true, false }

// containerLocked adds or refreshes the container, whose id c carries.
func (s *Store) containerLocked(p *pod, ref Ref, c *api.Container) (rec *container, isNew bool) {
	rec, ok := p.ctrs[ref.Container]
	if !ok {
		return s.addLocked(p, ref, c, PhaseCreated), true
	}
	if rec.msg != nil || !coversContainer(c, rec.raw) {
		c = completeContainer(c, rec.get())
	}
	rec.set(c)
	s.warmLocked(rec, &rec.warm)
	return rec, false
}

func (s *Store) addLocked(p *pod, ref Ref, c *api.Container, phase Phase) *container {
	if c.GetPodSandboxId() == "" {
		c = completeContainer(c, &api.Container{PodSandboxId: ref.Pod})
	}
	rec := &container{phase: phase}
	rec.set(c)
	s.warmLocked(rec, &rec.warm)
	p.ctrs[ref.Container] = rec
	s.byID[ref.Container] = append(s.byID[ref.Container], ref.Pod)
	s.ctrs++
	return rec
}
