package store

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// SetWork records what became of a plugin's work on a container's creation, in place of an earlier record for the same plugin. False =
// unknown container, or ref names a pod.
func (s *Store) SetWork(ref Ref, w Work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, c := s.findLocked(ref)
	if c == nil {
		return false
	}
	s.countLocked(c, -1)
	i := slices.IndexFunc(c.work, func(o Work) bool { return o.Plugin == w.Plugin })
	if i < 0 {
		c.work = append(slices.Clone(c.work), w)
	} else {
		c.work = slices.Clone(c.work)
		c.work[i] = w
	}
	c.work = slices.Clip(c.work)
	s.countLocked(c, +1)
	return true
}

// Work returns the records of a container in the order in which they were first set, shared and read-only; nil = none, or unknown.
func (s *Store) Work(ref Ref) []Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, c := s.findLocked(ref)
	if c == nil {
		return nil
	}
	return c.work
}

// Missed lists the work that is missing from containers that are being created or live, sorted by namespace, pod name, container name,
// plugin and Ref. It costs a pass over all containers.
func (s *Store) Missed() []MissedContainer {
	out := s.collectMissed()
	slices.SortFunc(out, func(a, b MissedContainer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.PodName, b.PodName), cmp.Compare(a.Container, b.Container),
			cmp.Compare(a.Plugin, b.Plugin), a.Ref.Compare(b.Ref))
	})
	return out
}

// MissedCount returns how many containers [Store.Missed] lists for a plugin and reason, in constant time.
func (s *Store) MissedCount(plugin, reason string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.missed[MissedKey{Plugin: plugin, Reason: reason}]
}

// MissedCounts returns a copy of all counts above zero, at a cost that depends only on their number.
func (s *Store) MissedCounts() map[MissedKey]int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.missed)
}

// MissedSum is how much work of a plugin is missing for a reason.
type MissedSum struct {
	Count int       // all of it
	Since int       // what is missing from the given time on
	First time.Time // when the first of that came about; zero: none did
}

// MissedSince counts the work that is missing from containers that are being created or live, of the plugins in since: all of it, and what is missing from that time on. It costs a pass over all
// containers.
func (s *Store) MissedSince(since map[string]time.Time) map[MissedKey]MissedSum {
	out := map[MissedKey]MissedSum{}
	for _, m := range s.collectMissed() {
		from, ok := since[m.Plugin]
		if !ok {
			continue
		}
		key := MissedKey{Plugin: m.Plugin, Reason: m.Reason}
		sum := out[key]
		sum.Count++
		if !m.At.Before(from) {
			if sum.Since++; sum.Since == 1 || m.At.Before(sum.First) {
				sum.First = m.At
			}
		}
		out[key] = sum
	}
	return out
}

func (s *Store) collectMissed() []MissedContainer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []MissedContainer
	for pid, p := range s.pods {
		for cid, c := range p.ctrs {
			if c.phase == PhaseStopped {
				continue
			}
			for _, w := range c.work {
				if !w.Missed {
					continue
				}
				out = append(out, MissedContainer{
					Ref: Ref{Pod: pid, Container: cid}, Namespace: p.namespace(), PodName: p.name(),
					Container: c.name(), Plugin: w.Plugin, Reason: w.Reason, At: w.At,
				})
			}
		}
	}
	return out
}

// countLocked adds a container's missing work to the counts (delta +1) or takes it off (delta -1). It brackets every change of what counts.
func (s *Store) countLocked(c *container, delta int) {
	if c.phase == PhaseStopped {
		return
	}
	for _, w := range c.work {
		if !w.Missed {
			continue
		}
		key := MissedKey{Plugin: w.Plugin, Reason: w.Reason}
		if s.missed[key] += delta; s.missed[key] == 0 {
			delete(s.missed, key)
		}
	}
}
