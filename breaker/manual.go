package breaker

// Trip opens the breaker by hand: forced_open until Reset, whatever happens.
// Calls in flight go on. A second Trip does nothing.
func (g *Guard) Trip() {
	now := g.lock()
	defer g.unlock()
	g.forced = true
	g.showLocked(CauseManual, now)
}

// Reset ends Trip and closes the automatic breaker too, even when the process is
// down. Failures counted so far and the growth of the open time are forgotten;
// quarantines, the busy flag, the lane share and Disable are not.
func (g *Guard) Reset() {
	now := g.lock()
	defer g.unlock()
	g.forced = false
	g.circuit.renew()
	g.circuit.growth = growth{}
	g.circuit.goodCalls = 0
	g.closeLocked(CauseManual, now)
}

// Disable refuses every call until Enable. A second Disable does nothing.
func (g *Guard) Disable() {
	now := g.lock()
	defer g.unlock()
	g.off = true
	g.showLocked(CauseManual, now)
}

// Enable ends Disable. What shows then is what Trip or the automatic breaker says.
func (g *Guard) Enable() {
	now := g.lock()
	defer g.unlock()
	g.off = false
	g.showLocked(CauseManual, now)
}

// Unquarantine forgets all that pod did, or what every pod did when pod is "", and
// returns how many quarantines it ended.
func (g *Guard) Unquarantine(pod string) int {
	now := g.lock()
	defer g.unlock()
	return g.pods.clear(pod, now)
}

// Reconfigure changes the rules from now on. States, manual ones too, calls in
// flight, quarantines that run and totals stay. An open time that is longer than
// the new MaxOpenDuration is cut; a new RatioWindow starts empty.
func (g *Guard) Reconfigure(cfg Config) {
	now := g.lock()
	defer g.unlock()
	old := g.cfg
	g.cfg = cfg.normalized() // the circuit reads it through its pointer
	if g.cfg.RatioWindow != old.RatioWindow {
		g.circuit.calls = newWindow(g.cfg.RatioWindow, now)
	}
	if g.circuit.state == StateOpen {
		if limit := now.Add(g.cfg.MaxOpenDuration); g.circuit.openUntil.After(limit) {
			g.circuit.openUntil = limit
		}
	}
	g.lane.reconfigure(&old, &g.cfg, now)
}

// Quarantine puts a pod back under quarantine until the given time, because it was before a restart. One that is over already is not begun again.
func (g *Guard) Quarantine(p QuarantinedPod) {
	now := g.lock()
	defer g.unlock()
	if p.Pod == "" || !now.Before(p.Until) {
		return
	}
	until := now.Add(g.cfg.QuarantineDuration) // what the manifest says today is the most
	if p.Until.Before(until) {
		until = now.Add(p.Until.Sub(now)) // from here on by the time that passes: somebody may set the clock
	}
	e := g.pods.findOrAdd(p.Pod, &g.cfg, now)
	e.hard, e.until, e.struck = max(e.hard, p.Strikes), until, now
}
