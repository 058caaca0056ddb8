package isolation

import (
	"fmt"
	"syscall"
	"time"
)

// Reason says why an incarnation ended. It is a closed set.
type Reason string

const (
	// ReasonClean is an exit with code 0 that nobody asked for.
	ReasonClean Reason = "clean"
	// ReasonExitCode is an exit with another code.
	ReasonExitCode Reason = "exit_code"
	// ReasonSignal is the end by a signal that did not come from here.
	ReasonSignal Reason = "signal"
	// ReasonOOM is the end by the kernel's out-of-memory killer. It needs a cgroup with the memory controller to be told from ReasonSignal.
	ReasonOOM Reason = "oom"
	// ReasonHung is a kill because a call did not return.
	ReasonHung Reason = "hung"
	// ReasonHealth is a kill because health checks failed.
	ReasonHealth Reason = "health"
	// ReasonStartFailed is an incarnation that never came into service.
	ReasonStartFailed Reason = "start_failed"
	// ReasonStopped is an end that Stop asked for, whatever the status.
	ReasonStopped Reason = "stopped"
	// ReasonDisconnected is the end of an attached plugin's connection that nobody here asked for.
	ReasonDisconnected Reason = "disconnected"
)

// Reasons lists the closed set.
func Reasons() []Reason {
	return []Reason{ReasonClean, ReasonExitCode, ReasonSignal, ReasonOOM, ReasonHung, ReasonHealth, ReasonStartFailed, ReasonStopped, ReasonDisconnected}
}

// String returns the reason as it appears in metrics and logs.
func (r Reason) String() string { return string(r) }

// Exit is how an incarnation ended.
type Exit struct {
	Reason Reason
	// Code is the exit code, or -1 if the process ended by a signal or did not run.
	Code int
	// Signal is the signal that ended the process, or 0.
	Signal syscall.Signal
	// LastOutput holds the last lines of both streams in the order of their arrival: at most 20 lines of 512 bytes, and
	// before them the line that began the crash of a Go program, if that is not among them.
	LastOutput []string
	// Started and Ended are when the process was executed and reaped; zero if it was not. Uptime is their difference.
	Started, Ended time.Time
	Uptime         time.Duration
	// Left is how many processes that had left its group the plugin left behind in its cgroup, maxLeft at most; they are killed. 0 without a cgroup.
	Left int
	// Alive is set only if the process survived SIGKILL within its bound (uninterruptible sleep in the kernel). Instance.Done is
	// then still open.
	Alive bool
	// Attached is set if there was no process of ours but only a connection.
	Attached bool
}

// String describes the exit in a few words, like "exit code 2 after 1.5s (exit_code)".
func (e Exit) String() string {
	up := e.Uptime.Round(time.Millisecond)
	switch {
	case e.Alive:
		return fmt.Sprintf("still running after SIGKILL (%s)", e.Reason)
	case e.Attached:
		return fmt.Sprintf("connection ended after %s (%s)", up, e.Reason)
	case e.Started.IsZero():
		return fmt.Sprintf("not executed (%s)", e.Reason)
	case e.Signal != 0:
		return fmt.Sprintf("signal %q after %s (%s)", e.Signal.String(), up, e.Reason)
	default:
		return fmt.Sprintf("exit code %d after %s (%s)", e.Code, up, e.Reason)
	}
}

// Phase is the part of Start that failed. It is a closed set.
type Phase string

const (
	// PhaseSpec is a Spec that cannot be started.
	PhaseSpec Phase = "spec"
	// PhaseBinary is an executable that cannot be read or that is not the pinned one.
	PhaseBinary Phase = "binary"
	// PhaseRunDir is the private directory.
	PhaseRunDir Phase = "run_dir"
	// PhaseSandbox is confining the process before the plugin is executed in it.
	PhaseSandbox Phase = "sandbox"
	// PhaseExec is executing the process.
	PhaseExec Phase = "exec"
	// PhaseHandshake is go-plugin's handshake.
	PhaseHandshake Phase = "handshake"
	// PhaseControl is the first call of the control service.
	PhaseControl Phase = "control"
	// PhaseRegister is the wait for RegisterPlugin on the NRI connection.
	PhaseRegister Phase = "register"
)

// String returns the phase as it appears in logs.
func (p Phase) String() string { return string(p) }

// StartError is the error of Start. errors.Is(err, context.DeadlineExceeded) holds if the context's deadline ended the start.
type StartError struct {
	Phase Phase
	// Exit is how the process ended, with Reason ReasonStartFailed; Exit.Started is zero if it was never executed. A
	// process that was killed because the start failed ends with SIGKILL.
	Exit Exit
	// Err says what went wrong.
	Err error
}

// Error says what failed and why. It does not name the plugin: the caller knows it.
func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Phase, e.Err) }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }
