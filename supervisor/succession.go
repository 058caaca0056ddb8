package supervisor

import "slices"

// launchInTurn starts a plugin that a reload brought, without holding anybody up: not before this supervisor's turn, nor before those have ended beside which it may not live. It reports whether
// that can be now, or soon. Under reloads.mu and actions.
func (s *Supervisor) launchInTurn(st step) bool {
	after := s.predecessors(st)
	if s.hasTurn() && len(after) == 0 {
		st.h.start()
		return true
	}
	h, ours := st.h, s.hasTurn()
	s.running.Go(func() {
		for _, c := range append(after, s.turned) {
			select {
			case <-c:
			case <-h.gone: // it was removed again, or the supervisor stops
				return
			}
		}
		s.reloads.mu.Lock()
		defer s.reloads.mu.Unlock()
		s.actions.Lock()
		defer s.actions.Unlock()
		if !s.reloads.ended && s.plan().byName[h.name] == h {
			h.start()
		}
	})
	return ours
}

// predecessors returns what is closed when the plugins have ended beside which the one of the step may not live. Two plugins are taken for one that holds a device when one of them has to be
// alone, and the other had its name or its program, or was what is now renamed. Under reloads.mu.
func (s *Supervisor) predecessors(st step) []<-chan struct{} {
	s.ending = slices.DeleteFunc(s.ending, func(h *host) bool {
		select {
		case <-h.gone:
			return true
		default:
			return false
		}
	})
	is := st.h.policy()
	var out []<-chan struct{}
	for _, old := range s.ending {
		was := old.policy()
		same := old == st.old || was.Name == is.Name || was.Spec.Exec != nil && is.Spec.Exec != nil && was.Spec.Exec.Path == is.Spec.Exec.Path
		if same && (restarts(was) || restarts(is)) {
			out = append(out, old.gone)
		}
	}
	return out
}

// takeTurn starts the plugins when it is this supervisor's turn: those of now, which a reload may have changed since it began to wait. Those that a reload brought wait for it themselves.
func (s *Supervisor) takeTurn(begun *plan) {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	s.actions.Lock()
	defer s.actions.Unlock()
	now := s.plan()
	for _, h := range begun.hosts {
		if now.byName[h.name] == h {
			h.start()
		}
	}
	close(s.turned)
}

func (s *Supervisor) hasTurn() bool {
	select {
	case <-s.turned:
		return true
	default:
		return false
	}
}
