package isolation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

var (
	errExited      = errors.New("exited")
	errConnClosed  = errors.New("it closed its NRI connection (descriptor 3) before it registered")
	errStockPlugin = errors.New("it registered as an NRI plugin without the handshake of the SDK: set protocol: nri, or build it with the SDK")
)

// startFailed ends what was started and says what happened.
func (i *Instance) startFailed(phase Phase, took time.Duration, cause error) *StartError {
	e := &StartError{Phase: phase, Exit: Exit{Reason: ReasonStartFailed, Code: -1}}
	if i.process() == nil {
		i.conn.close()
		if i.leaf != nil {
			cause = errors.Join(cause, i.leaf.remove())
		}
		e.Err = errors.Join(cause, i.dir.remove())
		return e
	}
	if staged, ok := errors.AsType[*stageError](cause); ok { // the plugin itself was never executed
		i.Kill(ReasonStartFailed)
		e.Phase, e.Err = staged.phase, cause
		return e
	}
	e.Exit = i.Kill(ReasonStartFailed)
	e.Exit.Reason = ReasonStartFailed
	e.Err = i.startCause(phase, took, cause, e.Exit)
	return e
}

// startCause turns what the start saw into what a person needs.
func (i *Instance) startCause(phase Phase, took time.Duration, cause error, exit Exit) error {
	// SIGKILL is ours: whatever the start noticed first, with any other status the process went by itself.
	byItself := !exit.Alive && exit.Signal != unix.SIGKILL
	first := i.out.first()
	switch {
	case i.outOfMemory():
		if limit := i.spec.Confine.Limits.Memory; limit > 0 {
			return fmt.Errorf("it was killed for want of memory before it was ready: resources.limits.memory is %d bytes%s", limit, lastWords(exit))
		}
		return fmt.Errorf("it was killed for want of memory before it was ready%s", lastWords(exit))
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, context.Canceled):
		return i.timeoutCause(phase, took, cause)
	case errors.Is(cause, errStockPlugin):
		return cause
	case phase == PhaseHandshake && first != "" && !isHandshake(first):
		err := fmt.Errorf("its first line on stdout is no handshake: %s: nothing may be printed there before plugins.Serve; "+
			"a plugin that is not built with the SDK needs protocol: nri", quoteHead(first))
		if byItself {
			return fmt.Errorf("%w; it %s%s", err, ended(exit), lastWords(exit))
		}
		return err
	case phase == PhaseHandshake && isHandshake(first) && !byItself:
		if v := strings.Split(first, "|")[1]; v != strconv.Itoa(wire.ProtocolVersion) {
			return fmt.Errorf("it speaks version %s of the plugin protocol, this supervisor version %d: build it with a matching SDK",
				v, wire.ProtocolVersion)
		}
		return oneLine(cause)
	case byItself:
		return fmt.Errorf("it %s before it was ready%s", ended(exit), lastWords(exit))
	default:
		return oneLine(cause)
	}
}

// outOfMemory tells whether the kernel killed something of the incarnation, which has ended, for want of memory.
func (i *Instance) outOfMemory() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.oom
}

func (i *Instance) timeoutCause(phase Phase, took time.Duration, cause error) error {
	took = took.Round(time.Millisecond)
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("given up after %s: %w", took, cause)
	}
	if phase == PhaseRegister {
		return fmt.Errorf("no RegisterPlugin on descriptor 3 in %s%s: %w", took, lastWords(i.Exit()), cause)
	}
	if phase == PhaseControl {
		return fmt.Errorf("no answer of the control service in %s: %w", took, cause)
	}
	head := i.out.firstBytes()
	if head == "" {
		return fmt.Errorf("no handshake in %s, and nothing on stdout%s: is it a plugin built with the SDK? %w", took, lastWords(i.Exit()), cause)
	}
	return fmt.Errorf("no handshake in %s, stdout began with %s: %w", took, quoteHead(head), cause)
}

// ended says how a process went.
func ended(e Exit) string {
	if e.Signal != 0 {
		return fmt.Sprintf("was ended by signal %q", e.Signal.String())
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}

// lastWords quotes the last line of output, or says that there was none.
func lastWords(e Exit) string {
	if len(e.LastOutput) == 0 {
		return ", without output"
	}
	last := e.LastOutput[len(e.LastOutput)-1]
	for _, line := range e.LastOutput { // a crash ends with a stack, which says less than its beginning
		if slices.ContainsFunc(crashes(), func(start string) bool { return strings.HasPrefix(line, start) }) {
			last = line
		}
	}
	return ", last output: " + strconv.Quote(last)
}

func quoteHead(s string) string {
	if len(s) > headBytes {
		return strconv.Quote(s[:headBytes]) + "…"
	}
	return strconv.Quote(s)
}

// oneLine puts the lines of go-plugin's errors into one.
func oneLine(err error) error {
	if text := err.Error(); strings.Contains(text, "\n") {
		return errors.New(strings.Join(strings.Fields(text), " "))
	}
	return err
}

// isHandshake tells whether a line has the form of go-plugin's handshake: two numbers, a network, an address, …
func isHandshake(line string) bool {
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 4 {
		return false
	}
	for _, p := range parts[:2] {
		if _, err := strconv.Atoi(p); err != nil {
			return false
		}
	}
	return true
}
