package supervisor

import (
	"sync/atomic"
	"time"
)

const (
	// pulsePeriod is how often the process notes that it runs.
	pulsePeriod = 100 * time.Millisecond
	// stoodStill is how long it must not have noted it to have stood still: far more than a busy machine delays a timer.
	stoodStill = 500 * time.Millisecond
	// sinceThen is how long after it went on a request counts as one that may have waited meanwhile: the connection is read at once.
	sinceThen = 200 * time.Millisecond
)

// pulse knows whether the whole process stood still, since it was stopped, frozen or starved: a request of the runtime may then have waited in the socket, unseen, for as long. NRI's requests do
// not say when they were sent. The zero value is ready for use. Safe for concurrent use, but for beat, which one goroutine calls; every event asks, and waits for no lock.
type pulse struct{ last atomic.Pointer[heartbeat] } // nil: never

// heartbeat is what was known when the process noted last that it runs.
type heartbeat struct {
	at     time.Time
	wentOn time.Time     // after it stood still last
	stood  time.Duration // how long it did
}

// beat notes that the process runs.
func (p *pulse) beat(now time.Time) {
	next := heartbeat{at: now}
	if last := p.last.Load(); last != nil {
		next.wentOn, next.stood = last.wentOn, last.stood
		if gap := now.Sub(last.at); gap >= stoodStill {
			next.wentOn, next.stood = now, gap
		}
	}
	p.last.Store(&next)
}

// waited is how long a request that is seen now may have waited before; 0 as a rule.
func (p *pulse) waited(now time.Time) time.Duration {
	last := p.last.Load()
	if last == nil {
		return 0
	}
	if gap := now.Sub(last.at); gap >= stoodStill { // the request is seen before the timer is
		return gap
	}
	if last.stood > 0 && now.Sub(last.wentOn) < sinceThen {
		return last.stood
	}
	return 0
}

// keepPulse beats until stop is closed.
func (p *pulse) keepPulse(stop <-chan struct{}) {
	tick := time.NewTicker(pulsePeriod)
	defer tick.Stop()
	p.beat(time.Now())
	for {
		select {
		case <-tick.C:
			p.beat(time.Now())
		case <-stop:
			return
		}
	}
}
