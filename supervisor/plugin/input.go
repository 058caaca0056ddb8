package plugin

import (
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// Incarnation numbers the processes of one plugin, from 1. 0 is none.
type Incarnation uint64

// CallID names one delivery of one event to one plugin. Unique per machine. 0 is none.
type CallID uint64

// Ref names a pod sandbox (Container empty) or a container. Container ids are unique only within their pod.
type Ref struct{ Pod, Container string }

// Request describes one event to be delivered.
type Request struct {
	ID       CallID
	Event    api.Event
	Ref      Ref
	PodKey   string        // stable across retries of the pod; what quarantine counts by
	Blocking bool          // the runtime waits; false: queued
	Timeout  time.Duration // the plugin's own limit, counted from the send
	Overdue  time.Duration // a call still running this long after the send is a hang
	Share    time.Duration // blocking calls only: the time share, counted from the arrival of the call
	Deadline time.Time     // blocking calls only: the end of the time share
	Until    time.Time     // blocking calls only: the end of the share if the call waits for a successor, which costs it nothing of its own time. Before Deadline: no later than that
	Vanished bool          // not blocking: the runtime that came back does not list what the call is about. A RuntimeUp follows

	held time.Time // since when it has been waiting for a successor
}

// Input is something that happened. The set is closed.
type Input interface{ input() }

type (
	// Start begins the plugin's life.
	Start struct{ Disabled bool }
	// Stop ends it for good.
	Stop struct{}
	// Disable stops the process until Enable.
	Disable struct{}
	// Enable ends Disable.
	Enable struct{}
	// Restart replaces the incarnation at once, without backoff.
	Restart struct{}
	// Replace replaces the incarnation in service by a new one that is in service from one call to the next: it starts and is synchronized beside the old one.
	Replace struct{}
	// Reconfigure gives the incarnation in service its configuration again, and the state after it, where its contract allows that. One that refuses it, or that can be configured only once,
	// is replaced as by Replace; with Restart as by Restart.
	Reconfigure struct{ Restart bool }
	// Launched says that the incarnation did its handshake and registered. InPlace: it may be synchronized again on one connection (SDK plugins).
	Launched struct {
		Inc     Incarnation
		InPlace bool
	}
	// LaunchFailed says that nothing of the incarnation is left. Lack: the node ran out of something that it takes to start any process, which says nothing about this one, so it does not count towards a
	// crash loop.
	LaunchFailed struct {
		Inc  Incarnation
		Lack bool
	}
	// Exited says that the process is gone.
	Exited struct{ Inc Incarnation }
	// ConnectionLost says that the plugin's NRI connection ended while the process may still run.
	ConnectionLost struct{ Inc Incarnation }
	// RuntimeUp says that a runtime is connected and its state is known. Session numbers are unique and not 0.
	RuntimeUp struct{ Session uint64 }
	// RuntimeDown says that the connection to the runtime is gone.
	RuntimeDown struct{}
	// Synced says that the plugin took its snapshot.
	Synced struct {
		Inc        Incarnation
		Sync       uint64
		Mask       api.EventMask // the events the plugin subscribed to
		Known      []Ref         // what the snapshot contained
		NewVersion bool          // the first synchronization of another version of the plugin's file
	}
	// SyncFailed says that Configure or Synchronize failed or was late.
	SyncFailed struct {
		Inc     Incarnation
		Sync    uint64
		Refused bool // a plugin that was configured before refuses the new configuration, and goes on with the old one
	}
	// HealthFailed says that the failure threshold was reached.
	HealthFailed struct{ Inc Incarnation }
	// HealthOK says that a health check passed.
	HealthOK struct{ Inc Incarnation }
	// Opened says that the guard opened; it lets a probe pass after After. Manual: not before a Reset.
	Opened struct {
		After  time.Duration
		Manual bool
	}
	// Reset says that an operator closed the breaker.
	Reset struct{}
	// Call asks for one delivery.
	Call struct{ Request }
	// Admitted is the guard's yes to an Admit.
	Admitted struct{ ID CallID }
	// Refused is its no. Manual: the breaker was opened by hand and does not end by itself.
	Refused struct {
		ID     CallID
		Reason breaker.Reason
		Manual bool
	}
	// Returned says that the plugin's call came back, in time or late.
	Returned struct {
		Inc     Incarnation
		ID      CallID
		Outcome breaker.Outcome
	}
	// Cancel says that nobody waits for the call any more (the runtime went away).
	Cancel struct{ ID CallID }
	// Dropped says that the plugin's reply to the creation of Ref was not used after all (a conflict).
	Dropped struct{ Ref Ref }
	// Removed says that the runtime has removed the pod or container and that no further event will name it. Without it the machine remembers what it told to a plugin that
	// does not subscribe to removals.
	Removed struct{ Ref Ref }
	// Timer says that an armed timer fired.
	Timer struct {
		Kind TimerKind
		Inc  Incarnation
		ID   CallID
		Seq  uint64
	}
)

func (Start) input()          {}
func (Stop) input()           {}
func (Disable) input()        {}
func (Enable) input()         {}
func (Restart) input()        {}
func (Replace) input()        {}
func (Reconfigure) input()    {}
func (Launched) input()       {}
func (LaunchFailed) input()   {}
func (Exited) input()         {}
func (ConnectionLost) input() {}
func (RuntimeUp) input()      {}
func (RuntimeDown) input()    {}
func (Synced) input()         {}
func (SyncFailed) input()     {}
func (HealthFailed) input()   {}
func (HealthOK) input()       {}
func (Opened) input()         {}
func (Reset) input()          {}
func (Call) input()           {}
func (Admitted) input()       {}
func (Refused) input()        {}
func (Returned) input()       {}
func (Cancel) input()         {}
func (Dropped) input()        {}
func (Removed) input()        {}
func (Timer) input()          {}

// TimerKind says what a timer is for.
type TimerKind uint8

// The timers.
const (
	Retry   TimerKind = iota // the backoff is over
	Stable                   // the incarnation has been ready long enough: forget its failures
	Resync                   // synchronize again now
	Timeout                  // the call in flight has used its time
	Share                    // a waiting call has used its share
	Overdue                  // the call in flight is a hang
	Hold                     // calls have waited long enough for the successor
)

// String returns the timer's name for logs and golden files.
func (k TimerKind) String() string {
	switch k {
	case Retry:
		return "retry"
	case Stable:
		return "stable"
	case Resync:
		return "resync"
	case Timeout:
		return "timeout"
	case Share:
		return "share"
	case Overdue:
		return "overdue"
	case Hold:
		return "hold"
	}
	return "unknown"
}
