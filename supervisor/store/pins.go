package store

import "slices"

// SetPins records the decisions for a pod or container, in place of earlier ones. Pins that say nothing are left out; an empty list records
// that nobody is selected. The list is copied. False = unknown.
func (s *Store) SetPins(ref Ref, pins []Pin) bool {
	return s.changePins(ref, func([]Pin) []Pin { return mergePins(nil, pins) })
}

// AddPins records decisions for single plugins and leaves those for others as they are: for a plugin that appears during the life of the pod or
// container. A pin that says nothing takes an earlier one away. False = unknown.
func (s *Store) AddPins(ref Ref, pins ...Pin) bool {
	return s.changePins(ref, func(old []Pin) []Pin { return mergePins(old, pins) })
}

// Unpin takes back the selection of one plugin, because it said that it is not interested; its work on the container is then missing no
// longer. Unpin of a pod covers the containers that live in it, and [Store.Left] names the plugin for those to come. False = unknown.
func (s *Store) Unpin(ref Ref, plugin string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, c := s.findLocked(ref)
	switch {
	case p == nil, c == nil && !ref.IsPod():
		return false
	case c != nil:
		s.forgetLocked(c, plugin)
	default:
		s.forgetPodLocked(p, plugin)
		if !slices.Contains(p.left, plugin) {
			p.left = append(slices.Clip(p.left), plugin) // the list may be shared with readers
		}
	}
	return true
}

// Left names the plugins that were unpinned from the pod, in that order: a decision about a container that is new in it leaves them out. The list is shared and read-only.
func (s *Store) Left(podID string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p := s.pods[podID]; p != nil {
		return p.left
	}
	return nil
}

// ForgetPlugin takes every pin and every record of work of a plugin away, because the plugin left the configuration.
func (s *Store) ForgetPlugin(plugin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		s.forgetPodLocked(p, plugin)
		p.left = slices.DeleteFunc(slices.Clone(p.left), func(name string) bool { return name == plugin })
	}
}

// RenamePlugin gives every pin and every record of work of a plugin to one of another name, which has none.
func (s *Store) RenamePlugin(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		p.pins = renamePin(p.pins, from, to)
		if i := slices.Index(p.left, from); i >= 0 {
			p.left = slices.Clone(p.left)
			p.left[i] = to
		}
		for _, c := range p.ctrs {
			c.pins = renamePin(c.pins, from, to)
			i := slices.IndexFunc(c.work, func(w Work) bool { return w.Plugin == from })
			if i < 0 {
				continue
			}
			s.countLocked(c, -1)
			c.work = slices.Clone(c.work)
			c.work[i].Plugin = to
			s.countLocked(c, +1)
		}
	}
}

func renamePin(pins []Pin, from, to string) []Pin {
	i := slices.IndexFunc(pins, func(p Pin) bool { return p.Plugin == from })
	if i < 0 {
		return pins
	}
	pins = slices.Clone(pins)
	pins[i].Plugin = to
	return pins
}

// Pins returns the decisions in the order in which they were given, shared and read-only. False = unknown, or no decision was taken yet,
// which is not the same as an empty list.
func (s *Store) Pins(ref Ref) ([]Pin, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, c := s.findLocked(ref)
	switch {
	case p == nil, c == nil && !ref.IsPod():
		return nil, false
	case c != nil:
		return c.pins, c.pinned
	default:
		return p.pins, p.pinned
	}
}

func (s *Store) changePins(ref Ref, change func(old []Pin) []Pin) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, c := s.findLocked(ref)
	switch {
	case p == nil, c == nil && !ref.IsPod():
		return false
	case c != nil:
		c.pins, c.pinned = s.shareLocked(change(c.pins)), true
	default:
		p.pins, p.pinned = s.shareLocked(change(p.pins)), true
	}
	return true
}

// latestPins is how many different lists of pins are at hand to be shared. Most pods and containers of a node are selected by one of few sets of plugins.
const latestPins = 16

// shareLocked returns a list of the same pins that something else has, too, if there was one of late.
func (s *Store) shareLocked(pins []Pin) []Pin {
	if len(pins) == 0 {
		return nil
	}
	for _, known := range s.latest {
		if slices.Equal(known, pins) {
			return known
		}
	}
	s.latest[s.oldest] = pins
	s.oldest = (s.oldest + 1) % latestPins
	return pins
}

func (s *Store) forgetPodLocked(p *pod, plugin string) {
	p.pins = withoutPin(p.pins, plugin)
	for _, c := range p.ctrs {
		s.forgetLocked(c, plugin)
	}
}

func (s *Store) forgetLocked(c *container, plugin string) {
	c.pins = withoutPin(c.pins, plugin)
	i := slices.IndexFunc(c.work, func(w Work) bool { return w.Plugin == plugin })
	if i < 0 {
		return
	}
	s.countLocked(c, -1)
	c.work = slices.Concat(c.work[:i], c.work[i+1:])
	s.countLocked(c, +1)
}

// mergePins returns a new list: old with each of pins put in place of the one for the same plugin, or at the end.
func mergePins(old, pins []Pin) []Pin {
	out := make([]Pin, 0, len(old)+len(pins))
	out = append(out, old...)
	for _, pin := range pins {
		i := slices.IndexFunc(out, func(p Pin) bool { return p.Plugin == pin.Plugin })
		says := pin.Selected || pin.MatchErr
		switch {
		case i < 0 && says:
			out = append(out, pin)
		case i >= 0 && says:
			out[i] = pin
		case i >= 0:
			out = slices.Delete(out, i, i+1)
		}
	}
	return slices.Clip(out)
}

func withoutPin(pins []Pin, plugin string) []Pin {
	i := slices.IndexFunc(pins, func(p Pin) bool { return p.Plugin == plugin })
	if i < 0 {
		return pins
	}
	return slices.Concat(pins[:i], pins[i+1:])
}
