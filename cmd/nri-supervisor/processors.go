package main

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// narrowAfter is how long nothing has computed for long before the events have one processor again. A change of their number stops the process for some microseconds.
const narrowAfter = 200 * time.Millisecond

// processors decides how many of Go's processors run goroutines at once: one while there are only events to handle, Go's default while something computes beside them.
//
// The runtime sends one event at a time, and its way through the process is a chain of goroutines that each wait for the one before. With several processors the scheduler wakes another thread
// at each link, which finds nothing to do: on two cores that is a fifth of the process's work and an eighth of the time of a creation that ten plugins adjust (make bench; docs/performance.md).
// What computes for milliseconds would keep the only processor from the events, for ten milliseconds at each link of the chain, and so gets others.
//
// Make one with newProcessors. Safe for concurrent use.
type processors struct {
	set   func(one bool) // changes the number
	after func(time.Duration, func()) stopper

	changes sync.WaitGroup // the goroutine that changes the number

	mu       sync.Mutex
	users    int     // that compute
	narrow   bool    // one processor is right
	is       bool    // the number is that
	changing bool    // by the goroutine
	timer    stopper // runs when nobody has computed for narrowAfter; nil: it does not run
}

// stopper is a time.Timer.
type stopper interface{ Stop() bool }

// newProcessors leaves what GOMAXPROCS in the environment says as it is.
func newProcessors() *processors {
	p := &processors{set: setProcessors, after: func(d time.Duration, f func()) stopper { return time.AfterFunc(d, f) }}
	if os.Getenv("GOMAXPROCS") != "" {
		p.set = func(bool) {}
	}
	return p
}

func setProcessors(one bool) {
	if one {
		runtime.GOMAXPROCS(1)
	} else {
		runtime.SetDefaultGOMAXPROCS()
	}
}

// compute says that something computes until done is called, which may be called more than once.
func (p *processors) compute() (done func()) {
	if p.begin() {
		runtime.Gosched() // the change comes first, unless it has to wait
	}
	return sync.OnceFunc(p.release)
}

// close leaves the number as it is.
func (p *processors) close() {
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	p.changes.Wait()
}

// begin reports whether the number is about to change.
func (p *processors) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if !p.narrow {
		return false
	}
	p.narrow = false
	p.changeLocked()
	return true
}

// changeLocked has the number changed, on a goroutine of its own: that waits for the end of a collection of garbage, which takes a tenth of a second where the heap has 500 MB.
func (p *processors) changeLocked() {
	if !p.changing {
		p.changing = true
		p.changes.Go(p.change)
	}
}

func (p *processors) change() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.is != p.narrow {
		one := p.narrow
		p.mu.Unlock()
		p.set(one)
		p.mu.Lock()
		p.is = one
	}
	p.changing = false
}

func (p *processors) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.timer = p.after(narrowAfter, p.settle)
	}
}

// settle is called by the timer.
func (p *processors) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users > 0 || p.timer == nil { // somebody came meanwhile
		return
	}
	p.timer = nil
	p.narrow = true
	p.changeLocked()
}
