package supervisor

import (
	"sync"
	"time"
)

// refusals counts the requests of the runtime that failed for a plugin's sake. Safe for concurrent use; the zero value is ready.
type refusals struct {
	mu sync.Mutex
	by map[string]int
	at time.Time
}

// add counts one.
func (r *refusals) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	r.by[reason]++
	r.at = time.Now()
}

// sum returns how many there were, by reason, and when the last was.
func (r *refusals) sum() (n int, by []ReasonSum, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reason, count := range r.by {
		by = append(by, ReasonSum{Reason: reason, Count: count})
		n += count
	}
	sortReasons(by)
	return n, by, r.at
}
