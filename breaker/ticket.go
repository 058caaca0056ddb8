package breaker

import "time"

// Call describes a call that asks to be admitted. The zero value is a call that
// is tied to no pod and that an event waits for.
type Call struct {
	// Pod is a key of the pod that stays the same when the kubelet tries the
	// pod again, so its uid or namespace/name and not its sandbox's id. "" =
	// tied to no pod, for example Synchronize.
	Pod string
	// Work names what the call does for the pod, for example
	// "CreateContainer/main". A success forgives a pod's errors only at the same
	// Work. Give it, because a pod that fails at CreateContainer has succeeded
	// at RunPodSandbox before, each time it is tried.
	Work string
	// Queued marks a call that no event waits for: the lane share does not apply
	// to it.
	Queued bool
}

// Ticket is one admitted call. It is made by Admit only. All methods are safe for
// concurrent use.
type Ticket struct {
	guard *Guard
	call  Call
	probe bool
	era   uint64
	done  func(error)

	// The rest is guarded by guard.mu.
	start    time.Time // admitted, or sent
	admitted time.Time
	back     time.Time // returned
	struck   struck
	sent     bool
	ended    bool
	returned bool
}

// struck is what strike of its pod a call has caused.
type struck uint8

const (
	struckNot struck = iota
	struckSoft
	struckHard
)

// Admit is AdmitCall for a call of pod that an event waits for.
func (g *Guard) Admit(pod string) (*Ticket, Reason) { return g.AdmitCall(Call{Pod: pod}) }

// AdmitCall admits a call, or says why not, in the order of the package comment.
// The ticket is nil exactly when the reason is not ReasonNone. At most one ticket
// at a time is admitted and not returned.
func (g *Guard) AdmitCall(c Call) (*Ticket, Reason) {
	now := g.lock()
	defer g.unlock()
	if r := g.refusalLocked(c, now); r != ReasonNone {
		return nil, r
	}
	if g.circuit.state == StateOpen {
		g.halfOpenLocked(CauseTimer, now)
	}
	done := g.circuit.admit()
	if done == nil {
		return nil, ReasonHalfOpenFull
	}
	t := &Ticket{
		guard:    g,
		call:     c,
		probe:    g.circuit.state == StateHalfOpen,
		era:      g.circuit.era,
		done:     done,
		start:    now,
		admitted: now,
	}
	g.inflight, g.last = t, t
	if t.probe {
		g.probe = t
	}
	return t, ReasonNone
}

func (g *Guard) refusalLocked(c Call, now time.Time) Reason {
	switch {
	case g.off:
		return ReasonDisabled
	case g.forced:
		return ReasonBreakerOpen
	}
	if p := g.probe; p != nil && now.Sub(p.admitted) >= g.cfg.ProbeDeadline {
		p.ended = true
		p.done(errBad)
		g.openLocked(CauseProbeExpired, now)
	}
	switch {
	case g.circuit.holds(now):
		return ReasonBreakerOpen
	case g.probe != nil:
		return ReasonHalfOpenFull
	case g.inflight != nil:
		return ReasonBusy
	case g.pods.quarantined(c.Pod, &g.cfg, now):
		return ReasonQuarantined
	case !c.Queued && (g.lane.empty(&g.cfg, now) || g.shared.Load().empty(now)):
		return ReasonLaneShare
	}
	return ReasonNone
}

// Call returns what was admitted.
func (t *Ticket) Call() Call { return t.call }

// Probe reports whether this call is the probe of a half-open breaker.
func (t *Ticket) Probe() bool { return t.probe }

// Sent says that the request goes out now: its duration is measured from here,
// and without Sent from Admit.
func (t *Ticket) Sent() {
	now := t.guard.lock()
	defer t.guard.unlock()
	if !t.sent {
		t.sent, t.start = true, now
	}
}

// End gives the verdict, by the table of [Outcome.Verdict]. The duration that
// decides whether the call was slow ends here, or at Returned if that was
// earlier. An error of a pod whose error counted before, with no success at the
// same work since, is excluded: one pod cannot open the breaker alone. Only the
// first End counts, and none after Exited or Started.
func (t *Ticket) End(o Outcome) {
	g := t.guard
	now := g.lock()
	defer g.unlock()
	if t.ended {
		return
	}
	t.ended = true
	if g.probe == t {
		g.probe = nil
	}
	current := t.era == g.circuit.era
	v := g.recordPodLocked(t, o, current, now)
	if !current {
		return
	}
	end := now
	if t.returned {
		end = t.back
	}
	slow := v != VerdictExcluded && g.cfg.SlowCall > 0 && end.Sub(t.start) >= g.cfg.SlowCall
	state, cause := g.circuit.report(t.done, kindOf(t.call.Work), v, slow, now)
	if state == g.circuit.state {
		return
	}
	if state == StateOpen {
		g.openLocked(cause, now)
	} else {
		g.closeLocked(cause, now)
	}
}

// recordPodLocked keeps the pod's record and returns what the call says about the
// plugin. Unavailable is no strike: Exited tells which pod crashed the plugin.
func (g *Guard) recordPodLocked(t *Ticket, o Outcome, current bool, now time.Time) Verdict {
	v := o.Verdict()
	pod := t.call.Pod
	switch {
	case v == VerdictGood:
		g.pods.forgive(pod, t.call.Work, &g.cfg, now)
	case v == VerdictBad && o != OutcomeUnavailable:
		g.pods.strike(pod, t, false, &g.cfg, now)
		if o == OutcomeError && current && !g.pods.firstError(pod, &g.cfg, now) {
			return VerdictExcluded
		}
	}
	return v
}

// Returned says that the call came back from the plugin, late or not, or never
// went out: the plugin is not busy with it any more.
func (t *Ticket) Returned() {
	g := t.guard
	now := g.lock()
	defer g.unlock()
	if t.returned {
		return
	}
	t.returned, t.back = true, now
	if g.inflight == t {
		g.inflight = nil
	}
}
