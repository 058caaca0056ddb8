package main

import (
	"bufio"
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

// child is a process that the benchmark started.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	tail []string
}

// nursery starts processes from one thread that lives until the end, so that they are told to end when this process is killed.
type nursery chan func()

func newNursery() nursery {
	n := make(nursery)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range n {
			f()
		}
	}()
	return n
}

// start starts a program. Each line that it writes goes to watch, if that is not nil.
func (b *bench) start(path string, args []string, watch func([]byte), files []*os.File) (*child, error) {
	c := &child{cmd: exec.Command(path, args...), done: make(chan struct{})} //nolint:noctx // ended by end
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	c.cmd.ExtraFiles = files
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	failed := make(chan error)
	b.nursery <- func() { failed <- c.cmd.Start() }
	if err := <-failed; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		defer close(c.done)
		c.read(out, watch)
		_ = c.cmd.Wait() // how it ended is in its output, if it matters
	}()
	return c, nil
}

func (c *child) read(r io.Reader, watch func([]byte)) {
	const kept, longest = 20, 1 << 20
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		if watch != nil {
			watch(lines.Bytes())
		}
		c.mu.Lock()
		c.tail = append(c.tail, lines.Text())
		c.tail = c.tail[max(0, len(c.tail)-kept):]
		c.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r)
}

// last is what the process wrote last.
func (c *child) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.tail, "\n")
}

// ask asks the process to end.
func (c *child) ask() { _ = c.cmd.Process.Signal(syscall.SIGTERM) }

// end waits for the end, and makes it when it takes too long.
func (c *child) end() {
	const grace = 15 * time.Second // the supervisor's own bound is ten
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-c.done:
	case <-limit.C:
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}
