package breaker

import "time"

// Hung says that the call in flight, of pod or of none (""), is overdue: the
// breaker opens with cause hung if it is not open, the pod gets a strike, and a
// health check cannot close the breaker any more. The plugin stays busy until the
// call returns or Exited says that the incarnation is gone.
func (g *Guard) Hung(pod string) {
	now := g.lock()
	defer g.unlock()
	g.strikeLocked(pod, now)
	g.circuit.needsCall = true
	g.failLocked(CauseHung, now)
}

// Exited says that the process in service ended or its connection was lost, without
// having been told to, while it worked on pod or on none (""). The breaker opens with
// cause exit if it is not open, and stays open until Started, however long that
// takes; a further Exited is no transition. The pod gets a strike. The call in
// flight is forgotten: the plugin is not busy, and the call's End does not count
// again. An orderly stop is not an Exited.
func (g *Guard) Exited(pod string) {
	now := g.lock()
	defer g.unlock()
	g.strikeLocked(pod, now)
	g.disownLocked()
	g.circuit.down = true
	g.failLocked(CauseExit, now)
}

// Started says that a new incarnation is synchronized and in service. An open
// breaker, whatever opened it, becomes half-open at once; a closed one stays
// closed. A call of the incarnation before is forgotten as in Exited, so end and
// return the ticket of the new one's Synchronize before. With newVersion, another
// binary or configuration than before, all pods get a new chance and the calls
// counted so far are forgotten.
func (g *Guard) Started(newVersion bool) {
	now := g.lock()
	defer g.unlock()
	g.disownLocked()
	g.circuit.down = false
	if newVersion {
		g.pods.clear("", now)
		g.circuit.forget()
	}
	if g.circuit.state == StateOpen {
		g.halfOpenLocked(CauseStarted, now)
	}
}

// HealthFailed says that health checks failed as often in a row as their
// threshold: the breaker opens with cause health if it is not open.
func (g *Guard) HealthFailed() {
	now := g.lock()
	defer g.unlock()
	g.failLocked(CauseHealth, now)
}

// HealthOK says that a health check succeeded. It closes an open or half-open
// breaker that nothing but health checks and exits opened since it was last
// closed, unless the process is down or a probe is under way. It is not a good
// call: the open time keeps its length.
func (g *Guard) HealthOK() {
	now := g.lock()
	defer g.unlock()
	c := &g.circuit
	if c.state == StateClosed || c.needsCall || c.down || g.probe != nil {
		return
	}
	c.renew()
	g.closeLocked(CauseHealth, now)
}

// failLocked opens a circuit that is not open for a reason that is not a call's
// verdict.
func (g *Guard) failLocked(cause Cause, now time.Time) {
	if g.circuit.state == StateOpen {
		return
	}
	g.circuit.trip()
	g.openLocked(cause, now)
}

func (g *Guard) strikeLocked(pod string, now time.Time) {
	t := g.last
	if t != nil && t.call.Pod != pod {
		t = nil
	}
	g.pods.strike(pod, t, true, &g.cfg, now)
}

// disownLocked forgets the call in flight, whose incarnation is gone.
func (g *Guard) disownLocked() {
	if p := g.probe; p != nil {
		p.ended = true
		p.done(errExcluded)
		g.probe = nil
	}
	if t := g.inflight; t != nil {
		t.ended = true
		g.inflight = nil
	}
}
