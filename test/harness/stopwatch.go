package harness

import (
	"sync"
	"time"
)

// stopwatch knows the slowest request. The zero value is ready for use; safe for concurrent use.
type stopwatch struct {
	mu   sync.Mutex
	what string
	most time.Duration
}

// start begins to time a request; call what it returns at its end.
func (s *stopwatch) start(what string) func() {
	begin := time.Now()
	return func() {
		took := time.Since(begin)
		s.mu.Lock()
		defer s.mu.Unlock()
		if took > s.most {
			s.what, s.most = what, took
		}
	}
}

// Slowest returns the request that took longest so far, as the runtime saw it, and how long it took.
func (r *Runtime) Slowest() (event string, took time.Duration) {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	return r.clock.what, r.clock.most
}
