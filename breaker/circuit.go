package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// goodCallsToForgive is after how many good calls since the last opening the
// open time goes back to its start (design, the guard: "after 10 good real
// calls").
const goodCallsToForgive = 10

// What gobreaker is told about a call; a good one is nil.
var (
	errBad      = errors.New("bad")
	errExcluded = errors.New("excluded")
)

// circuit is the automatic part of a guard. gobreaker moves it: it opens after a
// bad call when [circuit.failed] says so, hands out the half-open slot, and closes
// or opens by the probe. What gobreaker cannot do is added here: rules over a window
// that does not clear the count of consecutive failures, slow calls, opening without
// a call, an open time that grows and is not over by itself.
//
// Not safe for concurrent use: the guard's lock guards it. gobreaker calls back
// under a lock of its own, so those functions touch only fields of the circuit.
type circuit struct {
	cfg *Config
	cb  *gobreaker.TwoStepCircuitBreaker[struct{}]

	moved gobreaker.State // where gobreaker went last
	why   Cause           // why it opened after a bad call
	force bool            // it shall open at the next bad call

	state State  // StateClosed, StateOpen or StateHalfOpen
	era   uint64 // a verdict on a call from another era is not counted

	// Counted while closed, and kept for show until it closes again.
	consecutive series
	calls       window

	openFor   time.Duration // the latest opening
	openUntil time.Time
	down      bool // no process: open until Started, whatever the time
	growth    growth
	goodCalls int // since the latest opening

	// Set by openings and cleared by closing: what a cure must prove.
	needsCall bool // more than health or an exit opened it
	needsFast bool // slow calls opened it
}

func (c *circuit) init(cfg *Config, now time.Time) {
	c.cfg = cfg
	c.consecutive = series{}
	c.calls = newWindow(cfg.RatioWindow, now)
	c.renew()
}

// renew replaces gobreaker by a fresh, closed one. Tickets of the old one are of
// an older era and are never reported to it.
func (c *circuit) renew() {
	c.moved = gobreaker.StateClosed
	c.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		// The open time is ours. gobreaker's must be over whenever ours is, and
		// zero would mean 60 s.
		Timeout:       time.Nanosecond,
		ReadyToTrip:   func(gobreaker.Counts) bool { return c.readyToTrip() },
		OnStateChange: func(_ string, _, to gobreaker.State) { c.moved = to },
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { return errors.Is(err, errExcluded) },
	})
}

// readyToTrip is what gobreaker asks when a bad call has ended and it is closed.
func (c *circuit) readyToTrip() bool {
	if c.force || c.state == StateHalfOpen {
		return true
	}
	c.why = c.failed(time.Now())
	return c.why != CauseNone
}

// admit takes a place for one call in the closed or half-open state. It returns
// nil when gobreaker has none.
func (c *circuit) admit() (done func(error)) {
	done, err := c.cb.Allow()
	if errors.Is(err, gobreaker.ErrOpenState) {
		// gobreaker opened within the present tick of the clock, and it stays
		// open for that tick. A fresh one stands in for the half-open one: a good
		// call leaves it closed and a bad one opens it.
		c.renew()
		done, err = c.cb.Allow()
	}
	if err != nil {
		return nil
	}
	return done
}

// report counts the verdict of a call that was admitted in this era, and returns
// the state that it leads to and why.
func (c *circuit) report(done func(error), kind string, v Verdict, slow bool, now time.Time) (State, Cause) {
	probe := c.state == StateHalfOpen
	if probe && slow && c.needsFast && v == VerdictGood {
		v = VerdictBad // a slow answer is no cure for slowness
	}
	switch v {
	case VerdictExcluded:
		done(errExcluded)
		return c.state, CauseNone
	case VerdictGood:
		c.count(kind, tally{good: 1, slow: one(slow)}, now)
		c.good(slow)
		done(nil)
	case VerdictBad:
		c.count(kind, tally{bad: 1, slow: one(slow)}, now)
		done(errBad)
	}
	switch state := c.follow(); {
	case probe:
		return state, CauseProbe
	case state == StateOpen:
		return state, c.why
	}
	if c.tooSlow(now) {
		c.trip()
		return c.follow(), CauseSlowCall
	}
	return c.state, CauseNone
}

// count takes a call into the counts of the closed state.
func (c *circuit) count(kind string, t tally, now time.Time) {
	if c.state != StateClosed {
		return
	}
	c.consecutive.add(kind, t)
	c.calls.add(now, t)
}

// follow returns the state that gobreaker is in.
func (c *circuit) follow() State {
	switch c.moved {
	case gobreaker.StateOpen:
		return StateOpen
	case gobreaker.StateHalfOpen:
		return StateHalfOpen
	case gobreaker.StateClosed:
	}
	return StateClosed
}

// failed returns which rule about failures a bad call has just broken, if any.
func (c *circuit) failed(now time.Time) Cause {
	if c.cfg.ConsecutiveFailures > 0 && c.consecutive.longest() >= c.cfg.ConsecutiveFailures {
		return CauseConsecutiveFailures
	}
	sum := c.calls.sum(now)
	if c.cfg.FailureRatio > 0 && sum.counted() >= c.cfg.RatioMinimumCalls &&
		float64(sum.bad) >= c.cfg.FailureRatio*float64(sum.counted()) {
		return CauseFailureRatio
	}
	return CauseNone
}

// tooSlow reports whether too many of the calls in the window were slow.
func (c *circuit) tooSlow(now time.Time) bool {
	sum := c.calls.sum(now)
	return c.cfg.SlowCall > 0 && sum.counted() >= c.cfg.SlowMinimumCalls &&
		float64(sum.slow) >= c.cfg.SlowRatio*float64(sum.counted())
}

// good counts a good call towards forgetting earlier openings.
func (c *circuit) good(slow bool) {
	if slow {
		return
	}
	c.goodCalls++
	if c.goodCalls >= goodCallsToForgive {
		c.growth = growth{}
	}
}

// trip opens gobreaker without a verdict: a fresh one gets a bad call.
func (c *circuit) trip() {
	c.renew()
	c.force = true
	if done := c.admit(); done != nil {
		done(errBad)
	}
	c.force = false
}

// open is what belongs to an opening, after gobreaker has opened.
func (c *circuit) open(cause Cause, draw float64, now time.Time) {
	c.state = c.follow()
	c.era++
	c.openFor = c.growth.next(c.cfg, draw)
	c.openUntil = now.Add(c.openFor)
	c.goodCalls = 0
	if cause != CauseExit && cause != CauseHealth {
		c.needsCall = true
	}
	if cause == CauseSlowCall {
		c.needsFast = true
	}
}

// halfOpen ends the open time; gobreaker follows at the next call, not before.
func (c *circuit) halfOpen() { c.state = StateHalfOpen }

// close is what belongs to a closing, after gobreaker has closed.
func (c *circuit) close() {
	c.state = c.follow()
	c.era++
	c.forget()
	c.needsCall, c.needsFast, c.down = false, false, false
}

// forget drops what was counted while closed.
func (c *circuit) forget() {
	clear(c.consecutive)
	c.calls.clear()
}

// holds reports whether an open circuit refuses calls for now.
func (c *circuit) holds(now time.Time) bool {
	return c.state == StateOpen && (c.down || now.Before(c.openUntil))
}

// remaining is how much of the open time is left; zero while the process is
// down, since the time then does not matter.
func (c *circuit) remaining(now time.Time) time.Duration {
	if c.down {
		return 0
	}
	return max(c.openUntil.Sub(now), 0)
}

func one(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
