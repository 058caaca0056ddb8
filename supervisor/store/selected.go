package store

// SelectedCounts returns, for each plugin that selected some, how many containers that are being created or live it selected. It costs a pass over all containers.
func (s *Store) SelectedCounts() map[string]int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[string]int{}
	for _, p := range s.pods {
		for _, c := range p.ctrs {
			if c.phase == PhaseStopped {
				continue
			}
			for _, pin := range c.pins {
				if pin.Selected {
					out[pin.Plugin]++
				}
			}
		}
	}
	return out
}
