package plugin

import (
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// Effect is something to be done. The set is closed.
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Launch starts a process and waits for its registration; it ends in Launched or LaunchFailed.
	Launch struct{ Inc Incarnation }
	// Synchronize configures the plugin if asked to, and gives it its snapshot; it ends in Synced or SyncFailed.
	Synchronize struct {
		Inc       Incarnation
		Sync      uint64
		Configure bool
		Again     bool // with Configure: it has been configured before
	}
	// StopProcess ends the incarnation in order (or cancels its launch); it ends in Exited or LaunchFailed.
	StopProcess struct{ Inc Incarnation }
	// KillProcess ends it at once.
	KillProcess struct {
		Inc Incarnation
		Why KillReason
	}
	// Admit asks the guard.
	Admit struct {
		ID     CallID
		PodKey string
	}
	// Send hands the call to the incarnation's worker.
	Send struct {
		Inc     Incarnation
		ID      CallID
		Timeout time.Duration // what is left for the call
	}
	// Answer ends a call for whoever waits for it.
	Answer struct {
		ID     CallID
		Result Result
	}
	// Arm starts a timer.
	Arm struct {
		Timer Timer
		After time.Duration
	}
	// Verdict gives the guard the outcome of the admitted call.
	Verdict struct {
		ID      CallID
		Outcome breaker.Outcome
	}
	// Back tells the guard that the admitted call is no longer running in the plugin. Late: its verdict was given before.
	Back struct {
		ID   CallID
		Late bool
	}
	// GuardHung says that the call in flight is a hang, and of which pod.
	GuardHung struct{ PodKey string }
	// GuardExited says that the process is gone although it was not told to end in order, with the pod whose call was in flight.
	GuardExited struct{ PodKey string }
	// GuardStarted says that an incarnation is synchronized.
	GuardStarted struct{ NewVersion bool }
	// GuardHealth passes a health verdict on.
	GuardHealth struct{ OK bool }
	// PhaseChanged reports a change of phase.
	PhaseChanged struct{ From, To Phase }
	// Swapped says that New is in service from now on. Old, which has nothing to do, is to be stopped.
	Swapped struct{ Old, New Incarnation }
	// ReplaceFailed says that a successor did not come into service. What is in service stays.
	ReplaceFailed struct {
		Inc Incarnation
		Why string
	}
	// Stale reports an input of an older incarnation, or a timer that has nothing to do any more.
	Stale struct{ Input Input }
	// Violation reports a defect: an input that this phase does not define, or a change of phase that the table does not permit.
	Violation struct {
		Phase Phase
		Input Input
		What  string
	}
)

func (Launch) effect()        {}
func (Synchronize) effect()   {}
func (StopProcess) effect()   {}
func (KillProcess) effect()   {}
func (Admit) effect()         {}
func (Send) effect()          {}
func (Answer) effect()        {}
func (Arm) effect()           {}
func (Verdict) effect()       {}
func (Back) effect()          {}
func (GuardHung) effect()     {}
func (GuardExited) effect()   {}
func (GuardStarted) effect()  {}
func (GuardHealth) effect()   {}
func (PhaseChanged) effect()  {}
func (Swapped) effect()       {}
func (ReplaceFailed) effect() {}
func (Stale) effect()         {}
func (Violation) effect()     {}

// KillReason says why a process was killed.
type KillReason string

// The reasons.
const (
	KillHung       KillReason = "hung"
	KillHealth     KillReason = "health"
	KillSync       KillReason = "sync"
	KillConnection KillReason = "connection"
)

// Result is what became of a call. The zero value is Withheld: nothing was sent because the plugin does not know the container, and that was recorded when it missed it.
type Result struct {
	Delivered bool            // the request was sent, or canceled before; Outcome says what came of it
	Outcome   breaker.Outcome // only with Delivered
	Refused   breaker.Reason  // not sent, why; None with Delivered or withheld
	Held      time.Duration   // what it waited of its time for a successor, which is not the plugin's doing
}

// Withheld reports whether nothing was sent on purpose.
func (r Result) Withheld() bool { return !r.Delivered && r.Refused == breaker.ReasonNone }
