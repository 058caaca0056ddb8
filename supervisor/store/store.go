package store

import (
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Store holds the state of one node. Make one with [New]; the zero value is not usable. Safe for concurrent use.
type Store struct {
	mu     sync.RWMutex
	pods   map[string]*pod
	byID   map[string][]string // container id → the pods that have one, so that finding a pod costs no pass over all
	ctrs   int                 // containers in all pods
	missed map[MissedKey]int   // missing work of living containers; no zero values
	warm   []parcel            // what is kept decoded, and may be gone

	latest [latestPins][]Pin // lists that were set of late
	oldest int               // of them

	thawing sync.Mutex // one Snapshot after the other, so that the next finds decoded what the one before decoded; taken before mu
}

// pod is the mutable record of one pod. Its messages and slices are replaced, never written into.
type pod struct {
	podBody
	seen   time.Time // first sight
	past   bool      // an event after the first one, or a listing, proves that the pod got past its creation
	spared bool      // kept by a Replace that did not list it, and not heard of since
	pinned bool
	pins   []Pin
	left   []string // plugins that took their selection back for the whole pod
	ctrs   map[string]*container
}

// container is the mutable record of one container, under the same rule.
type container struct {
	ctrBody
	phase  Phase
	pinned bool
	pins   []Pin
	work   []Work
}

// New returns an empty store.
func New() *Store {
	return &Store{pods: map[string]*pod{}, byID: map[string][]string{}, missed: map[MissedKey]int{}}
}

// Len returns how many pods and containers are known, in constant time.
func (s *Store) Len() (pods, containers int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.pods), s.ctrs
}

// Pod returns the pod with that sandbox id. False = unknown.
func (s *Store) Pod(id string) (*api.PodSandbox, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.pods[id]
	if !ok {
		return nil, false
	}
	return p.get(), true
}

// Container returns the container. False = unknown, or ref names a pod.
func (s *Store) Container(ref Ref) (*api.Container, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, c := s.findLocked(ref)
	if c == nil {
		return nil, false
	}
	return c.get(), true
}

// Get returns everything known about a pod or container. False = unknown.
func (s *Store) Get(ref Ref) (Entry, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, c := s.findLocked(ref)
	switch {
	case p == nil, c == nil && !ref.IsPod():
		return Entry{}, false
	case ref.IsPod():
		return p.entry(ref.Pod), true
	default:
		return c.entry(ref, p.get()), true
	}
}

// findLocked returns the records that ref names; the container is nil when ref names a pod or the container is unknown.
func (s *Store) findLocked(ref Ref) (*pod, *container) {
	p, ok := s.pods[ref.Pod]
	if !ok || ref.IsPod() {
		return p, nil
	}
	return p, p.ctrs[ref.Container]
}

// known is the pod's record without the pod.
func (p *pod) known(id string) Entry {
	return Entry{Ref: Ref{Pod: id}, Phase: PhaseCreated, Pinned: p.pinned, Pins: p.pins}
}

// entry returns a copy of the pod's record.
func (p *pod) entry(id string) Entry {
	e := p.known(id)
	e.Pod = p.get()
	return e
}

// known is the container's record without pod and container.
func (c *container) known(ref Ref) Entry {
	return Entry{Ref: ref, Phase: c.phase, Pinned: c.pinned, Pins: c.pins, Work: c.work}
}

// entry returns a copy of the container's record.
func (c *container) entry(ref Ref, p *api.PodSandbox) Entry {
	e := c.known(ref)
	e.Pod, e.Container = p, c.get()
	return e
}
