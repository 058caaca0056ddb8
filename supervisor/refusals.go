package supervisor

import (
	"sync"
	"time"
)

// refusals counts the requests of the runtime that failed for a plugin's sake. Safe for concurrent use; the zero value is ready.
type refusals struct {
	mu sync.Mutex
	by map[string]ReasonSum
	at time.Time // of the last
}

// add counts one.
func (r *refusals) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]ReasonSum{}
	}
	r.at = time.Now()
	sum := r.by[reason]
	if sum.First.IsZero() || r.at.Sub(sum.At) >= calm { // what was over for so long is another story
		sum.First = r.at
	}
	sum.Reason, sum.Count, sum.At = reason, sum.Count+1, r.at
	r.by[reason] = sum
}

// renew takes note that the plugin comes into service: what is refused from now on began then at the earliest.
func (r *refusals) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reason, sum := range r.by {
		sum.First = time.Time{}
		r.by[reason] = sum
	}
}

// sum returns how many there were, by reason, and when the last was.
func (r *refusals) sum() (n int, by []ReasonSum, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sum := range r.by {
		by = append(by, sum)
		n += sum.Count
	}
	sortReasons(by)
	return n, by, r.at
}
