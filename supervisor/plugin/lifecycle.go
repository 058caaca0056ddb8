package plugin

import (
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// operator handles what people and the supervisor itself ask for.
func (m *Machine) operator(in Input) {
	l := &m.life
	switch in := in.(type) {
	case Start:
		switch {
		case l.phase != Stopped || l.want == wantStopped:
			m.violation("start")
		case in.Disabled:
			l.want = wantDisabled
			m.become(Disabled)
		default:
			m.launch()
		}
	case Stop:
		l.want = wantStopped
		m.stopOr(Stopped)
	case Disable:
		if l.want == wantRunning {
			l.want = wantDisabled
			m.stopOr(Disabled)
		}
	case Enable:
		if l.want == wantDisabled {
			l.want = wantRunning
			l.replace = true
			if l.phase == Disabled {
				m.launch()
			}
		}
	case Restart:
		switch {
		case l.want != wantRunning:
		case l.alive:
			l.replace = true
			m.drain()
		default:
			m.launch()
		}
	}
}

// stopOr drains what runs, or goes to rest at once when nothing does.
func (m *Machine) stopOr(rest Phase) {
	if m.life.alive {
		m.drain()
		return
	}
	m.refuseAll(m.downReason())
	m.become(rest)
}

func (m *Machine) launch() {
	l := &m.life
	l.inc++
	l.alive, l.configured, l.stopping, l.replace, l.inPlace, l.syncing = true, false, false, false, false, false
	l.hold, l.dirty = breaker.ReasonNone, false
	m.become(Starting)
	m.emit(Launch{Inc: l.inc})
}

func (m *Machine) launched(in Launched) {
	if !m.current(in.Inc) {
		return
	}
	if m.life.phase == Draining { // stopped while it was starting: the stop is under way
		return
	}
	m.life.inPlace = in.InPlace
	m.become(Syncing)
	m.startSync()
}

// startSync begins a synchronization when a runtime is there to tell the state of.
func (m *Machine) startSync() {
	l := &m.life
	if l.session == 0 || l.syncing || l.phase != Syncing || m.lane.inflight != nil {
		return // a call in flight ends first: deliveries are serial
	}
	l.sync++
	l.syncing, l.syncSession, l.dirty = true, l.session, false
	m.lane.beginEpoch()
	m.emit(Synchronize{Inc: l.inc, Sync: l.sync, Configure: !l.configured})
}

func (m *Machine) synced(in Synced) {
	l := &m.life
	if !m.current(in.Inc) {
		return
	}
	if in.Sync != l.sync || !l.syncing {
		m.emit(Stale{Input: in})
		return
	}
	l.syncing, l.configured = false, true
	if l.phase != Syncing { // draining
		return
	}
	if l.session == 0 {
		return
	}
	if l.syncSession != l.session { // the runtime changed meanwhile
		if l.inPlace {
			m.startSync()
		} else {
			m.replaceProcess()
		}
		return
	}
	m.lane.known(in.Mask, in.Known)
	l.syncedAt = m.now
	l.hold = breaker.ReasonNone
	m.emit(GuardStarted{NewVersion: in.NewVersion})
	m.become(Ready)
	m.arm(Timer{Kind: Stable, Inc: l.inc}, m.cfg.StableAfter)
	if l.dirty && l.inPlace {
		m.armResync(ResyncInterval)
	}
	m.pump()
}

func (m *Machine) syncFailed(in SyncFailed) {
	l := &m.life
	if !m.current(in.Inc) {
		return
	}
	if in.Sync != l.sync || !l.syncing {
		m.emit(Stale{Input: in})
		return
	}
	l.syncing = false
	if l.phase == Syncing {
		m.kill(KillSync)
	}
}

func (m *Machine) connectionLost(inc Incarnation) {
	if m.current(inc) && !m.life.stopping && m.life.phase != Starting {
		m.kill(KillConnection)
	}
}

func (m *Machine) healthFailed(inc Incarnation) {
	if m.current(inc) && !m.life.stopping && (m.life.phase == Ready || m.life.phase == Syncing) {
		m.emit(GuardHealth{OK: false})
		m.kill(KillHealth)
	}
}

// kill ends the incarnation at once; calls that wait are told now, the one in flight when the process is gone.
func (m *Machine) kill(why KillReason) {
	m.become(Draining)
	m.refuseAll(breaker.ReasonNotReady)
	m.life.stopping = true
	m.emit(KillProcess{Inc: m.life.inc, Why: why})
}

// drain stops the incarnation in order: no new calls, the one in flight may end, then the process is told.
func (m *Machine) drain() {
	if m.life.stopping {
		return
	}
	m.become(Draining)
	m.refuseAll(m.downReason())
	m.stopWhenIdle()
}

func (m *Machine) stopWhenIdle() {
	l := &m.life
	if l.phase != Draining || l.stopping {
		return
	}
	if f := m.lane.inflight; f != nil && !f.abandoned {
		return
	}
	l.stopping = true
	m.emit(StopProcess{Inc: l.inc})
}

func (m *Machine) replaceProcess() {
	m.life.replace = true
	m.drain()
}

// gone handles the end of the process, whatever led to it.
func (m *Machine) gone(inc Incarnation) {
	l := &m.life
	if !m.current(inc) {
		return
	}
	l.alive = false
	asked := l.phase == Draining && (l.want != wantRunning || l.replace)
	pod := m.lane.lost(m)
	if !asked {
		m.emit(GuardExited{PodKey: pod})
	}
	m.refuseAll(m.downReason())
	switch {
	case l.want == wantStopped:
		m.become(Draining)
		m.become(Stopped)
	case l.want == wantDisabled:
		m.become(Draining)
		m.become(Disabled)
	case asked:
		m.launch()
	default:
		m.scheduleRestart()
	}
}

func (m *Machine) scheduleRestart() {
	l := &m.life
	l.exits = append(l.exits, m.now)
	for len(l.exits) > 0 && m.now.Sub(l.exits[0]) > m.cfg.CrashLoopWithin {
		l.exits = l.exits[1:]
	}
	if m.cfg.CrashLoopExits > 0 && len(l.exits) >= m.cfg.CrashLoopExits {
		m.become(CrashLoop)
		m.arm(Timer{Kind: Retry, Inc: l.inc}, m.cfg.CrashLoopRetry)
		return
	}
	l.backoff = min(max(2*l.backoff, m.cfg.Backoff), m.cfg.MaxBackoff)
	m.become(Backoff)
	m.arm(Timer{Kind: Retry, Inc: l.inc}, l.backoff)
}

func (m *Machine) runtimeUp(session uint64) {
	l := &m.life
	l.session = session
	l.patience = m.now.Add(SyncPatience)
	switch l.phase {
	case Syncing:
		if l.configured && !l.inPlace {
			m.replaceProcess()
			return
		}
		m.startSync()
	case Ready:
		m.resync()
	case Stopped, Starting, Draining, Backoff, CrashLoop, Disabled:
	}
}

func (m *Machine) runtimeDown() {
	m.life.session = 0
	if m.life.phase == Ready {
		m.become(Syncing)
	}
	m.refuseAll(breaker.ReasonNotReady)
}

// resync tells a plugin in service the state again: in place, or by a new incarnation where the plugin's contract does not allow a second Synchronize.
func (m *Machine) resync() {
	l := &m.life
	l.resyncSeq++
	if !l.inPlace {
		m.replaceProcess()
		return
	}
	l.patience = m.now.Add(SyncPatience)
	m.become(Syncing)
	m.startSync()
}

// opened: the plugin misses events from now on, so it is synchronized before it gets traffic again.
func (m *Machine) opened(in Opened) {
	if m.life.phase != Ready {
		return
	}
	m.life.hold = breaker.ReasonBreakerOpen
	if in.Manual {
		m.life.resyncSeq++ // an armed resynchronization must not end the hold
		return
	}
	m.armResync(max(in.After, m.untilResync()))
}

func (m *Machine) untilResync() time.Duration {
	return ResyncInterval - m.now.Sub(m.life.syncedAt)
}

func (m *Machine) armResync(after time.Duration) {
	m.life.resyncSeq++
	m.arm(Timer{Kind: Resync, Inc: m.life.inc, Seq: m.life.resyncSeq}, after)
}

// downReason is why calls are refused while no incarnation serves.
func (m *Machine) downReason() breaker.Reason {
	if m.life.want == wantDisabled {
		return breaker.ReasonDisabled
	}
	return breaker.ReasonNotReady
}
