package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one executed process and its group. It is reaped by the thread that started it: a parent-death signal follows
// that thread, so it has to live as long as the process does.
type process struct {
	pid     int
	started time.Time
	exited  chan struct{} // closed when the process is reaped; state and ended are set before
	leaf    *cgroupLeaf   // nil: none

	mu     sync.Mutex // guards reaped, and so the validity of pid and group
	reaped bool

	state *os.ProcessState // nil if it could not be waited for
	ended time.Time
	left  int
}

// startProcess executes cmd in a session and process group of its own, to be killed when this process dies, without core
// dumps. cmd's SysProcAttr is set here. cmd.ExtraFiles become descriptors 3 and up; no other descriptor is inherited. The
// process begins its life in the leaf, if there is one.
func startProcess(cmd *exec.Cmd, leaf *cgroupLeaf) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if leaf != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(leaf.fd.Fd())
	}
	p := &process{exited: make(chan struct{}), leaf: leaf}
	result := make(chan error)
	go func() {
		// Unlocked only when the child is reaped: until then nothing may end this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.exec(cmd)
		result <- err
		if err == nil {
			p.reap(cmd.Process)
		}
	}()
	if err := <-result; err != nil {
		return nil, err
	}
	return p, nil
}

// dumpsNoCore tells whether the process has a limit of no core dumps already. The stage sets it before it changes the user, and then a process
// without CAP_SYS_RESOURCE cannot set the limits of its child any more.
func dumpsNoCore(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if limits, ok := strings.CutPrefix(line, "Max core file size"); ok {
			words := strings.Fields(limits)
			return len(words) > 1 && words[0] == "0" && words[1] == "0"
		}
	}
	return false
}

func (p *process) exec(cmd *exec.Cmd) error {
	if err := closeOthersOnExec(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.ENOEXEC) {
			return fmt.Errorf("execute %q: %w: not a program for this machine's architecture", cmd.Args[0], unix.ENOEXEC)
		}
		if pathErr, ok := errors.AsType[*os.PathError](err); ok {
			err = pathErr.Err
		}
		return fmt.Errorf("execute %q: %w", cmd.Args[0], err)
	}
	p.pid, p.started = cmd.Process.Pid, time.Now()
	// The limit cannot be set between fork and exec without changing our own, so the first instants of the program's
	// life, in its loader, could still dump core.
	if err := unix.Prlimit(p.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil && (!errors.Is(err, unix.EPERM) || !dumpsNoCore(p.pid)) {
		_ = unix.Kill(-p.pid, unix.SIGKILL) // it is not reaped yet, so it exists
		_ = cmd.Wait()                      // its status is of no interest
		return fmt.Errorf("set limit of core dumps of process %d: %w", p.pid, err)
	}
	return nil
}

// reap waits for the process to end, kills what is left of its group while the dead leader still holds the group's number,
// and takes the status.
func (p *process) reap(proc *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL) // ESRCH cannot be: the leader is a zombie
	if p.leaf != nil {
		p.left = p.leaf.strangers(p.pid)
		p.leaf.kill() // and what left the group
	}
	state, err := proc.Wait()
	if err == nil {
		p.state = state
	}
	p.ended = time.Now()
	p.reaped = true
	p.mu.Unlock()
	close(p.exited)
}

// signal sends sig to the group, unless the process is reaped and the number may be somebody else's. SIGKILL reaches everything
// in the cgroup as well.
func (p *process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig == unix.SIGKILL && p.leaf != nil {
		p.leaf.kill()
	}
	if !p.reaped {
		_ = unix.Kill(-p.pid, sig) // fails only if the group is gone
	}
}

// gone tells whether the process is reaped.
func (p *process) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped
}

// closeOthersOnExec marks every descriptor from 3 up to be closed on exec. Go does that for all that it opens, but what this
// process itself inherited (a runtime's NRI socket as descriptor 3, systemd's sockets) would go on to each plugin.
func closeOthersOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("mark descriptors to be closed on exec: %w", err)
	}
	// Linux before 5.11.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors to be closed on exec: %w", err)
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscanf(e.Name(), "%d", &fd); err == nil && fd >= 3 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
