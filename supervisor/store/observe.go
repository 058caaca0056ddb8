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
	return rec.msg
}

// ObserveCreation learns of a container from its CreateContainer request. If the Ref is known already, the former life ends here: it is
// returned in Replaced, and the new one starts in [PhaseCreating] without metadata, pins or work of the old. p and c may be nil or incomplete
// and belong to the store afterwards. A container that has no id, or that cannot be tied to a pod, is returned as it is and not stored.
func (s *Store) ObserveCreation(p *api.PodSandbox, c *api.Container, at time.Time) Observed {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.resolveLocked(p, c)
	if ref.Pod == "" || ref.IsPod() {
		return unplaced(ref, p, c)
	}
	rec := s.podOfLocked(ref, p, at)
	out := Observed{Ref: ref, Pod: rec.msg, New: true}
	if old, ok := rec.ctrs[ref.Container]; ok {
		gone := old.entry(ref, rec.msg)
		s.dropLocked(rec, ref.Container)
		out.Replaced = &gone
	}
	s.addLocked(rec, ref, c, PhaseCreating)
	out.Container = c
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
	return Observed{Ref: ref, Pod: rec.msg, Container: ctr.msg, New: isNew}
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

// SetCreated records that the runtime has created the container. False = unknown. A stopped container stays stopped.
func (s *Store) SetCreated(ref Ref) bool { return s.advance(ref, PhaseCreated) }

// SetStopped records that the container has stopped: it counts no longer as living. False = unknown.
func (s *Store) SetStopped(ref Ref) bool { return s.advance(ref, PhaseStopped) }

// RemoveContainer forgets a container and returns what was known. False = unknown.
func (s *Store) RemoveContainer(ref Ref) (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, c := s.findLocked(ref)
	if c == nil {
		return Entry{}, false
	}
	s.dropLocked(p, ref.Container)
	return c.entry(ref, p.msg), true
}

// RemovePod forgets a pod and its containers and returns what was known, the containers sorted by id. False = unknown.
func (s *Store) RemovePod(id string) (pod Entry, ctrs []Entry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods[id]
	if !ok {
		return Entry{}, nil, false
	}
	ctrs = s.removePodLocked(id, p)
	sortEntries(ctrs)
	return p.entry(id), ctrs, true
}

func (s *Store) advance(ref Ref, to Phase) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, c := s.findLocked(ref)
	if c == nil {
		return false
	}
	s.advanceLocked(c, to)
	return true
}

// advanceLocked moves a container forward, never back.
func (s *Store) advanceLocked(c *container, to Phase) {
	if to > c.phase {
		s.setPhaseLocked(c, to)
	}
}

// setPhaseLocked keeps the count of missing work right: a stopped container has none.
func (s *Store) setPhaseLocked(c *container, to Phase) {
	s.countLocked(c, -1)
	c.phase = to
	s.countLocked(c, +1)
}

func (s *Store) resolveLocked(p *api.PodSandbox, c *api.Container) Ref {
	ref := Ref{Pod: p.GetId(), Container: c.GetId()}
	if ref.Pod != "" {
		return ref
	}
	if ref.Pod = c.GetPodSandboxId(); ref.Pod != "" {
		return ref
	}
	found := 0
	for id, rec := range s.pods {
		if _, ok := rec.ctrs[ref.Container]; ok {
			ref.Pod = id
			found++
		}
	}
	if found > 1 {
		ref.Pod = ""
	}
	return ref
}

// podOfLocked learns of the pod of a container event, which may have come without one.
func (s *Store) podOfLocked(ref Ref, p *api.PodSandbox, at time.Time) *pod {
	if p.GetId() == "" {
		p = nil
	}
	rec, _ := s.podLocked(ref.Pod, p, at)
	rec.heard()
	return rec
}

// podLocked adds or refreshes the pod with that id, which is p's own unless p is nil.
func (s *Store) podLocked(id string, p *api.PodSandbox, at time.Time) (rec *pod, isNew bool) {
	rec, ok := s.pods[id]
	switch {
	case ok && p != nil:
		rec.msg = completePod(p, rec.msg)
	case !ok:
		if p == nil {
			p = &api.PodSandbox{Id: id}
		}
		rec = &pod{msg: p, seen: at, ctrs: map[string]*container{}}
		s.pods[id] = rec
	}
	return rec, !ok
}

// heard records that the pod got past its creation.
func (p *pod) heard() { p.past, p.spared = true, false }

// containerLocked adds or refreshes the container, whose id c carries.
func (s *Store) containerLocked(p *pod, ref Ref, c *api.Container) (rec *container, isNew bool) {
	rec, ok := p.ctrs[ref.Container]
	if !ok {
		return s.addLocked(p, ref, c, PhaseCreated), true
	}
	rec.msg = completeContainer(c, rec.msg)
	return rec, false
}

func (s *Store) addLocked(p *pod, ref Ref, c *api.Container, phase Phase) *container {
	rec := &container{msg: c, phase: phase}
	p.ctrs[ref.Container] = rec
	s.ctrs++
	return rec
}

func (s *Store) dropLocked(p *pod, id string) {
	s.countLocked(p.ctrs[id], -1)
	delete(p.ctrs, id)
	s.ctrs--
}

func (s *Store) removePodLocked(id string, p *pod) []Entry {
	gone := make([]Entry, 0, len(p.ctrs))
	for cid, c := range p.ctrs {
		gone = append(gone, c.entry(Ref{Pod: id, Container: cid}, p.msg))
		s.dropLocked(p, cid)
	}
	delete(s.pods, id)
	return gone
}

// phaseOf returns the phase that the state in a message proves, or the given one if it proves nothing.
func phaseOf(c *api.Container, phase Phase) Phase {
	switch c.GetState() {
	case api.ContainerState_CONTAINER_STOPPED:
		return PhaseStopped
	case api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_PAUSED:
		return PhaseCreated
	case api.ContainerState_CONTAINER_CREATED, api.ContainerState_CONTAINER_UNKNOWN:
		return phase
	default:
		return phase
	}
}
