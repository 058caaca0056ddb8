package supervisor

import (
	"sync"
	"sync/atomic"
	"time"
)

// aliveLimit is how long a probe of the work loop may take. On an idle machine it takes microseconds.
const aliveLimit = time.Second

// liveness is the probe of the work loop. The zero value is ready for use.
type liveness struct {
	mu   sync.Mutex   // guards the rest
	walk *walk        // not nil: the last one that was begun
	at   atomic.Value // string: where it is
}

// walk is one way through what an event goes through.
type walk struct{ done chan struct{} }

// Alive reports whether the supervisor could answer an event: no request of the runtime is overdue, the locks on an event's way can be had, and every plugin's loop takes a message,
// all within a second. A plugin's own failure does not matter here. Safe for concurrent use.
func (s *Supervisor) Alive() (ok bool, why string) {
	if se := s.current.Load(); se != nil {
		if why := se.stuck(time.Now()); why != "" {
			return false, why
		}
	}
	l := &s.live
	l.mu.Lock()
	w := l.walk
	if w == nil || w.over() {
		w = &walk{done: make(chan struct{})}
		l.walk = w
		go func() {
			defer close(w.done)
			s.goTheWayOfAnEvent(func(where string) { l.at.Store(where) })
		}()
	} // else one is stuck where it was, and another would be, too
	l.mu.Unlock()
	limit := time.NewTimer(aliveLimit)
	defer limit.Stop()
	select {
	case <-w.done:
		return true, ""
	case <-limit.C:
		where, _ := l.at.Load().(string)
		return false, where + " for a second"
	}
}

// goTheWayOfAnEvent takes what an event takes, in its order, and changes nothing.
func (s *Supervisor) goTheWayOfAnEvent(at func(where string)) {
	at("the session's lock has not been free")
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // that it can be had is all there is to know
	at("the selection's lock has not been free")
	s.deciding.RLock()
	hosts := s.plan().hosts
	s.deciding.RUnlock()
	at("the store's lock has not been free")
	s.store.Len()
	for _, h := range hosts {
		at("the loop of plugin " + h.name + " has not turned")
		turned := make(chan struct{})
		if h.box.put(message{fn: func() { close(turned) }}) { // else it has stopped in order
			<-turned
		}
	}
}

// over reports whether the walk came through.
func (w *walk) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
