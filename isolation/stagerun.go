package isolation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxOOMScore is the largest oom_score_adj, OOM_SCORE_ADJ_MAX.
	maxOOMScore = 1000
	// softNoFile is the soft limit of open files unless the manifest says otherwise: what select(2) can do, and systemd's default.
	softNoFile = 1024
)

// oomScore is a plugin's oom_score_adj: the supervisor's own and more.
func oomScore(more int) int {
	own := 0
	if data, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		own, _ = strconv.Atoi(strings.TrimSpace(string(data))) // the kernel's
	}
	return min(own+more, maxOOMScore)
}

// stageProcess is the stage at work.
type stageProcess struct {
	*order
	reports *json.Encoder
}

// runStage confines this process as the order says, and executes the plugin in its place. It returns only on failure.
//
// Everything happens on one thread: privileges, namespaces and filters are a thread's, and executing ends the other threads.
func runStage() int {
	runtime.LockOSThread()
	for fd := stageOrder; fd <= stageOwnFiles; fd++ {
		unix.CloseOnExec(fd)
	}
	s := &stageProcess{reports: json.NewEncoder(os.NewFile(stageReport, "reports"))}
	var err error
	if s.order, err = readOrder(os.NewFile(stageOrder, "order")); err == nil {
		err = s.carryOut()
	}
	if err == nil {
		failed := s.execute()
		errno, _ := errors.AsType[unix.Errno](failed)
		err = &stageError{phase: PhaseExec, text: failed.Error(), errno: errno}
	}
	rep := report{Failed: err.Error(), Phase: PhaseSandbox}
	rep.Errno, _ = errors.AsType[unix.Errno](err)
	if e, ok := errors.AsType[*stageError](err); ok {
		rep.Phase = e.phase
	}
	_ = s.reports.Encode(rep) // the supervisor may be gone
	return 1
}

func readOrder(f *os.File) (*order, error) {
	o := &order{}
	err := json.NewDecoder(f).Decode(o)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read order: %w", err)
	}
	return o, nil
}

// try does one part. If it is an optional one that fails, that is reported and no error.
func (s *stageProcess) try(p Part, do func() error) error {
	err := do()
	if err == nil || !s.Optional[p] {
		return err
	}
	return s.reports.Encode(report{Reduced: fmt.Sprintf("%s: %v", p, err)})
}

// mount makes the mount namespace. Only that there can be none may be tolerated: what fails in it can be somebody's doing, and a plugin that starts with half of it is confined by less than
// its profile without a need.
func (s *stageProcess) mount() error {
	err := newMounts()
	switch {
	case err == nil:
		return s.remount()
	case lacking(err):
		return s.try(PartMounts, func() error { return err })
	default:
		return err
	}
}

// carryOut does everything but the execution. The order is that of the privileges: what needs most of them comes first.
func (s *stageProcess) carryOut() error {
	for _, dir := range s.Join {
		if err := writeCgroup(dir, "cgroup.procs", "0"); err != nil { // 0 is the writer
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(s.OOMScore)), 0); err != nil {
		return fmt.Errorf("set OOM score %d: %w", s.OOMScore, err)
	}
	if err := s.limit(); err != nil {
		return err
	}
	if s.NoNetwork {
		if err := leaveNetwork(); err != nil {
			return err
		}
	}
	if s.Mounts {
		if err := s.mount(); err != nil {
			return err
		}
	}
	if s.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	if s.Shield || s.ConfineFiles {
		missing, err := s.landlock()
		if err != nil {
			return err
		}
		if missing != "" {
			if err := s.reports.Encode(report{Reduced: PartShield.String() + ": " + missing}); err != nil {
				return err
			}
		}
	}
	if err := s.dropPrivileges(); err != nil {
		return err
	}
	if err := s.bindToParent(); err != nil {
		return err
	}
	if s.Seccomp {
		return s.try(PartSeccomp, func() error { return filterCalls(capSet(s.Capabilities)) })
	}
	return nil
}

// dropPrivileges changes the user and cuts the capabilities.
func (s *stageProcess) dropPrivileges() error {
	held, err := holds()
	if err != nil {
		return err
	}
	if missing := capSet(s.Required) &^ held; missing != 0 {
		return fmt.Errorf("grant capabilities %s: the supervisor does not have them itself", strings.Join(missing.names(), ", "))
	}
	caps := capSet(s.Capabilities) & held
	// Who holds none and has no_new_privs cannot gain any, whatever the bounding set is.
	if s.CutCapabilities && (held != 0 || !s.NoNewPrivs) {
		if err := s.try(PartCapabilities, caps.dropBounding); err != nil {
			return err
		}
	}
	if s.User != nil {
		if err := s.User.become(); err != nil {
			return err
		}
	}
	root := os.Geteuid() == 0
	switch {
	case s.CutCapabilities:
		return s.try(PartCapabilities, func() error { return caps.take(!root) })
	case s.User != nil && !root: // a change of user without a word about capabilities loses all, as usual
		return capSet(0).take(false)
	default:
		return nil
	}
}

// limit sets what one process may use. Go's runtime has raised the soft limit of open files, for itself.
func (s *stageProcess) limit() error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("read limit of open files: %w", err)
	}
	if s.NoFile > 0 {
		lim = unix.Rlimit{Cur: s.NoFile, Max: s.NoFile}
	} else {
		lim.Cur = min(softNoFile, lim.Max)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("set limit of open files to %d: %w", lim.Cur, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switch core dumps off: %w", err)
	}
	return s.raiseLimits()
}

// bindToParent lets the plugin die with the supervisor. The signal is a thread's and is cleared by a change of credentials, so
// it is set here once more; and the parent may have died before.
func (s *stageProcess) bindToParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent-death signal: %w", err)
	}
	if parent := os.Getppid(); parent != s.Parent {
		return fmt.Errorf("parent is process %d, not the supervisor %d: it has ended", parent, s.Parent)
	}
	return nil
}

// executeFile executes the open file. An interpreter is given the descriptor of its script, or the path, if that is the same file.
func (s *stageProcess) executeFile(args, env []*byte) error {
	if !s.Script {
		return execFile(stageBinary, "", args, env)
	}
	var open, named unix.Stat_t
	if s.ByPath && unix.Fstat(stageBinary, &open) == nil && unix.Stat(s.Path, &named) == nil && open.Dev == named.Dev && open.Ino == named.Ino {
		return execFile(-1, s.Path, args, env)
	}
	if _, err := unix.FcntlInt(stageBinary, unix.F_SETFD, 0); err != nil { // it stays open for the interpreter
		return err
	}
	return execFile(-1, fmt.Sprintf("/proc/self/fd/%d", stageBinary), args, env)
}

// execute replaces this process by the plugin.
func (s *stageProcess) execute() error {
	args, err1 := syscall.SlicePtrFromStrings(s.Args)
	env, err2 := syscall.SlicePtrFromStrings(s.Env)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("execute %q: %w", s.Path, err)
	}
	if err := s.lowerLimits(); err != nil {
		return err
	}
	err := s.executeFile(args, env)
	switch {
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("execute %q: %w: not a program for this machine's architecture", s.Path, err)
	case errors.Is(err, unix.EACCES) && s.User != nil:
		return fmt.Errorf("execute %q as user %d: %w: let others read and execute it", s.Path, s.User.UID, err)
	default:
		return fmt.Errorf("execute %q: %w", s.Path, err)
	}
}
