package supervisor

import (
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// flow counts the requests of the runtime that are being answered, so that a session can end between two of them. The zero value is ready for use.
type flow struct {
	mu     sync.Mutex
	active int
	idle   chan struct{} // not nil: somebody waits for active to be 0
}

func (f *flow) enter() {
	f.mu.Lock()
	f.active++
	f.mu.Unlock()
}

func (f *flow) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active--
	if f.active == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// quiet returns a channel that is closed when no request is being answered.
func (f *flow) quiet() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan struct{})
	if f.active == 0 {
		close(ch)
		return ch
	}
	if f.idle == nil {
		f.idle = ch
	}
	return f.idle
}

// request accounts for one request of the runtime; call what it returns when the answer is ready.
func (se *session) request(e api.Event) (done func()) {
	begin := time.Now()
	se.flow.enter()
	return func() {
		se.flow.leave()
		took := time.Since(begin)
		se.sup.metrics.request(e, took, took > se.timeout)
	}
}
