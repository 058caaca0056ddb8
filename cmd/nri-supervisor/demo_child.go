package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// demoPatience is how long a child of the demo may take to end after SIGTERM before it is killed: longer than the supervisor's own bound of ten seconds.
const demoPatience = 12 * time.Second

// demoNursery starts the demo's processes. A child is told to end when the thread that started it ends, so one thread starts them all and lives until close: if this process is
// killed, its children end by themselves.
type demoNursery struct {
	self   string
	starts chan func()
	ended  chan struct{}
}

func newDemoNursery() (*demoNursery, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	n := &demoNursery{self: self, starts: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for start := range n.starts {
			start()
		}
	}()
	return n, nil
}

// close ends the thread. All children have been stopped before.
func (n *demoNursery) close() {
	close(n.starts)
	<-n.ended
}

// demoChild is a process of the demo: its own binary again.
type demoChild struct {
	what  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	end   context.CancelFunc
	done  chan struct{} // closed when the process has ended and its output is read
	err   error         // why it ended, valid after done
	lossy bool          // that it ended by itself is no error: a plugin that the runtime dropped

	mu     sync.Mutex
	stderr []string // its last lines
}

// start runs the own binary with arguments. Both functions are called for each line of its output, on goroutines of their own.
func (n *demoNursery) start(ctx context.Context, what string, stdout, stderr func([]byte), args ...string) (*demoChild, error) {
	// Children end in order, and not all at once when ctx does.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, n.self, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} // no NRI_PLUGIN_ variable of ours
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = demoPatience
	// Ctrl-C on a terminal reaches the conductor only, which then stops the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	c := &demoChild{what: what, cmd: cmd, end: cancel, done: make(chan struct{})}
	var err error
	var outPipe, errPipe io.ReadCloser
	if c.stdin, err = cmd.StdinPipe(); err == nil {
		if outPipe, err = cmd.StdoutPipe(); err == nil {
			errPipe, err = cmd.StderrPipe()
		}
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the %s: %w", what, err)
	}
	started := make(chan error)
	n.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		cancel()
		return nil, fmt.Errorf("start the %s: %w", what, err)
	}
	var output sync.WaitGroup
	output.Go(func() { drainDemo(outPipe, stdout) })
	output.Go(func() {
		drainDemo(errPipe, func(line []byte) {
			c.remember(string(line))
			if stderr != nil {
				stderr(line)
			}
		})
	})
	go func() {
		defer close(c.done)
		output.Wait()
		c.err = cmd.Wait()
	}()
	return c, nil
}

// drainDemo reads lines until the end, also past a line that is too long.
func drainDemo(r io.Reader, each func([]byte)) {
	lines := demoScanner(r)
	for lines.Scan() {
		if each != nil {
			each(lines.Bytes())
		}
	}
	_, _ = io.Copy(io.Discard, r)
}

func (c *demoChild) remember(line string) {
	const kept = 5
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stderr = append(c.stderr, line)
	if len(c.stderr) > kept {
		c.stderr = c.stderr[1:]
	}
}

// stop asks the process to end, waits, kills it after demoPatience, and says how it ended if that was not in order.
func (c *demoChild) stop() error {
	_ = c.stdin.Close() // the runtime process ends by that
	c.end()
	<-c.done
	if c.err == nil || c.lossy || errors.Is(c.err, context.Canceled) { // ended in order; CommandContext tells that it was told to
		return nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](c.err); ok && exit.ExitCode() >= 0 {
		return fmt.Errorf("the %s ended with exit code %d: %s", c.what, exit.ExitCode(), c.last())
	}
	return fmt.Errorf("the %s did not end in order: %w: %s", c.what, c.err, c.last())
}

// last is what the process wrote last on stderr.
func (c *demoChild) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.stderr, " | ")
}
