package plugin

import (
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

const (
	// ResyncInterval is the shortest time between two synchronizations that no new incarnation, no new runtime and no operator asks for (design §7, "at most once per plugin per 10 s").
	ResyncInterval = 10 * time.Second
	// SyncPatience is how long after a registration with the runtime, or after the start of a synchronization in place, events wait inside their share for a plugin that is
	// still syncing (design §2.1).
	SyncPatience = 2 * time.Second
	// QueueLimit is how many notifications may wait for one plugin. Beyond it the queue is dropped and the plugin is synchronized again. A stopped pod leaves about ten
	// notifications, so this covers a burst of a hundred pods; at most about 200 bytes each.
	QueueLimit = 1024
	// cutShare: a call that got less than its timeout by no more than one part in this many is judged as if it had got all of it. The rest is the way from the caller's
	// clock to ours; without it no call that waits for its share would ever count as a timeout.
	cutShare = 10
)

// Config is what the machine needs of a manifest. The zero value restarts without delay; use the manifest's defaults.
type Config struct {
	Backoff, MaxBackoff time.Duration // wait before the first restart, and the most it doubles to
	StableAfter         time.Duration // ready this long: failures are forgotten
	CrashLoopExits      int           // this many exits …
	CrashLoopWithin     time.Duration // … inside this time make a crash loop
	CrashLoopRetry      time.Duration // the wait in a crash loop
	Share               time.Duration // the shortest time that an event has which the runtime waits for; 0: any synchronization is short enough to be made in place
}

// want is what the operator and the supervisor ask of the plugin.
type want uint8

const (
	wantRunning want = iota
	wantDisabled
	wantStopped
)

// Machine is the state of one plugin. Use New.
type Machine struct {
	cfg  Config
	out  []Effect
	now  time.Time
	in   Input
	life lifecycle
	lane lane
}

// lifecycle is the part of the state that is about processes and synchronization.
type lifecycle struct {
	phase       Phase
	started     bool // Start has been seen
	want        want
	inc         Incarnation   // in service, or on the way there
	last        Incarnation   // the newest
	next        *successor    // nil: none warms up
	retired     []Incarnation // neither, and their end is waited for
	alive       bool          // the incarnation is being launched or runs
	inPlace     bool
	configured  bool
	served      bool   // it has been in service
	reconfigure bool   // it is to be configured again
	restartIfNo bool   // … and restarted, not replaced, when it refuses
	replaceNext bool   // it has refused: replace it when it is in service
	stopping    bool   // StopProcess or KillProcess was given for this incarnation
	killed      bool   // KillProcess
	replace     bool   // start the next incarnation without backoff
	session     uint64 // of the runtime, 0 = none
	sync        uint64 // number of the last synchronization
	syncNumber  uint64 // of the last one of the incarnation in service
	syncing     bool   // it is under way: the snapshot has been taken
	syncSession uint64
	syncBegun   time.Time
	syncedAt    time.Time
	took        time.Duration // the last synchronization with Configure, or a longer one since
	configuring bool          // the synchronization under way begins with Configure
	tellUntil   time.Time     // until then the plugin is told of what vanished
	patience    time.Time     // until then calls wait for a synchronization
	onePatience bool          // … and no longer than until the first of them waited in vain
	hold        breaker.Reason
	dirty       bool // a call was refused since the snapshot was taken
	overflowed  bool // the queue was dropped since then
	resyncSeq   uint64
	holdSeq     uint64
	exits       []time.Time
	backoff     time.Duration
	looping     bool // a crash loop that no stable incarnation has ended yet
	lack        bool // the start that has just failed did so for what the node lacks
}

// New returns a machine in phase Stopped.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg}
	m.lane.init()
	return m
}

// Reconfigure changes the rules of restarts from now on. Timers that are armed stay.
func (m *Machine) Reconfigure(cfg Config) { m.cfg = cfg }

// RuntimeKnown reports whether a runtime is connected, as far as the machine was told.
func (m *Machine) RuntimeKnown() bool { return m.life.session != 0 }

// Started reports whether Start was given.
func (m *Machine) Started() bool { return m.life.started }

// Phase returns the current phase.
func (m *Machine) Phase() Phase { return m.life.phase }

// Incarnation returns the number of the incarnation that is in service or on the way there, 0 before the first.
func (m *Machine) Incarnation() Incarnation { return m.life.inc }

