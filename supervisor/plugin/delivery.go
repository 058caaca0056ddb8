package plugin

import (
	"slices"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// call takes a new delivery: refuse it, let it wait, or send it.
func (m *Machine) call(r Request) {
	l := &m.lane
	if reason := m.gate(r); reason != breaker.ReasonNone {
		m.refuse(r, reason)
		return
	}
	if !r.Blocking {
		if len(l.queue) >= QueueLimit {
			m.overflow(r)
			return
		}
		l.queue = append(l.queue, r)
		m.pump()
		return
	}
	l.waiting = append(l.waiting, r)
	m.pump()
	if slices.ContainsFunc(l.waiting, func(w Request) bool { return w.ID == r.ID }) {
		m.arm(Timer{Kind: Share, ID: r.ID}, r.Deadline.Sub(m.now))
	}
}

// gate is why a call cannot even wait. None: it may.
func (m *Machine) gate(r Request) breaker.Reason {
	l := &m.life
	switch l.phase {
	case Ready:
		if l.hold != breaker.ReasonNone {
			return l.hold
		}
		if f := m.lane.inflight; f != nil && f.abandoned && r.Blocking {
			return breaker.ReasonBusy
		}
		return breaker.ReasonNone
	case Syncing:
		if l.session != 0 && (!r.Blocking || m.now.Before(l.patience)) {
			return breaker.ReasonNone // notifications cost nobody time; what the snapshot does not contain is withheld
		}
		return breaker.ReasonNotReady
	case Stopped, Starting, Draining, Backoff, CrashLoop, Disabled:
		return m.downReason()
	}
	return breaker.ReasonNotReady
}

// refuse answers a call that was not sent.
func (m *Machine) refuse(r Request, reason breaker.Reason) {
	if m.life.alive && reason == breaker.ReasonNotReady {
		m.life.dirty = true
	}
	m.emit(Answer{ID: r.ID, Result: Result{Refused: reason}})
}

// refuseAll answers every call that has not been sent.
func (m *Machine) refuseAll(reason breaker.Reason) {
	l := &m.lane
	for _, r := range l.waiting {
		m.refuse(r, reason)
	}
	for _, r := range l.queue {
		m.refuse(r, reason)
	}
	l.waiting, l.queue = l.waiting[:0], l.queue[:0]
}

// overflow drops the queue: the plugin has lost count, so it is synchronized before it gets anything again.
func (m *Machine) overflow(r Request) {
	m.refuse(r, breaker.ReasonQueueOverflow)
	l := &m.lane
	for _, q := range l.queue {
		m.refuse(q, breaker.ReasonQueueOverflow)
	}
	l.queue = l.queue[:0]
	if m.life.phase != Ready {
		m.life.dirty = true
		return
	}
	m.life.hold = breaker.ReasonQueueOverflow
	m.armResync(m.untilResync())
}

// pump asks the guard about the next call, if one can be sent.
func (m *Machine) pump() {
	l := &m.lane
	for m.life.phase == Ready && l.inflight == nil && l.asking == nil {
		r, ok := l.next()
		if !ok {
			return
		}
		if m.life.hold != breaker.ReasonNone {
			m.refuse(r, m.life.hold)
			continue
		}
		if l.withheld(r) {
			m.emit(Answer{ID: r.ID})
			continue
		}
		if r.Blocking && !r.Deadline.After(m.now) {
			m.refuse(r, breaker.ReasonBudget)
			continue
		}
		l.asking = &r
		m.emit(Admit{ID: r.ID, PodKey: r.PodKey})
		return
	}
}

func (m *Machine) admitted(id CallID) {
	l := &m.lane
	if l.asking == nil || l.asking.ID != id {
		m.violation("admission of a call that nobody asked about")
		return
	}
	r := *l.asking
	l.asking = nil
	timeout, cut := r.Timeout, false
	if r.Blocking {
		if left := r.Deadline.Sub(m.now); left < timeout {
			timeout, cut = left, true
		}
	}
	l.inflight = &flight{Request: r, cut: cut, timeout: int64(timeout)}
	m.emit(Send{Inc: m.life.inc, ID: id, Timeout: timeout})
	m.arm(Timer{Kind: Timeout, Inc: m.life.inc, ID: id}, timeout)
}

func (m *Machine) refused(in Refused) {
	l := &m.lane
	if l.asking == nil || l.asking.ID != in.ID {
		m.violation("refusal of a call that nobody asked about")
		return
	}
	r := *l.asking
	l.asking = nil
	if in.Reason == breaker.ReasonBreakerOpen && m.life.hold == breaker.ReasonNone { // it opened before this incarnation was ready
		m.life.hold = breaker.ReasonBreakerOpen
		if !in.Manual {
			m.armResync(m.untilResync())
		}
	}
	m.refuse(r, in.Reason)
	m.pump()
}

// abandon answers the caller of the call in flight while the plugin still works on it.
func (m *Machine) abandon(o breaker.Outcome) {
	f := m.lane.inflight
	f.abandoned = true
	m.lane.delivered(f.Request, o)
	m.emit(Verdict{ID: f.ID, Outcome: o})
	m.emit(Answer{ID: f.ID, Result: Result{Delivered: true, Outcome: o}})
	m.arm(Timer{Kind: Overdue, Inc: m.life.inc, ID: f.ID}, f.Overdue-time.Duration(f.timeout))
	for _, w := range m.lane.waiting {
		m.refuse(w, breaker.ReasonBusy)
	}
	m.lane.waiting = m.lane.waiting[:0]
	m.stopWhenIdle()
}

func (m *Machine) timedOut(id CallID) bool {
	f := m.lane.inflight
	if f == nil || f.ID != id || f.abandoned {
		return false
	}
	o := breaker.OutcomeTimeout
	if f.cut {
		o = breaker.OutcomeBudget
	}
	m.abandon(o)
	return true
}

func (m *Machine) shareOver(id CallID) bool {
	l := &m.lane
	i := slices.IndexFunc(l.waiting, func(w Request) bool { return w.ID == id })
	if i < 0 {
		return false
	}
	r := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	reason := breaker.ReasonNotReady
	if m.life.phase == Ready {
		reason = breaker.ReasonBusy
	}
	m.refuse(r, reason)
	return true
}

func (m *Machine) overdue(id CallID) bool {
	f := m.lane.inflight
	if f == nil || f.ID != id {
		return false
	}
	if m.life.stopping {
		return true
	}
	m.emit(GuardHung{PodKey: f.PodKey})
	m.kill(KillHung)
	return true
}

func (m *Machine) returned(in Returned) {
	if !m.current(in.Inc) {
		return
	}
	f := m.lane.inflight
	if f == nil || f.ID != in.ID {
		m.emit(Stale{Input: in})
		return
	}
	m.lane.inflight = nil
	if f.abandoned {
		m.emit(Back{ID: f.ID, Late: true})
	} else {
		m.lane.delivered(f.Request, in.Outcome)
		m.emit(Verdict{ID: f.ID, Outcome: in.Outcome})
		m.emit(Back{ID: f.ID})
		m.emit(Answer{ID: f.ID, Result: Result{Delivered: true, Outcome: in.Outcome}})
	}
	m.stopWhenIdle()
	m.startSync()
	m.pump()
}

// cancel: the runtime that asked is gone.
func (m *Machine) cancel(id CallID) {
	l := &m.lane
	if i := slices.IndexFunc(l.waiting, func(w Request) bool { return w.ID == id }); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		m.emit(Answer{ID: id, Result: Result{Delivered: true, Outcome: breaker.OutcomeCanceled}})
		return
	}
	if f := l.inflight; f != nil && f.ID == id && !f.abandoned {
		m.abandon(breaker.OutcomeCanceled)
		return
	}
	m.emit(Stale{Input: m.in})
}
