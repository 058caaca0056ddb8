package supervisor

import (
	"slices"
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

// Opening is how a breaker came to be open, kept until the next time that it opens or an operator resets it.
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
	// GoodSince is since when the breaker is closed and every event that failed is answered well, without a failure; zero while that is not so. Unmended are the events that failed and have
	// not been answered well since; it may be empty although GoodSince is zero: what failed was no event.
	GoodSince time.Time `json:"goodSince,omitzero"`
	Unmended  []string  `json:"unmended,omitempty"`
	// FailedAt is the last failure, also one that came after the breaker was closed; zero: none.
	FailedAt time.Time `json:"failedAt,omitzero"`
}

// failures remembers why a breaker opened, and since when its plugin fails. Like the breaker it keeps each event apart, since a good answer to one says nothing about another; there are as many
// as NRI has events, so it is bounded. Safe for concurrent use.
type failures struct {
	mu      sync.Mutex
	runs    map[string]*run // by event; empty: what happened outside of one, which a good call of any event mends, and the closing of the breaker
	last    *Failure        // of all
	first   *Failure        // of the opening
	opening *Opening
	failing failing
	well    time.Time // since when the plugin was well after the opening, once it was that for a while
}

func (f *failures) open() bool { return f.opening != nil && f.opening.Closed.IsZero() }

// bad takes note of a failure. While the breaker is closed, one that comes after a good call of its event and later than window begins a new series.
func (f *failures) bad(x Failure, window time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(x.At)
	r := f.runs[x.Event]
	if r == nil || !f.open() && !r.good.IsZero() && (r.over || x.At.Sub(r.last.At) > window) {
		r = &run{first: &x}
		if f.runs == nil {
			f.runs = map[string]*run{}
		}
		f.runs[x.Event] = r
	}
	r.last, r.good, r.over = &x, time.Time{}, false
	f.last = &x
	if f.open() {
		if f.first == nil {
			f.first = &x
		}
		f.opening.show(f.first, f.last)
	}
}

// show sets the two failures that are shown.
func (o *Opening) show(first, last *Failure) {
	o.First, o.Last = first, last
	if first == last {
		o.First = nil
	}
}

// ok takes note of a good call.
func (f *failures) ok(event string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[event].mend(at)
	f.runs[""].mend(at)
}

// renewed takes note that another version of the plugin is in service: it may never get the event that the old one failed at.
func (f *failures) renewed(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runs {
		r.mend(at)
	}
}

// forget forgets all while the breaker is closed: an operator takes the plugin for mended.
func (f *failures) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open() { // else it opened just now, or its closing is about to be told
		f.forgetLocked()
	}
}

func (f *failures) forgetLocked() {
	f.runs, f.last, f.first, f.opening, f.failing, f.well = nil, nil, nil, nil, failing{}, time.Time{}
}

// settle forgets what failed before the plugin was well for a while.
func (f *failures) settle(now time.Time) {
	if f.opening == nil || f.failing.times == 0 {
		return
	}
	if good, _ := f.goodSince(); !f.open() && !good.IsZero() && now.Sub(good) >= calm {
		f.runs, f.last, f.failing, f.well = nil, nil, failing{}, good
	}
}

// goodSince is since when the breaker is closed and all that failed since the plugin began to is good again; zero, and which events are not.
func (f *failures) goodSince() (good time.Time, unmended []string) {
	if !f.well.IsZero() {
		return f.well, nil
	}
	good = f.opening.Closed
	all := !good.IsZero()
	for event, r := range f.runs {
		switch {
		case r.last.At.Before(f.failing.since): // another story
		case !r.good.IsZero():
			if r.good.After(good) {
				good = r.good
			}
		default:
			all = false
			if event != "" {
				unmended = append(unmended, event)
			}
		}
	}
	slices.Sort(unmended)
	if !all {
		good = time.Time{}
	}
	return good, unmended
}

// series returns the first and the last failure of what opens the breaker: of the event that failed last, and of others that failed lately too.
func (f *failures) series(t breaker.Transition) (first, last *Failure) {
	for _, r := range f.runs {
		lately := t.At.Sub(r.last.At) < calm
		decides := r.last == f.last && t.Cause != breaker.CauseSlowCall // that is no failure of a call
		if r.over || r.well(t.At) || !lately && !decides {
			continue
		}
		if first == nil || r.first.At.Before(first.At) {
			first = r.first
		}
		if last == nil || r.last == f.last {
			last = r.last
		}
	}
	return first, last
}

// moved follows the breaker.
func (f *failures) moved(t breaker.Transition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch t.To {
	case breaker.StateOpen:
		if f.open() {
			if t.From == breaker.StateHalfOpen {
				f.opening.Again++
			}
			return
		}
		f.settle(t.At)
		first, last := f.series(t)
		since := t.At
		if first != nil {
			since = first.At
		}
		f.failing, f.first, f.well = f.failing.opened(since), first, time.Time{}
		f.opening = &Opening{At: t.At, Cause: t.Cause.String(), FailingSince: f.failing.since, Times: f.failing.times}
		f.opening.show(first, last)
	case breaker.StateClosed:
		if t.Cause == breaker.CauseManual { // an operator takes it for mended
			f.forgetLocked()
			return
		}
		if f.open() {
			f.opening.Closed = t.At
		}
		f.runs[""].mend(t.At)
		for _, r := range f.runs {
			r.over = !r.good.IsZero()
		}
	case breaker.StateHalfOpen, breaker.StateForcedOpen, breaker.StateDisabled:
	}
}

// latest returns how the breaker opened last; nil: it never did, or an operator has reset it since.
func (f *failures) latest() *Opening {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opening == nil {
		return nil
	}
	o := *f.opening
	o.GoodSince, o.Unmended = f.goodSince()
	if f.last != nil {
		o.FailedAt = f.last.At
	}
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
