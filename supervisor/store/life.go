package store

import (
	"slices"

	"github.com/containerd/nri/pkg/api"
)

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
	gone := c.entry(ref, p.get())
	s.dropLocked(ref.Pod, p, ref.Container)
	return gone, true
}

// RemovePod forgets a pod and its containers and returns what was known, the containers sorted by id. False = unknown.
func (s *Store) RemovePod(id string) (pod Entry, ctrs []Entry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods[id]
	if !ok {
		return Entry{}, nil, false
	}
	pod = p.entry(id)
	ctrs = s.removePodLocked(id, p)
	sortEntries(ctrs)
	return pod, ctrs, true
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

func (s *Store) dropLocked(podID string, p *pod, id string) {
	s.countLocked(p.ctrs[id], -1)
	p.ctrs[id].release()
	delete(p.ctrs, id)
	in := s.byID[id]
	if in = slices.DeleteFunc(in, func(pod string) bool { return pod == podID }); len(in) == 0 {
		delete(s.byID, id)
	} else {
		s.byID[id] = in
	}
	s.ctrs--
}

func (s *Store) removePodLocked(id string, p *pod) []Entry {
	gone := make([]Entry, 0, len(p.ctrs))
	msg := p.get()
	for cid, c := range p.ctrs {
		gone = append(gone, c.entry(Ref{Pod: id, Container: cid}, msg))
		s.dropLocked(id, p, cid)
	}
	p.release()
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
