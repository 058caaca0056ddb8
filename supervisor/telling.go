package supervisor

import (
	"sync"
	"time"
)

const (
	// toldAtOnce is how many plugins are told the state at the same time. Each needs it encoded, some megabytes on a full node, until it has read it.
	toldAtOnce = 4
	// toldSlowly is how long a plugin keeps the others waiting that takes its time, or does not read at all.
	toldSlowly = 250 * time.Millisecond
)

// telling bounds how many plugins are told the state at once. Make one with newTelling.
type telling chan struct{}

func newTelling() telling { return make(telling, toldAtOnce) }

// begin waits for a place, until ended is closed. done gives it back, which happens by itself after a while.
func (t telling) begin(ended <-chan struct{}) (done func()) {
	select {
	case t <- struct{}{}:
	case <-ended:
		return func() {}
	}
	leave := sync.OnceFunc(func() { <-t })
	slow := time.AfterFunc(toldSlowly, leave)
	return func() {
		slow.Stop()
		leave()
	}
}
