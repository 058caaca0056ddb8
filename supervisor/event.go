package supervisor

import (
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// Event is something worth a log line. The set is closed.
//
//sumtype:decl
type Event interface{ event() }

// Sink takes events. It is called on one goroutine, in order; when it is slow, events are dropped and counted in [Dropped].
type Sink func(Event)

type (
	// Started says that the supervisor runs.
	Started struct {
		Version string
		Plugins int
		Invalid int
	}
	// Stopping says that the supervisor ends.
	Stopping struct{}
	// ConfigProblem is a mistake in a manifest.
	ConfigProblem struct{ Problem policy.Problem }
	// Reloaded says what a reload of the configuration came to.
	Reloaded struct {
		Cause  string
		Report ReloadReport
	}
	// RuntimeConnected says that the supervisor is registered.
	RuntimeConnected struct {
		Runtime, Version, NRIVersion string
		RequestTimeout               time.Duration
		Pods, Containers             int
		Events                       string // subscribed to; older runtimes know fewer
	}
	// RuntimeUnavailable says that connecting failed; it is told once per different reason.
	RuntimeUnavailable struct {
		Socket string
		Reason string // taken, missing, permission, refused, rejected, timeout, lost
		Err    string
		Hint   string
	}
	// RuntimeLost says that the connection ended.
	RuntimeLost struct{ Reason string }
	// PhaseChanged is a change in a plugin's life.
	PhaseChanged struct {
		Plugin, Team string
		From, To     string
		PID          int
	}
	// PluginStarted says that an incarnation is registered.
	PluginStarted struct {
		Plugin, Team string
		PID          int
		Identity     Identity
		Took         time.Duration
	}
	// PluginStartFailed says that an incarnation did not come up.
	PluginStartFailed struct {
		Plugin, Team string
		Err          string
	}
	// PluginStartGivenUp says that an incarnation that was still coming up was ended by us: at a stop, a restart or a change of its manifest.
	PluginStartGivenUp struct{ Plugin, Team, Err string }
	// RegisteredOtherwise says that a plugin registered with another name or index than its manifest has. The manifest's count; empty is what agrees.
	RegisteredOtherwise struct{ Plugin, Team, Name, Index string }
	// AttachRefused says that a connection to the socket of a plugin that attaches was turned away.
	AttachRefused struct {
		Plugin, Team string
		Refused
	}
	// PluginReplaced says that a new incarnation took over from the one in service; the numbers are their processes'.
	PluginReplaced struct {
		Plugin, Team string
		From, To     int
	}
	// PluginExited says how an incarnation ended.
	PluginExited struct {
		Plugin, Team string
		PID          int
		Exit         Exit
	}
	// ChildrenOutOfMemory says that the kernel killed processes of a plugin for want of memory, and that the plugin itself, whose process PID is (0: not known yet), went on.
	ChildrenOutOfMemory struct {
		Plugin, Team string
		PID, Killed  int
	}
	// PluginSynced says that a plugin was told the state.
	PluginSynced struct {
		Plugin, Team     string
		Pods, Containers int
		Took             time.Duration
	}
	// PluginSyncFailed says that it could not be told.
	PluginSyncFailed struct{ Plugin, Team, Err string }
	// BreakerChanged is a transition of a breaker.
	BreakerChanged struct {
		Plugin, Team string
		breaker.Transition
	}
	// Fallback says that a plugin's work is missing from an event.
	Fallback struct {
		Plugin, Team   string
		NRIEvent       string
		Namespace, Pod string
		Container      string // its name
		ContainerID    string
		Action         string // ignore or fail
		Reason         string
		Detail         string
		Took           time.Duration
	}
	// Rejection says that a plugin refused a container on purpose.
	Rejection struct {
		Plugin, Team, Namespace, Pod, Container, Reason string
		Honoured                                        bool
	}
	// Forbidden says that a reply was dropped because it does what the plugin was not granted.
	Forbidden struct {
		Plugin, Team, Namespace, Pod, Container string
		Denials                                 []policy.Denial
	}
	// Unmet says that a container was refused because a required plugin has no part in its creation, or because an annotation about required plugins is wrong.
	Unmet struct {
		Plugin, Team, Namespace, Pod, Container string
		By, Why                                 string
	}
	// Conflict says that a reply was dropped because an earlier plugin had set the same.
	Conflict struct {
		Plugin, Team, Namespace, Pod, Container string
		With, WithTeams                         []string
		Fields                                  []string
	}
	// LateReply says that an abandoned call came back.
	LateReply struct {
		Plugin, Team string
		After        time.Duration
	}
	// UpdateDenied says that an update of a container was left out, because it is outside the plugin's scope or was not granted.
	UpdateDenied struct {
		Plugin, Team string
		NRIEvent     string // to which it was the reply; UpdateContainers when it was none
		ContainerID  string // empty in a sum over several
		Why          string
		Fields       []journal.Field // that it would have changed
		Count        int             // how many updates it stands for
		More         bool            // a sum of what came faster than lines are written, between From and To
		From, To     time.Time
	}
	// UpdateFailed says that the runtime did not take an unsolicited update.
	UpdateFailed struct {
		Plugin, Team string
		ContainerID  string
		Err          string
	}
	// Missed says that a container was found that runs without a plugin's work.
	Missed struct {
		Plugin, Team, Namespace, Pod, Container, ContainerID, Reason string
	}
	// Output is a line that a plugin wrote.
	Output struct {
		Plugin, Team string
		PID          int
		Line         OutputLine
	}
	// ManualAction is what an operator did.
	ManualAction struct {
		Plugin, Action string
		UID            uint32
		For            time.Duration
	}
	// BypassGoesOn is the start of a supervisor that an operator had bypassed before: until then no plugin is called.
	BypassGoesOn struct{ Until time.Time }
	// StateProblem says that the state directory could not be read or written.
	StateProblem struct{ Err string }
	// AuditProblem says that the audit file is not written, and how many lines are lost since the start; without an error it is written again.
	AuditProblem struct {
		Err  string
		Lost uint64
	}
	// Defect is a bug of ours that was noticed and survived.
	Defect struct{ Where, What string }
	// Dropped says that events were lost because the sink was slow.
	Dropped struct{ Count uint64 }
)

func (Started) event()             {}
func (Stopping) event()            {}
func (ConfigProblem) event()       {}
func (Reloaded) event()            {}
func (RuntimeConnected) event()    {}
func (RuntimeUnavailable) event()  {}
func (RuntimeLost) event()         {}
func (PhaseChanged) event()        {}
func (PluginStarted) event()       {}
func (PluginStartFailed) event()   {}
func (PluginStartGivenUp) event()  {}
func (RegisteredOtherwise) event() {}
func (AttachRefused) event()       {}
func (PluginReplaced) event()      {}
func (PluginExited) event()        {}
func (ChildrenOutOfMemory) event() {}
func (PluginSynced) event()        {}
func (PluginSyncFailed) event()    {}
func (BreakerChanged) event()      {}
func (Fallback) event()            {}
func (Rejection) event()           {}
func (Forbidden) event()           {}
func (Unmet) event()               {}
func (Conflict) event()            {}
func (LateReply) event()           {}
func (UpdateDenied) event()        {}
func (UpdateFailed) event()        {}
func (Missed) event()              {}
func (Output) event()              {}
func (ManualAction) event()        {}
func (BypassGoesOn) event()        {}
func (StateProblem) event()        {}
func (AuditProblem) event()        {}
func (Defect) event()              {}
func (Dropped) event()             {}

// eventQueue is how many events may wait for a slow sink: a node that starts a few hundred pods at once under a fault stays below it.
const eventQueue = 4096

// emitter hands events to the sink without ever blocking whoever emits.
type emitter struct {
	ch     chan Event
	slow   chan Event // of who waits, and comes after those in ch
	lost   lostCounter
	onLost func() // counts in the metrics
}

func newEmitter(onLost func()) *emitter {
	return &emitter{ch: make(chan Event, eventQueue), slow: make(chan Event), onLost: onLost}
}

// emitBetween is emit for one of many events: it waits until the sink has nothing else to do, so that they crowd nobody else's out. When until is done it does not wait any more.
func (e *emitter) emitBetween(until <-chan struct{}, ev Event) {
	select {
	case e.slow <- ev:
	case <-until:
		e.emit(ev)
	}
}

func (e *emitter) emit(ev Event) {
	select {
	case e.ch <- ev:
	default:
		e.lost.add()
		e.onLost()
	}
}

// run hands events to the sink until stop is closed, then what is left, and returns.
func (e *emitter) run(sink Sink, stop <-chan struct{}) {
	deliver := func(ev Event) {
		if n := e.lost.take(); n > 0 {
			sink(Dropped{Count: n})
		}
		sink(ev)
	}
	for {
		select {
		case ev := <-e.ch:
			deliver(ev)
			continue
		default:
		}
		select {
		case ev := <-e.ch:
			deliver(ev)
		case ev := <-e.slow:
			deliver(ev)
		case <-stop:
			for {
				select {
				case ev := <-e.ch:
					deliver(ev)
				default:
					return
				}
			}
		}
	}
}
