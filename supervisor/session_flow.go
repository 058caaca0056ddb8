package supervisor

import (
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// flow knows the requests of the runtime that are being answered, so that a session can end between two of them and notices one that is never answered. The zero value is ready for use.
type flow struct {
	mu    sync.Mutex
	begun map[uint64]time.Time
	next  uint64
	idle  chan struct{} // not nil: somebody waits for begun to be empty
}

// enter takes note of a request and returns its number.
func (f *flow) enter(now time.Time) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun == nil {
		f.begun = map[uint64]time.Time{}
	}
	f.next++
	f.begun[f.next] = now
	return f.next
}

func (f *flow) leave(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.begun, id)
	if len(f.begun) == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// longest is for how long the oldest request has been waiting for its answer; 0: there is none.
func (f *flow) longest(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out time.Duration
	for _, t := range f.begun {
		out = max(out, now.Sub(t))
	}
	return out
}

// quiet returns a channel that is closed when no request is being answered.
func (f *flow) quiet() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan struct{})
	if len(f.begun) == 0 {
		close(ch)
		return ch
	}
	if f.idle == nil {
		f.idle = ch
	}
	return f.idle
}

// arrival is one request of the runtime that is being answered.
type arrival struct {
	se     *session
	event  api.Event
	id     uint64
	seen   time.Time
	waited time.Duration // how long it may have waited before, unseen; 0 as a rule
}

// request accounts for one request of the runtime; call done when the answer is ready.
func (se *session) request(e api.Event) arrival {
	now := time.Now()
	return arrival{se: se, event: e, id: se.flow.enter(now), seen: now, waited: se.sup.pulse.waited(now)}
}

func (a arrival) done() {
	a.se.flow.leave(a.id)
	took := time.Since(a.seen) + a.waited
	a.se.sup.metrics.request(a.event, took, took > a.se.timeout)
}
