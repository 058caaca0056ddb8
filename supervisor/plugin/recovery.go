package plugin

import (
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// startSync begins a synchronization when a runtime is there to tell the state of. What vanished is told before, and to a plugin that takes no second Synchronize it is the last that it is told.
func (m *Machine) startSync() {
	l := &m.life
	if l.syncing || l.phase != Syncing || m.lane.inflight != nil {
		return // a call in flight ends first: deliveries are serial
	}
	if m.tellVanished() || l.session == 0 {
		return
	}
	if l.configured && !l.inPlace {
		m.replaceProcess()
		return
	}
	l.sync++
	l.syncing, l.syncNumber, l.syncSession, l.dirty, l.overflowed = true, l.sync, l.session, false, false
	l.resyncSeq++ // what an armed resynchronization was to tell, this one tells
	m.lane.beginEpoch()
	e := Synchronize{Inc: l.inc, Sync: l.sync, Configure: !l.configured || l.reconfigure, Again: l.configured && l.reconfigure}
	l.reconfigure, l.syncBegun, l.configuring = false, m.now, e.Configure
	m.emit(e)
}

func (m *Machine) synced(in Synced) {
	l := &m.life
	switch {
	case m.isRetired(in.Inc):
		return
	case m.isNext(in.Inc):
		m.syncedNext(in)
		return
	}
	if !m.current(in.Inc) {
		return
	}
	if in.Sync != l.syncNumber || !l.syncing {
		m.emit(Stale{Input: in})
		return
	}
	l.syncing, l.configured = false, true
	l.tookSync(m.now.Sub(l.syncBegun), l.configuring)
	if l.phase != Syncing {
		return
	}
	m.lane.known(in.Mask, in.Known)
	if l.syncSession != l.session || l.reconfigure { // the runtime changed meanwhile, or is gone, and its return begins another; or the configuration did
		m.startSync()
		return
	}
	l.syncedAt = m.now
	l.served, l.hold = true, breaker.ReasonNone
	m.emit(GuardStarted{NewVersion: in.NewVersion})
	m.become(Ready)
	m.arm(Timer{Kind: Stable, Inc: l.inc}, m.cfg.StableAfter)
	switch {
	case l.overflowed:
		m.holdBack(breaker.ReasonQueueOverflow)
		m.armResync(ResyncInterval)
	case l.dirty && l.inPlace:
		// A stock plugin is not replaced for it: its next start would miss as much again. What it missed is recorded and withheld like any single miss.
		m.armResync(ResyncInterval)
	}
	if l.replaceNext {
		l.replaceNext = false
		m.replaceRolling()
	}
	m.pump()
	m.syncNext()
}

func (m *Machine) syncFailed(in SyncFailed) {
	l := &m.life
	switch {
	case m.isRetired(in.Inc):
		return
	case m.isNext(in.Inc):
		m.failNext("it could not be configured or synchronized")
		return
	}
	if !m.current(in.Inc) {
		return
	}
	if in.Sync != l.syncNumber || !l.syncing {
		m.emit(Stale{Input: in})
		return
	}
	l.syncing = false
	switch {
	case l.phase != Syncing:
	case in.Refused && l.configured:
		m.refusedConfiguration()
	default:
		m.kill(KillSync)
	}
}

func (m *Machine) runtimeUp(session uint64) {
	l := &m.life
	l.session = session
	l.patience, l.onePatience, l.tellUntil = m.now.Add(SyncPatience), false, m.now.Add(VanishedLimit)
	switch l.phase {
	case Syncing:
		m.startSync()
	case Ready:
		m.keepEnds()
		if !l.inPlace && len(m.lane.gone) == 0 {
			m.replaceProcess()
			return
		}
		m.become(Syncing)
		m.startSync()
	case Stopped, Starting, Draining, Backoff, CrashLoop, Disabled:
	}
}

func (m *Machine) runtimeDown() {
	m.life.session = 0
	m.life.tellUntil = m.now.Add(VanishedLimit)
	if n := m.life.next; n != nil {
		n.held, n.dirty = false, true
	}
	if m.life.phase == Ready {
		m.become(Syncing)
	}
	if m.life.phase == Syncing {
		m.keepEnds()
	}
	m.refuseAll(m.downReason())
	m.startSync()
}

// resync tells a plugin in service the state again: in place, or by a new incarnation where the plugin's contract does not allow a second Synchronize.
func (m *Machine) resync() {
	switch {
	case m.life.inPlace:
		m.become(Syncing)
		m.startSync()
	case m.life.next != nil: // it will know the truth; if it does not get that far, the one in service is replaced after all
		m.armResync(SyncPatience)
	default:
		m.replaceProcess()
	}
}

// resyncDue is resync for what the plugin itself missed: one event at most waits for it in vain.
func (m *Machine) resyncDue() {
	m.life.patience, m.life.onePatience = m.now.Add(SyncPatience), true
	m.resync()
}

// holdBack refuses every call until the plugin is synchronized again.
func (m *Machine) holdBack(reason breaker.Reason) {
	m.life.hold = reason
	m.refuseAll(reason)
}

// opened: the plugin misses events from now on, so it is synchronized before it gets traffic again.
func (m *Machine) opened(in Opened) {
	if m.life.phase != Ready {
		return // nothing is in service; if it is still open when something is, the guard says so
	}
	m.holdBack(breaker.ReasonBreakerOpen)
	if in.Manual {
		m.life.resyncSeq++ // an armed resynchronization must not end the hold
		return
	}
	m.armResync(max(in.After, m.untilResync()))
}

// reset: an operator closed the breaker, and expects the plugin to be asked from now on. So the synchronization that must come before is made at once, whenever the last one was: people are slow
// enough to keep the distance that it otherwise has.
func (m *Machine) reset() {
	if m.life.phase == Ready && m.life.hold == breaker.ReasonBreakerOpen {
		m.armResync(0)
	}
}

func (m *Machine) untilResync() time.Duration {
	return ResyncInterval - m.now.Sub(m.life.syncedAt)
}

func (m *Machine) armResync(after time.Duration) {
	m.life.resyncSeq++
	m.arm(Timer{Kind: Resync, Inc: m.life.inc, Seq: m.life.resyncSeq}, after)
}
