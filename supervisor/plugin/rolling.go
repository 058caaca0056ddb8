package plugin

import (
	"slices"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

const (
	// HoldLimit is how long calls wait for a successor that is being synchronized; then the incarnation in service gets them after all. It is below half of the default timeout of 500 ms.
	HoldLimit = 200 * time.Millisecond
	// mostRounds bounds how often a successor is synchronized: a round counts only if the plugin was sent nothing since its snapshot.
	mostRounds = 10
)

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
		m.warmUp(0)
	default:
		m.relaunch()
	}
}

func (m *Machine) warmUp(rounds int) {
	m.life.last++
	m.life.next = &successor{inc: m.life.last, rounds: rounds}
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
// truth at the moment when it takes over. None waits where all are refused: what is missed there is recorded as such, and a breaker that is open must not keep its cure out.
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
	if (n.rounds > 0 || !n.inPlace) && !n.held && !m.refusing() {
		n.held = true
		l.holdSeq++
		n.holdSeq = l.holdSeq
		m.arm(Timer{Kind: Hold, Inc: n.inc, Seq: n.holdSeq}, HoldLimit)
	}
	busy := f != nil || m.lane.asking != nil
	quiet := n.held || m.refusing()
	if quiet && busy {
		return // what is under way ends first
	}
	l.sync++
	n.syncing, n.sync, n.session = true, l.sync, l.session
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
		m.failNext("no moment was found in which the plugin in service had nothing to do")
		return
	case n.configured && !n.inPlace:
		m.dropNext()
		m.warmUp(n.rounds)
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
	l.syncedAt = m.now
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
