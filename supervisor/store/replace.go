package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Replace takes the runtime's Synchronize, at the given time, as the truth about what exists. What is listed is added, or refreshed with its
// pins and work kept, in the phase that its state says; a listed container is past its creation. What is not listed is gone, with one
// exception: a runtime does not list a sandbox that it is still creating, so a pod of which nothing but its first event is known, and that at
// since or later, is kept ([Store.DropSpared] ends that). Pods and containers that are nil or cannot be named are skipped; of two with the same Ref
// the last counts. The messages belong to the store afterwards.
func (s *Store) Replace(pods []*api.PodSandbox, ctrs []*api.Container, at, since time.Time) Diff {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := listing{refs: make(map[Ref]bool, len(pods)+len(ctrs))}
	for _, p := range pods {
		if id := p.GetId(); id != "" {
			s.listPodLocked(id, p, at, &seen)
		}
	}
	for _, c := range ctrs {
		if ref := s.resolveLocked(nil, c); ref.Pod != "" && !ref.IsPod() {
			s.listContainerLocked(ref, c, at, &seen)
		}
	}
	diff := seen.diff()
	s.dropUnlistedLocked(seen.refs, since, &diff)
	sortEntries(diff.GonePods)
	sortEntries(diff.GoneContainers)
	return diff
}

// DropSpared forgets the pods that a [Store.Replace] spared, that were first seen before the given time and that nothing was heard of since: the
// runtime never finished creating them. They are returned sorted by id.
func (s *Store) DropSpared(before time.Time) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []Entry
	for id, p := range s.pods {
		if p.spared && p.seen.Before(before) {
			gone = append(gone, p.entry(id))
			s.removePodLocked(id, p)
		}
	}
	sortEntries(gone)
	return gone
}

// listing is what one Synchronize listed, and which of it was new.
type listing struct {
	refs map[Ref]bool
	pods []*pod
	ctrs []*container
}

// diff returns the new part, in its last listed form.
func (l *listing) diff() Diff {
	var d Diff
	for _, p := range l.pods {
		d.NewPods = append(d.NewPods, p.msg)
	}
	for _, c := range l.ctrs {
		d.NewContainers = append(d.NewContainers, c.msg)
	}
	slices.SortFunc(d.NewPods, func(a, b *api.PodSandbox) int { return cmp.Compare(a.GetId(), b.GetId()) })
	slices.SortFunc(d.NewContainers, func(a, b *api.Container) int {
		return cmp.Or(cmp.Compare(a.GetPodSandboxId(), b.GetPodSandboxId()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return d
}

// listPodLocked adds or refreshes a listed pod; p is nil if only a container names it.
func (s *Store) listPodLocked(id string, p *api.PodSandbox, at time.Time, seen *listing) *pod {
	rec, isNew := s.podLocked(id, p, at)
	rec.heard()
	seen.refs[Ref{Pod: id}] = true
	if isNew {
		seen.pods = append(seen.pods, rec)
	}
	return rec
}

// listContainerLocked adds or refreshes a listed container; it proves that its pod exists, too.
func (s *Store) listContainerLocked(ref Ref, c *api.Container, at time.Time, seen *listing) {
	rec, isNew := s.containerLocked(s.listPodLocked(ref.Pod, nil, at, seen), ref, c)
	seen.refs[ref] = true
	if isNew {
		seen.ctrs = append(seen.ctrs, rec)
	}
	s.setPhaseLocked(rec, phaseOf(rec.msg, PhaseCreated))
}

func (s *Store) dropUnlistedLocked(listed map[Ref]bool, since time.Time, diff *Diff) {
	for id, p := range s.pods {
		switch {
		case listed[Ref{Pod: id}]:
			for cid, c := range p.ctrs {
				if ref := (Ref{Pod: id, Container: cid}); !listed[ref] {
					diff.GoneContainers = append(diff.GoneContainers, c.entry(ref, p.get()))
					s.dropLocked(id, p, cid)
				}
			}
		case !p.past && !p.seen.Before(since):
			p.spared = true
		default:
			diff.GonePods = append(diff.GonePods, p.entry(id))
			diff.GoneContainers = append(diff.GoneContainers, s.removePodLocked(id, p)...)
		}
	}
}

func sortEntries(list []Entry) {
	slices.SortFunc(list, func(a, b Entry) int { return a.Ref.Compare(b.Ref) })
}
