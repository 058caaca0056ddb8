package plugin

import (
	"fmt"
	"strings"
)

// Phase is where a plugin is in its life. The zero value is Stopped, the phase of a new machine. The names are label values of nri_supervisor_plugin_state.
type Phase uint8

// The phases.
const (
	Stopped   Phase = iota // not started yet, or stopped for good
	Starting               // an incarnation is launched and has not registered yet
	Syncing                // registered; waits for the runtime, or is being configured and synchronized
	Ready                  // in service
	Draining               // the incarnation is being stopped or killed
	Backoff                // no process; the next start waits
	CrashLoop              // no process; too many exits in a short time, starts are rare
	Disabled               // switched off by an operator
)

// Phases lists every phase in the order of their declaration.
func Phases() []Phase {
	return []Phase{Stopped, Starting, Syncing, Ready, Draining, Backoff, CrashLoop, Disabled}
}

// String returns the label value of the phase.
func (p Phase) String() string {
	switch p {
	case Stopped:
		return "stopped"
	case Starting:
		return "starting"
	case Syncing:
		return "syncing"
	case Ready:
		return "ready"
	case Draining:
		return "draining"
	case Backoff:
		return "backoff"
	case CrashLoop:
		return "crash_loop"
	case Disabled:
		return "disabled"
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// edge is one permitted change of phase and what brings it about.
type edge struct {
	from, to Phase
	why      string
}

// edges is the whole table of permitted changes. become refuses any other; the diagram in ARCHITECTURE.md is generated from it.
func edges() []edge {
	return []edge{
		{Stopped, Starting, "start"},
		{Starting, Syncing, "handshake and registration done"},
		{Starting, Backoff, "start failed"},
		{Starting, CrashLoop, "start failed too often"},
		{Starting, Draining, "stop, disable or restart"},
		{Syncing, Ready, "synchronized"},
		{Syncing, Draining, "synchronization failed, hang, stop, disable, restart"},
		{Syncing, Backoff, "exit"},
		{Syncing, CrashLoop, "exited too often"},
		{Ready, Syncing, "runtime lost or new, or synchronized again before more traffic"},
		{Ready, Draining, "hang, failed health, stop, disable, restart"},
		{Ready, Backoff, "exit"},
		{Ready, CrashLoop, "exited too often"},
		{Draining, Starting, "exit, replaced at once"},
		{Draining, Backoff, "exit"},
		{Draining, CrashLoop, "exited too often"},
		{Draining, Disabled, "exit"},
		{Draining, Stopped, "exit"},
		{Backoff, Starting, "backoff over, or restart"},
		{Backoff, Disabled, "disable"},
		{Backoff, Stopped, "stop"},
		{CrashLoop, Starting, "retry interval over, or restart"},
		{CrashLoop, Disabled, "disable"},
		{CrashLoop, Stopped, "stop"},
		{Disabled, Starting, "enable"},
		{Disabled, Stopped, "stop"},
		{Stopped, Disabled, "start while disabled"},
	}
}

func permitted(from, to Phase) bool {
	for _, e := range edges() {
		if e.from == from && e.to == to {
			return true
		}
	}
	return false
}

// Diagram returns the table of phases as a Mermaid state diagram.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> stopped\n")
	for _, e := range edges() {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", e.from, e.to, e.why)
	}
	return b.String()
}
