package plugin

import "github.com/nri-supervisor/nri-supervisor/breaker"

// start begins the life. What people asked for before it was only noted.
func (m *Machine) start(in Start) {
	l := &m.life
	if l.started || l.want == wantStopped {
		m.violation("start")
		return
	}
	l.started = true
	if in.Disabled {
		l.want = wantDisabled
	}
	if l.want == wantDisabled {
		m.become(Disabled)
	} else {
		m.launch()
	}
}

func (m *Machine) stop() {
	m.life.want = wantStopped
	m.stopOr(Stopped)
}

func (m *Machine) disable() {
	if m.life.want == wantRunning {
		m.life.want = wantDisabled
		m.stopOr(Disabled)
	}
}

func (m *Machine) enable() {
	if m.life.want == wantDisabled {
		m.life.want = wantRunning
		m.relaunch()
	}
}

func (m *Machine) restart() {
	if m.life.want == wantRunning {
		m.relaunch()
	}
}

// stopOr drains what runs, or goes to rest at once when nothing does.
func (m *Machine) stopOr(rest Phase) {
	switch {
	case m.life.alive:
		m.drain()
	case m.life.started && rest == Stopped && len(m.life.retired) > 0: // their end is the end
	case m.life.started:
		m.become(rest)
	}
}

// relaunch starts a new incarnation as soon as the old one is gone. A person asked for it, so earlier failures are forgotten.
func (m *Machine) relaunch() {
	l := &m.life
	l.forgive()
	switch {
	case l.alive:
		m.replaceProcess()
	case l.started:
		m.launch()
	}
}

// forgive forgets the failures that make a restart wait.
func (l *lifecycle) forgive() { l.exits, l.backoff, l.looping = nil, 0, false }

func (m *Machine) launch() {
	l := &m.life
	l.last++
	l.inc = l.last
	l.alive, l.configured, l.stopping, l.killed, l.replace, l.inPlace = true, false, false, false, false, false
	l.served, l.reconfigure, l.replaceNext = false, false, false
	m.become(Starting)
	m.emit(Launch{Inc: l.inc})
}

func (m *Machine) launched(in Launched) {
	switch {
	case m.isRetired(in.Inc):
		return // its stop is under way
	case m.isNext(in.Inc):
		m.life.next.registered, m.life.next.inPlace = true, in.InPlace
		m.syncNext()
		return
	}
	if !m.current(in.Inc) {
		return
	}
	switch m.life.phase {
	case Starting:
		m.life.inPlace = in.InPlace
		m.become(Syncing)
		m.startSync()
	case Draining: // stopped while it was starting: the stop is under way
	case Stopped, Syncing, Ready, Backoff, CrashLoop, Disabled:
		m.violation("launched twice")
	}
}

func (m *Machine) connectionLost(inc Incarnation) {
	switch {
	case m.isRetired(inc):
		return
	case m.isNext(inc):
		m.failNext("its connection ended")
		return
	}
	if m.current(inc) && !m.life.stopping && m.life.phase != Starting {
		m.kill(KillConnection)
	}
}

func (m *Machine) healthFailed(inc Incarnation) {
	switch {
	case m.isRetired(inc):
		return
	case m.isNext(inc):
		m.failNext("it is not healthy")
		return
	}
	if m.current(inc) && (m.life.phase == Ready || m.life.phase == Syncing) {
		m.emit(GuardHealth{OK: false})
		m.kill(KillHealth)
	}
}

// kill ends the incarnation at once; calls that wait are told now, the one in flight when the process is gone.
func (m *Machine) kill(why KillReason) {
	m.become(Draining)
	m.refuseAll(m.downReason())
	m.dropVanished()
	if m.dropNext() {
		m.life.replace = true // with what the successor was started with
	}
	m.life.stopping, m.life.killed = true, true
	m.emit(KillProcess{Inc: m.life.inc, Why: why})
}

// drain stops the incarnation in order: no new calls, the one in flight may end, then the process is told.
func (m *Machine) drain() {
	m.become(Draining)
	m.refuseAll(m.downReason())
	m.dropVanished()
	if m.dropNext() {
		m.life.replace = true
	}
	m.stopWhenIdle()
}

func (m *Machine) stopWhenIdle() {
	l := &m.life
	if l.phase != Draining || l.stopping {
		return
	}
	if f := m.lane.inflight; f != nil && !f.answered {
		return
	}
	l.stopping = true
	m.emit(StopProcess{Inc: l.inc})
}

// replaceProcess starts the next incarnation without backoff when this one is gone.
func (m *Machine) replaceProcess() {
	m.life.replace = true
	m.drain()
}

// gone handles the end of the process, whatever led to it.
func (m *Machine) gone(inc Incarnation) {
	l := &m.life
	if m.goneBeside(inc) || !m.current(inc) {
		return
	}
	l.alive, l.syncing = false, false
	updating := m.dropNext()
	if !l.stopping || l.killed { // it was not told to
		exited := GuardExited{}
		if f := m.lane.inflight; f != nil {
			exited.PodKey = f.PodKey
		}
		m.emit(exited) // before the call's verdict: one exit is one failure
	}
	m.lost()
	m.refuseAll(m.downReason())
	m.dropVanished()
	switch {
	case l.want == wantStopped && len(l.retired) > 0: // their end is the end
	case l.want == wantStopped:
		m.become(Stopped)
	case l.want == wantDisabled:
		m.become(Disabled)
	case l.replace:
		m.launch()
	case updating: // what was warming up was to be in its place: no wait for another one like it
		m.become(Backoff)
		m.arm(Timer{Kind: Retry, Inc: l.inc}, 0)
	default:
		m.scheduleRestart()
	}
}

// scheduleRestart waits before the next incarnation. A crash loop is over when an incarnation has been ready long enough, not when a rare start failed once more.
func (m *Machine) scheduleRestart() {
	l := &m.life
	if !l.lack {
		l.exits = append(l.exits, m.now)
	}
	for len(l.exits) > 0 && m.now.Sub(l.exits[0]) > m.cfg.CrashLoopWithin {
		l.exits = l.exits[1:]
	}
	if m.cfg.CrashLoopExits > 0 && len(l.exits) >= m.cfg.CrashLoopExits {
		l.looping = true
	}
	if l.looping {
		m.become(CrashLoop)
		m.arm(Timer{Kind: Retry, Inc: l.inc}, m.cfg.CrashLoopRetry)
		return
	}
	l.backoff = min(max(2*l.backoff, m.cfg.Backoff), m.cfg.MaxBackoff)
	m.become(Backoff)
	m.arm(Timer{Kind: Retry, Inc: l.inc}, l.backoff)
}

// downReason is why calls are refused while no incarnation serves.
func (m *Machine) downReason() breaker.Reason {
	if m.life.want == wantDisabled {
		return breaker.ReasonDisabled
	}
	return breaker.ReasonNotReady
}
