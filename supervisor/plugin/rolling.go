package plugin

import (
	"slices"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// mostRounds bounds how often a successor is synchronized: a round counts only if the plugin was sent nothing since its snapshot.
const mostRounds = 10

// successor is the incarnation that warms up while the one in service goes on.
type successor struct {
	inc        Incarnation
	registered bool
	inPlace    bool
	configured bool
	syncing    bool
	sync       uint64
	session    uint64
	held       bool   // calls wait until the round is over
	holdSeq    uint64 // of the timer that ends that
	dirty      bool   // since the snapshot was taken something was told to the one in service only
	missed     bool   // … or to nobody
	rounds     int
	begun      time.Time     // the round
	first      bool          // the round is the one with Configure
	took       time.Duration // the last round; at first, the last synchronization of the one in service
	configure  time.Duration // the round with Configure
	patience   time.Duration // the least of the calls that came since the last round began; 0: none did
}

// replaceRolling starts a successor of what is in service, or will be again when it has been told the state. Where nothing is, the next incarnation is simply the new one.
func (m *Machine) replaceRolling() {
	l := &m.life
	switch {
	case l.want != wantRunning:
	case l.served && (l.phase == Ready || l.phase == Syncing):
		l.reconfigure, l.replaceNext = false, false // the successor is started with it
		if m.dropNext() {
			m.withoutNext()
		}
		m.warmUp(successor{took: l.took})
	default:
		m.relaunch()
	}
}

// warmUp launches a successor that begins with what is known from the one before.
func (m *Machine) warmUp(n successor) {
	m.life.last++
	m.life.next = &successor{inc: m.life.last, rounds: n.rounds, took: n.took, patience: n.patience}
	m.emit(Launch{Inc: m.life.last})
}

// Warming reports whether a successor warms up beside the incarnation in service.
func (m *Machine) Warming() bool { return m.life.next != nil }

// WaitsForRuntime reports whether a successor has started and can be told the state only when a runtime is there.
func (m *Machine) WaitsForRuntime() bool {
	return m.life.next != nil && m.life.next.registered && m.life.session == 0
}

// isNext reports whether inc is the successor.
func (m *Machine) isNext(inc Incarnation) bool { return m.life.next != nil && m.life.next.inc == inc }

// isRetired reports whether inc was in service, or was to be, and is only waited for.
func (m *Machine) isRetired(inc Incarnation) bool { return slices.Contains(m.life.retired, inc) }

// holding reports whether calls wait for the successor.
func (m *Machine) holding() bool { return m.life.next != nil && m.life.next.held }

// takingOver reports whether a successor is told the state while calls are refused anyway: notifications are kept for it.
func (m *Machine) takingOver() bool {
	return m.life.next != nil && m.life.next.syncing && m.refusing()
}

// refusing reports whether every call is refused until the plugin, or its successor, is synchronized.
func (m *Machine) refusing() bool { return m.life.phase == Ready && m.life.hold != breaker.ReasonNone }

// syncNext begins a round: the successor is told the state. From the second one on, and for a plugin that can be told only once, calls wait meanwhile, so that what it is told is the
// truth at the moment when it takes over; not where they could not wait for so long. None waits where all are refused: what is missed there is recorded as such, and a breaker that is open must not keep its cure out.
func (m *Machine) syncNext() {
	l, n := &m.life, m.life.next
	if n == nil || !n.registered || n.syncing || l.phase != Ready || l.session == 0 {
		return
	}
	f := m.lane.inflight
	if f != nil && f.overtime {
		n.held = false
		return // when it has returned, or its process is gone
	}
	if n.holds() && !n.held && !m.refusing() {
		m.beginHold()
	}
	busy := f != nil || m.lane.asking != nil
	quiet := n.held || m.refusing()
	if quiet && busy {
		return // what is under way ends first
	}
	l.sync++
	n.syncing, n.sync, n.session = true, l.sync, l.session
	n.begun, n.first, n.patience = m.now, !n.configured, 0
	n.dirty, n.missed = busy || !quiet && len(m.lane.queue)+len(m.lane.waiting) > 0, false
	m.emit(Synchronize{Inc: n.inc, Sync: n.sync, Configure: !n.configured})
}

// holdOver lets the calls that wait through to the incarnation in service: if there are any, the round is lost.
func (m *Machine) holdOver(t Timer) bool {
	n := m.life.next
	if n == nil || n.inc != t.Inc || !n.held || n.holdSeq != t.Seq {
		return false
	}
	n.held = false
	if n.syncing {
		m.pump()
		return true
	}
	m.nextRound()
	return true
}

// syncedNext ends a round: the successor takes over, if nothing happened meanwhile.
func (m *Machine) syncedNext(in Synced) {
	n := m.life.next
	if in.Sync != n.sync || !n.syncing {
		m.emit(Stale{Input: in})
		return
	}
	n.syncing, n.configured = false, true
	n.took = m.now.Sub(n.begun)
	if n.first {
		n.configure = n.took
	}
	if n.dirty || n.missed && !m.refusing() || m.life.phase != Ready || m.life.session != n.session || m.lane.inflight != nil || m.lane.asking != nil {
		m.nextRound()
		return
	}
	m.swap(in)
}

// nextRound tries once more. A plugin that can be told the state only once needs another incarnation for that.
func (m *Machine) nextRound() {
	n := m.life.next
	n.held = false
	n.rounds++
	switch {
	case n.rounds > mostRounds:
		m.failNext(n.noMoment())
		return
	case n.configured && !n.inPlace:
		m.dropNext()
		m.warmUp(*n)
	}
	m.pump()
	m.syncNext()
}

// swap puts the successor in service between two calls.
func (m *Machine) swap(in Synced) {
	l, n := &m.life, m.life.next
	old := l.inc
	l.inc, l.inPlace, l.configured, l.next = n.inc, n.inPlace, true, nil
	l.stopping, l.killed, l.replace, l.dirty, l.overflowed = false, false, false, false, false
	l.hold = breaker.ReasonNone // if the breaker is open by hand, the guard says so
	l.resyncSeq++
	l.syncedAt, l.took = m.now, max(n.configure, n.took)
	l.retired = append(l.retired, old)
	m.lane.beginEpoch()
	m.lane.known(in.Mask, in.Known)
	m.emit(Swapped{Old: old, New: l.inc})
	m.emit(GuardStarted{NewVersion: in.NewVersion})
	m.emit(StopProcess{Inc: old})
	m.arm(Timer{Kind: Stable, Inc: l.inc}, m.cfg.StableAfter)
	if n.missed && l.inPlace { // as after a synchronization in place
		m.armResync(ResyncInterval)
	}
	m.pump()
}

// dropNext gives the successor up, because the incarnation in service ends anyway or another successor is wanted. It reports whether there was one.
func (m *Machine) dropNext() bool {
	n := m.life.next
	if n == nil {
		return false
	}
	m.life.next = nil
	m.life.retired = append(m.life.retired, n.inc)
	m.emit(StopProcess{Inc: n.inc})
	return true
}

// withoutNext ends what calls expected of a successor that is gone.
func (m *Machine) withoutNext() {
	if m.refusing() {
		m.refuseQueue(m.life.hold)
	}
	m.pump()
}

// failNext gives up a successor that does not come into service. The incarnation in service stays.
func (m *Machine) failNext(why string) {
	n := m.life.next
	m.life.next = nil
	m.life.retired = append(m.life.retired, n.inc)
	m.emit(KillProcess{Inc: n.inc, Why: KillSync})
	m.emit(ReplaceFailed{Inc: n.inc, Why: why})
	m.withoutNext()
}

// goneBeside handles the end of an incarnation that is not in service. It reports false for the one that is.
func (m *Machine) goneBeside(inc Incarnation) bool {
	l := &m.life
	switch {
	case m.isNext(inc):
		l.next = nil
		m.emit(ReplaceFailed{Inc: inc, Why: "its process ended"})
		m.withoutNext()
	case m.isRetired(inc):
		l.retired = slices.DeleteFunc(l.retired, func(r Incarnation) bool { return r == inc })
		if l.want == wantStopped && !l.alive && len(l.retired) == 0 {
			m.become(Stopped)
		}
	default:
		return false
	}
	return true
}
