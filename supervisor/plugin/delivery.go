package plugin

import (
	"slices"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// call takes a new delivery: refuse it, let it wait, or send it.
func (m *Machine) call(r Request) {
	l := &m.lane
	if r.Vanished {
		m.noteVanished(r)
		return
	}
	if reason := m.gate(r); reason != breaker.ReasonNone {
		m.refuse(r, reason)
		return
	}
	if !r.Blocking {
		if len(l.queue) >= QueueLimit {
			m.overflow(r)
			return
		}
		l.queue = append(l.queue, l.item(r))
		m.pump()
		return
	}
	if n := m.life.next; n != nil {
		n.observe(r, m.now)
		if n.held {
			m.awaitNext(&r)
		}
	}
	l.waiting = append(l.waiting, l.item(r))
	m.pump()
	if slices.ContainsFunc(l.waiting, func(w item) bool { return w.ID == r.ID }) {
		m.arm(Timer{Kind: Share, ID: r.ID}, r.Deadline.Sub(m.now))
	}
}

// gate is why a call cannot even wait. None: it may.
func (m *Machine) gate(r Request) breaker.Reason {
	l := &m.life
	busy := r.Blocking && m.lane.inflight != nil && m.lane.inflight.overtime
	switch l.phase {
	case Ready:
		if l.hold != breaker.ReasonNone {
			if !r.Blocking && m.takingOver() {
				return breaker.ReasonNone
			}
			return l.hold
		}
		if busy {
			return breaker.ReasonBusy
		}
		return breaker.ReasonNone
	case Syncing:
		switch {
		case l.session == 0:
			return breaker.ReasonNotReady
		case busy: // the synchronization waits for the same call
			return breaker.ReasonBusy
		case !r.Blocking || m.now.Before(l.patience):
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
	if m.life.syncing {
		m.life.dirty = true // the snapshot under way does not tell it either
	}
	if n := m.life.next; n != nil {
		n.missed = true
	}
	m.lane.notSent(r)
	m.emit(Answer{ID: r.ID, Result: Result{Refused: reason, Held: r.waited(m.now)}})
}

// refuseWaiting answers every blocking call that has not been sent.
func (m *Machine) refuseWaiting(reason breaker.Reason) {
	l := &m.lane
	for _, w := range l.waiting {
		m.refuse(w.Request, reason)
	}
	l.waiting = l.waiting[:0]
}

// refuseQueue answers every notification that has not been sent. Notes to forget go too: an epoch begins before anything else is told.
func (m *Machine) refuseQueue(reason breaker.Reason) {
	l := &m.lane
	for _, q := range l.queue {
		if q.ID != 0 {
			m.refuse(q.Request, reason)
		}
	}
	l.queue = l.queue[:0]
}

// refuseAll answers every call that has not been sent.
func (m *Machine) refuseAll(reason breaker.Reason) {
	m.refuseWaiting(reason)
	m.refuseQueue(reason)
}

// overflow drops the queue: the plugin has lost count, so it is synchronized before it gets anything again.
func (m *Machine) overflow(r Request) {
	l := &m.life
	switch {
	case m.refusing(): // it is synchronized before it gets anything in any case
		m.refuseQueue(breaker.ReasonQueueOverflow)
	case l.phase == Ready:
		m.holdBack(breaker.ReasonQueueOverflow)
		m.armResync(m.untilResync())
	default:
		l.overflowed = true // a snapshot that has not been taken yet tells it all, and ends this
		m.refuseQueue(breaker.ReasonQueueOverflow)
	}
	m.refuse(r, breaker.ReasonQueueOverflow)
}

// pump asks the guard about the next call, if one can be sent.
func (m *Machine) pump() {
	l := &m.lane
	for m.life.phase == Ready && l.inflight == nil && l.asking == nil && !m.holding() && !m.refusing() {
		r, ok := l.next()
		switch {
		case !ok:
			return
		case r.ID == 0:
			l.forget(r.Ref)
		case l.withheld(r):
			l.notSent(r)
			m.emit(Answer{ID: r.ID})
		case r.Blocking && !r.Deadline.After(m.now):
			m.refuse(r, breaker.ReasonBudget)
		default:
			l.asking = &ask{Request: r}
			m.emit(Admit{ID: r.ID, PodKey: r.PodKey})
		}
	}
}

// asked takes the call that the guard has answered about.
func (m *Machine) asked(id CallID) *ask {
	a := m.lane.asking
	if a == nil || a.ID != id {
		m.violation("the guard's answer about a call that it was not asked about")
		return nil
	}
	m.lane.asking = nil
	return a
}

func (m *Machine) admitted(id CallID) {
	a := m.asked(id)
	if a == nil {
		return
	}
	reason := breaker.ReasonNone
	switch { // what happened since the guard was asked
	case a.Vanished && m.life.phase == Syncing: // told before the synchronization
	case m.life.phase != Ready:
		reason = m.downReason()
	case m.life.hold != breaker.ReasonNone:
		reason = m.life.hold
	case a.Blocking && !a.Deadline.After(m.now):
		reason = breaker.ReasonBudget
	}
	if a.canceled || reason != breaker.ReasonNone {
		m.emit(Verdict{ID: id, Outcome: breaker.OutcomeCanceled})
		m.emit(Back{ID: id})
		if a.canceled {
			m.answerCanceled(a.Request)
		} else {
			m.refuse(a.Request, reason)
		}
		m.startSync()
		m.syncNext()
		m.pump()
		return
	}
	f := &flight{Request: a.Request, sent: m.now, limit: a.Timeout}
	if left := a.Deadline.Sub(m.now); a.Blocking && left < f.limit {
		f.limit, f.cut = left, left < f.limit-f.limit/cutShare
	}
	m.lane.inflight = f
	if n := m.life.next; n != nil {
		n.dirty = true // it is told to the one in service only
	}
	m.emit(Send{Inc: m.life.inc, ID: id, Timeout: f.limit})
	m.arm(Timer{Kind: Timeout, Inc: m.life.inc, ID: id}, f.limit)
}

func (m *Machine) refused(in Refused) {
	a := m.asked(in.ID)
	if a == nil {
		return
	}
	if in.Reason == breaker.ReasonBreakerOpen && m.life.phase == Ready && m.life.hold == breaker.ReasonNone { // it opened before this incarnation was ready
		m.holdBack(breaker.ReasonBreakerOpen)
		if !in.Manual {
			m.armResync(m.untilResync())
		}
	}
	if a.canceled {
		m.answerCanceled(a.Request)
	} else {
		m.refuse(a.Request, in.Reason)
	}
	m.startSync()
	m.syncNext()
	m.pump()
}

// conclude answers the caller of the call in flight, which may go on in the plugin.
func (m *Machine) conclude(o breaker.Outcome) {
	f := m.lane.inflight
	f.answered = true
	m.lane.delivered(f.Request, o)
	m.emit(Verdict{ID: f.ID, Outcome: o})
	m.emit(Answer{ID: f.ID, Result: Result{Delivered: true, Outcome: o, Held: f.waited(f.sent)}})
}

// timedOut: the call in flight has used its time. Nobody waits for it any more, and nobody waits behind it.
func (m *Machine) timedOut(id CallID) bool {
	f := m.lane.inflight
	if f == nil || f.ID != id || f.overtime {
		return false
	}
	f.overtime = true
	if !f.answered {
		o := breaker.OutcomeTimeout
		if f.cut {
			o = breaker.OutcomeBudget
		}
		m.conclude(o)
	}
	m.arm(Timer{Kind: Overdue, Inc: m.life.inc, ID: id}, f.sent.Add(f.Overdue).Sub(m.now))
	m.refuseWaiting(breaker.ReasonBusy)
	m.stopWhenIdle()
	return true
}

func (m *Machine) shareOver(id CallID) bool {
	i := slices.IndexFunc(m.lane.waiting, func(w item) bool { return w.ID == id })
	if i < 0 {
		return false
	}
	if left := m.lane.waiting[i].Deadline.Sub(m.now); left > 0 { // it waits for a successor, or has done so
		m.arm(Timer{Kind: Share, ID: id}, left)
		return true
	}
	r, _ := m.lane.takeWaiting(id)
	reason := breaker.ReasonNotReady
	switch {
	case m.life.phase == Ready:
		reason = breaker.ReasonBusy
	case m.life.onePatience: // the next event must not wait in vain as well
		m.life.patience = time.Time{}
	}
	m.refuse(r, reason)
	return true
}

// overdue: the call in flight is a hang.
func (m *Machine) overdue(id CallID) bool {
	f := m.lane.inflight
	if f == nil || f.ID != id {
		return false
	}
	if !m.life.stopping {
		m.emit(GuardHung{PodKey: f.PodKey})
		m.kill(KillHung)
	}
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
	if in.Outcome == breaker.OutcomeUnavailable { // its connection is gone; the process follows, and its exit is to know what it worked on
		if !f.answered {
			m.conclude(in.Outcome)
			m.stopWhenIdle()
		}
		return
	}
	m.lane.inflight = nil
	if f.answered {
		m.emit(Back{ID: f.ID, Late: true})
	} else {
		m.lane.delivered(f.Request, in.Outcome)
		m.emit(Verdict{ID: f.ID, Outcome: in.Outcome})
		m.emit(Back{ID: f.ID})
		m.emit(Answer{ID: f.ID, Result: Result{Delivered: true, Outcome: in.Outcome, Held: f.waited(f.sent)}})
	}
	m.stopWhenIdle()
	m.startSync()
	m.syncNext()
	m.pump()
}

// lost ends the call that was in the plugin when its process went.
func (m *Machine) lost() {
	f := m.lane.inflight
	m.lane.inflight = nil
	switch {
	case f == nil:
	case f.answered:
		m.emit(Back{ID: f.ID})
	default:
		m.emit(Verdict{ID: f.ID, Outcome: breaker.OutcomeUnavailable})
		m.emit(Back{ID: f.ID})
		m.emit(Answer{ID: f.ID, Result: Result{Delivered: true, Outcome: breaker.OutcomeUnavailable, Held: f.waited(f.sent)}})
	}
}

// cancel: the runtime that asked is gone.
func (m *Machine) cancel(id CallID) {
	l := &m.lane
	if r, ok := l.takeWaiting(id); ok {
		m.answerCanceled(r)
		return
	}
	if a := l.asking; a != nil && a.ID == id {
		a.canceled = true // answered when the guard has spoken, since its ticket ends first
		return
	}
	if f := l.inflight; f != nil && f.ID == id && !f.answered {
		m.conclude(breaker.OutcomeCanceled)
		m.stopWhenIdle()
		return
	}
	m.emit(Stale{Input: m.in})
}

// answerCanceled ends a call that was not sent because nobody waits for it any more.
func (m *Machine) answerCanceled(r Request) {
	if m.life.syncing {
		m.life.dirty = true
	}
	if n := m.life.next; n != nil {
		n.missed = true
	}
	m.lane.notSent(r)
	m.emit(Answer{ID: r.ID, Result: Result{Delivered: true, Outcome: breaker.OutcomeCanceled}})
}

// removed: nothing more will be told of the ref. What is under way for its pod comes first, and a snapshot that is being taken may still contain it.
func (m *Machine) removed(r Ref) {
	l := &m.lane
	kept := m.holding() || m.takingOver()
	if n := m.life.next; n != nil && !kept {
		n.dirty = true
	}
	if m.life.syncing || kept || l.concerns(r) {
		l.queue = append(l.queue, l.item(Request{Ref: r}))
		return
	}
	l.forget(r)
}
