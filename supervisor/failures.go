package supervisor

import (
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// Failure is one failure that counts against a plugin: of a call, of its process or of its health.
type Failure struct {
	At time.Time `json:"at"`
	// Event is NRI's name of the event; empty for what happened outside of one.
	Event string `json:"event,omitempty"`
	// Namespace, Pod and Container name what the event was about; all are empty without an event, Container for a pod.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Reason is an outcome of a call, the reason of an exit, "hung", "health" or "synchronize".
	Reason string `json:"reason"`
	// Detail says more, in one line for people. It may hold the plugin's own words, and never its output.
	Detail string `json:"detail,omitempty"`
}

// Opening is how a breaker came to be open, kept until the next time that it opens.
type Opening struct {
	At time.Time `json:"at"`
	// Cause is why it opened, as in the metric breaker_transitions_total.
	Cause string `json:"cause"`
	// Again is how often it opened again after a trial, without having been closed.
	Again int `json:"again,omitempty"`
	// First and Last are the first and the last failure of the series that opened it or kept it open; nil: it failed without one, or there was just one.
	First *Failure `json:"first,omitempty"`
	Last  *Failure `json:"last,omitempty"`
	// FailingSince is the first failure after the plugin was last well for a while, or when the breaker opened if there was none. Times is how often the breaker opened from then on,
	// this time included: above 1 it was closed in between, and not for long.
	FailingSince time.Time `json:"failingSince,omitzero"`
	Times        int       `json:"times,omitempty"`
	// Closed is when it was closed again; zero while it is not.
	Closed time.Time `json:"closed,omitzero"`
}

// failures remembers why a breaker opened. Safe for concurrent use.
type failures struct {
	mu          sync.Mutex
	first, last *Failure // of the series under way
	good        bool     // a call was good since last
	opening     *Opening
	failing     failing
}

// bad takes note of a failure. While the breaker is closed, one that comes after a good call and later than window begins a new series.
func (f *failures) bad(x Failure, window time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open := f.opening != nil && f.opening.Closed.IsZero(); f.first == nil || !open && f.good && x.At.Sub(f.last.At) > window {
		f.first = &x
	}
	f.last, f.good = &x, false
	if f.opening != nil && f.opening.Closed.IsZero() {
		f.opening.last(f.first, f.last)
	}
}

// last sets the two failures that are shown.
func (o *Opening) last(first, last *Failure) {
	o.First, o.Last = first, last
	if first == last {
		o.First = nil
	}
}

// ok takes note of a good call.
func (f *failures) ok() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.good = true
}

// moved follows the breaker.
func (f *failures) moved(t breaker.Transition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	under := f.opening != nil && f.opening.Closed.IsZero()
	switch t.To {
	case breaker.StateOpen:
		if under {
			if t.From == breaker.StateHalfOpen {
				f.opening.Again++
			}
			return
		}
		first, closed := t.At, time.Time{}
		if f.first != nil {
			first = f.first.At
		}
		if f.opening != nil {
			closed = f.opening.Closed
		}
		f.failing = f.failing.opened(first, closed)
		f.opening = &Opening{At: t.At, Cause: t.Cause.String(), FailingSince: f.failing.since, Times: f.failing.times}
		f.opening.last(f.first, f.last)
	case breaker.StateClosed:
		if under {
			f.opening.Closed = t.At
		}
		if t.Cause == breaker.CauseManual { // an operator takes it for mended
			f.failing = failing{}
			if f.opening != nil {
				f.opening.FailingSince, f.opening.Times = f.opening.At, 1
			}
		}
		f.first, f.last, f.good = nil, nil, false
	case breaker.StateHalfOpen, breaker.StateForcedOpen, breaker.StateDisabled:
	}
}

// latest returns how the breaker opened last; nil: it never did.
func (f *failures) latest() *Opening {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opening == nil {
		return nil
	}
	o := *f.opening
	return &o
}

// failed takes note of a failure of a plugin; c is the call, nil: none.
func (h *host) failed(c *call, reason, detail string) {
	x := Failure{At: time.Now(), Reason: reason, Detail: oneLine(detail)}
	if c != nil {
		x.Event, x.Namespace, x.Pod, x.Container = c.req.Event.PrettyName(), c.name.namespace, c.name.pod, c.name.container
	}
	h.failures.bad(x, h.policy().Spec.Breaker.FailureRatio.Window.Std())
}

// flying is the call that runs in the plugin; nil: none does.
func (h *host) flying() *call {
	id, ok := h.machine.Flying()
	if !ok {
		return nil
	}
	return h.calls[id]
}