// InFlight reports the call that runs in the plugin and whether its caller was answered already, if there is one.
func (m *Machine) InFlight() (ref Ref, event api.Event, answered, ok bool) {
	f := m.lane.inflight
	if f == nil {
		return Ref{}, api.Event_UNKNOWN, false, false
	}
	return f.Ref, f.Event, f.answered, true
}

// Step takes one input and returns what is to be done, in order. The slice is valid until the next Step. now must not go backwards.
func (m *Machine) Step(now time.Time, in Input) []Effect {
	m.now, m.in = now, in
	m.out = m.out[:0]
	switch in := in.(type) {
	case Call:
		m.call(in.Request)
	case Admitted:
		m.admitted(in.ID)
	case Refused:
		m.refused(in)
	case Returned:
		m.returned(in)
	case Cancel:
		m.cancel(in.ID)
	case Dropped:
		m.lane.dropped(in.Ref)
	case Removed:
		m.removed(in.Ref)
	case Timer:
		m.timer(in)
	case Start:
		m.start(in)
	case Stop:
		m.stop()
	case Disable:
		m.disable()
	case Enable:
		m.enable()
	case Restart:
		m.restart()
	case Replace:
		m.replaceRolling()
	case Reconfigure:
		m.reconfigure(in.Restart)
	case Launched:
		m.launched(in)
	case LaunchFailed:
		m.life.lack = in.Lack
		m.gone(in.Inc)
		m.life.lack = false
	case Exited:
		m.gone(in.Inc)
	case ConnectionLost:
		m.connectionLost(in.Inc)
	case RuntimeUp:
		m.runtimeUp(in.Session)
	case RuntimeDown:
		m.runtimeDown()
	case Synced:
		m.synced(in)
	case SyncFailed:
		m.syncFailed(in)
	case HealthFailed:
		m.healthFailed(in.Inc)
	case HealthOK:
		if !m.isNext(in.Inc) && !m.isRetired(in.Inc) && m.current(in.Inc) && m.life.phase == Ready {
			m.emit(GuardHealth{OK: true})
		}
	case Opened:
		m.opened(in)
	case Reset:
		m.reset()
	default:
		m.violation("undefined input")
	}
	return m.out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) violation(what string) {
	m.emit(Violation{Phase: m.life.phase, Input: m.in, What: what})
}

func (m *Machine) arm(t Timer, after time.Duration) {
	m.emit(Arm{Timer: t, After: max(after, 0)})
}

// current reports whether inc is the incarnation that counts; otherwise the input is stale.
func (m *Machine) current(inc Incarnation) bool {
	if inc == m.life.inc && m.life.alive {
		return true
	}
	m.emit(Stale{Input: m.in})
	return false
}

func (m *Machine) become(to Phase) {
	from := m.life.phase
	if from == to {
		return
	}
	if !permitted(from, to) {
		m.violation("change of phase " + from.String() + " to " + to.String())
		return
	}
	m.life.phase = to
	m.emit(PhaseChanged{From: from, To: to})
}

func (m *Machine) timer(t Timer) {
	switch t.Kind {
	case Retry:
		if t.Inc == m.life.inc && m.life.want == wantRunning && (m.life.phase == Backoff || m.life.phase == CrashLoop) {
			m.launch()
			return
		}
	case Stable:
		if t.Inc == m.life.inc && m.life.phase == Ready {
			m.life.forgive()
			return
		}
	case Resync:
		if t.Inc == m.life.inc && t.Seq == m.life.resyncSeq && m.life.phase == Ready {
			m.resyncDue()
			return
		}
	case Timeout:
		if m.timedOut(t.ID) {
			return
		}
	case Share:
		if m.shareOver(t.ID) {
			return
		}
	case Overdue:
		if m.overdue(t.ID) {
			return
		}
	case Hold:
		if m.holdOver(t) {
			return
		}
	}
	m.emit(Stale{Input: t})
}

// Flying returns the id of the call that runs in the plugin, if there is one.
func (m *Machine) Flying() (CallID, bool) {
	if m.lane.inflight == nil {
		return 0, false
	}
	return m.lane.inflight.ID, true
}

// Stopping reports whether Stop was asked for.
func (m *Machine) Stopping() bool { return m.life.want == wantStopped }
