package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Guard is the bookkeeping and the verdicts about one plugin. Make one with
// [New]; the zero value is not usable. All methods are safe for concurrent use.
type Guard struct {
	rand         func() float64
	onTransition func(Transition)
	shared       atomic.Pointer[SharedLane]

	mu   sync.Mutex // guards everything below and the tickets' fields
	cfg  Config
	draw float64 // taken from rand before locking, for the next opening

	circuit circuit
	forced  bool // Trip
	off     bool // Disable

	shown      State // what State returns
	since      time.Time
	cause      Cause
	openBefore time.Duration // time spent open before since

	inflight *Ticket // admitted and not returned
	probe    *Ticket // admitted half-open and not ended
	last     *Ticket // the latest admitted

	pods pods
	lane lane

	pending    []Transition
	delivering bool
}

// New returns a closed guard with a full lane share. rand gives the jitter of
// open times, at least 0 and less than 1, and nil stands for math/rand; it must
// be safe for concurrent use. onTransition, if not nil, is told each transition
// as the package comment promises; it should return soon, since the method that
// caused the transition waits for it.
func New(cfg Config, rand func() float64, onTransition func(Transition)) *Guard {
	cfg = cfg.normalized()
	now := time.Now()
	g := &Guard{
		rand:         rand,
		onTransition: onTransition,
		cfg:          cfg,
		since:        now,
		pods:         newPods(),
		lane:         newLane(cfg, now),
	}
	if g.rand == nil {
		g.rand = defaultRand
	}
	g.circuit.init(&g.cfg, now)
	return g
}

func defaultRand() float64 {
	return rand.Float64() //nolint:gosec // jitter of a waiting time, not a secret
}

// State returns the state that shows: disabled, else forced_open, else the
// automatic one. It never changes anything; an open breaker whose time is over
// stays open until a call is admitted.
func (g *Guard) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown
}

// OpenSeconds returns how long the guard has shown open or forced_open in total,
// in seconds, up to now. It never decreases.
func (g *Guard) OpenSeconds() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openTotalLocked(time.Now()).Seconds()
}

// lock locks the guard and returns the present, which within one guard never
// goes back. The jitter is drawn before the lock is taken: no code of others
// runs under it.
func (g *Guard) lock() time.Time {
	draw := g.rand()
	g.mu.Lock()
	g.draw = draw
	return time.Now()
}

// unlock unlocks the guard and hands out the transitions that are waiting, unless
// somebody is doing so already.
func (g *Guard) unlock() {
	if g.delivering {
		g.mu.Unlock()
		return
	}
	g.delivering = true
	for len(g.pending) > 0 {
		batch := g.pending
		g.pending = nil
		g.mu.Unlock()
		for _, t := range batch {
			g.onTransition(t)
		}
		g.mu.Lock()
	}
	g.delivering = false
	g.mu.Unlock()
}

// showLocked compares what should show with what does, and records the change.
func (g *Guard) showLocked(cause Cause, now time.Time) {
	state := g.circuit.state
	switch {
	case g.off:
		state = StateDisabled
	case g.forced:
		state = StateForcedOpen
	}
	if state == g.shown {
		return
	}
	t := Transition{From: g.shown, To: state, Cause: cause, At: now}
	if state == StateOpen {
		t.OpenFor = g.circuit.remaining(now)
	}
	g.openBefore = g.openTotalLocked(now)
	g.shown, g.since, g.cause = state, now, cause
	if g.onTransition != nil {
		g.pending = append(g.pending, t)
	}
}

func (g *Guard) openTotalLocked(now time.Time) time.Duration {
	if g.shown == StateOpen || g.shown == StateForcedOpen {
		return g.openBefore + now.Sub(g.since)
	}
	return g.openBefore
}

// The three changes of the automatic state go through the functions below, so
// that what belongs together changes together.

func (g *Guard) openLocked(cause Cause, now time.Time) {
	g.circuit.open(cause, g.draw, now)
	g.probe = nil
	g.showLocked(cause, now)
}

func (g *Guard) halfOpenLocked(cause Cause, now time.Time) {
	g.circuit.halfOpen()
	g.showLocked(cause, now)
}

func (g *Guard) closeLocked(cause Cause, now time.Time) {
	g.circuit.close()
	g.probe = nil
	g.showLocked(cause, now)
}
