package isolation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// helperGuardian, helperStage and helperLook are the first arguments of RunHelper.
	helperGuardian = "guardian"
	helperStage    = "stage"
	helperLook     = "look"
	// helperEnv marks the helpers.
	helperEnv = "NRI_SUPERVISOR_HELPER"
	// guardianLock is the file in the run directory that guardians lock.
	guardianLock = "guardian.lock"

	// guardians is how many processes wait for the end of the supervisor, each for itself: one that is killed together with it, or is just being replaced,
	// leaves the other.
	guardians = 2
	// guardianRetry is the least time between two starts of a guardian that somebody kills, or that cannot be started.
	guardianRetry = time.Second
	// guardianLook is how often a guardian is looked at: one that somebody has stopped would not do its work.
	guardianLook = 2 * time.Second
	// guardianEnd bounds how long the guardian may take to remove the cgroups of a supervisor that ends in order.
	guardianEnd = emptyWithin + time.Second
)

// RunHelper runs this process as one of the helpers that this package starts from its own executable, and returns its exit
// code. args are the arguments behind HostOptions.Helper.
func RunHelper(args []string) int {
	switch {
	case len(args) > 1 && args[0] == helperGuardian:
		return runGuardian(args[1:], os.Stdin)
	case len(args) > 0 && args[0] == helperStage:
		return runStage()
	case len(args) > 1 && args[0] == helperLook:
		return runLook(args[1])
	default:
		return 2
	}
}

// runGuardian waits until the supervisor's end of the pipe is closed, however it ended, and then kills and removes its plugins'
// cgroups: bases are the unified one and those of v1 hierarchies.
func runGuardian(bases []string, pipe io.Reader) int {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // meant for the supervisor, whose end it sees
	_, _ = io.Copy(io.Discard, pipe)                                    // an error is an end, too
	var errs []error
	for _, base := range bases {
		errs = append(errs, emptyTree(base))
	}
	if errors.Join(errs...) != nil {
		return 1
	}
	return 0
}

// guardian keeps one of the guardian processes alive for as long as the supervisor.
type guardian struct {
	helper    []string
	bases     []string
	runDir    *os.File
	onProblem func(error)
	stop      chan struct{}
	ended     chan struct{}

	mu   sync.Mutex // guards pipe
	pipe *os.File   // the end that only this process holds; nil: none runs
}

// awaitGuardians returns when no guardian of a former supervisor with this run directory is at work any more: it would end the plugins of this one.
func awaitGuardians(runDir *os.File) error {
	lock, err := lockGuardian(runDir, unix.LOCK_EX, unix.O_CREAT)
	if err != nil {
		return err
	}
	return lock.Close()
}

// lockGuardian takes the lock that all guardians share for as long as they live: like them, or for who waits for their end. It follows no link, and makes the file if it may.
func lockGuardian(runDir *os.File, how, mayMake int) (*os.File, error) {
	lockFile := filepath.Join(runDir.Name(), guardianLock)
	fd, err := unix.Openat(int(runDir.Fd()), guardianLock, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|mayMake, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the guardian, %q: %w", lockFile, err)
	}
	f := os.NewFile(uintptr(fd), lockFile)
	deadline := time.Now().Add(guardianEnd)
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("lock of the guardian, %q: %w: is the guardian of another nri-supervisor at work?", lockFile, err), f.Close())
		}
		<-time.After(time.Millisecond)
	}
}

// startGuardians starts all of them and returns when they run.
func startGuardians(helper, bases []string, runDir *os.File, onProblem func(error)) ([]*guardian, error) {
	var out []*guardian
	for range guardians {
		g, err := startGuardian(helper, bases, runDir, onProblem)
		if err != nil {
			closeGuardians(out)
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// closeGuardians lets them do their work and end.
func closeGuardians(all []*guardian) {
	for _, g := range all {
		close(g.stop)
		g.closePipe()
	}
	deadline := time.After(guardianEnd)
	for _, g := range all {
		select {
		case <-g.ended:
		case <-deadline:
			return
		}
	}
}

// startGuardian starts one and returns when it runs.
func startGuardian(helper, bases []string, runDir *os.File, onProblem func(error)) (*guardian, error) {
	if os.Getenv(helperEnv) != "" {
		return nil, errHelper
	}
	g := &guardian{
		helper: helper, bases: bases, runDir: runDir, onProblem: onProblem,
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	cmd, err := g.start()
	if err != nil {
		return nil, err
	}
	go g.keep(cmd)
	return g, nil
}

func (g *guardian) start() (*exec.Cmd, error) {
	lock, err := lockGuardian(g.runDir, unix.LOCK_SH, unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }() // the guardian's descriptor holds the lock
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := helperCommand(g.helper, append([]string{helperGuardian}, g.bases...)...)
	cmd.Stdin, cmd.Dir, cmd.ExtraFiles = r, "/", []*os.File{lock}
	// A signal to the supervisor's group does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = r.Close() // the guardian's
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe = w
	return cmd, nil
}

// keep replaces a guardian that ended although its supervisor lives: at once, unless that happens again and again.
func (g *guardian) keep(cmd *exec.Cmd) {
	defer close(g.ended)
	next := time.NewTimer(guardianRetry)
	defer next.Stop()
	for {
		err := waitFor(cmd)
		select {
		case <-g.stop:
			return
		default:
		}
		g.onProblem(errors.Join(errors.New("a guardian, which ends the plugins of a supervisor that is killed, ended itself and is replaced"), err))
		g.closePipe()
		for cmd = nil; cmd == nil; {
			select {
			case <-g.stop:
				return
			case <-next.C:
			}
			next.Reset(guardianRetry)
			if cmd, err = g.start(); err != nil {
				g.onProblem(err)
			}
			select {
			case <-g.stop:
				g.closePipe() // the supervisor ended meanwhile, and closed only the former one
			default:
			}
		}
	}
}

// waitFor waits for the end of a guardian, and ends one that somebody has stopped.
func waitFor(cmd *exec.Cmd) error {
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(guardianLook)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				if stopped(cmd.Process.Pid) {
					_ = cmd.Process.Kill() // it may have ended meanwhile
				}
			}
		}
	})
	err := cmd.Wait()
	close(ended)
	watch.Wait()
	return err
}

// stopped tells whether a process stands still because of a signal, or of who traces it, proc_pid_stat(5).
func stopped(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // it has ended
	}
	_, state, _ := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
	return bytes.HasPrefix(state, []byte("T")) || bytes.HasPrefix(state, []byte("t"))
}

func (g *guardian) closePipe() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe != nil {
		_ = g.pipe.Close() // nothing is written
		g.pipe = nil
	}
}

// helperCommand is this program's own executable, run as a helper: the file that runs now, even if its path has a new one.
func helperCommand(helper []string, args ...string) *exec.Cmd {
	all := append(append([]string{"nri-supervisor"}, helper...), args...)
	return &exec.Cmd{Path: "/proc/self/exe", Args: all, Env: []string{helperEnv + "=1"}}
}

// errHelper is why a helper starts no helper. A program that does not know its helpers' arguments would else start itself for ever.
var errHelper = errors.New("this process was started as a helper itself: the program must call isolation.RunHelper for the arguments of HostOptions.Helper")
