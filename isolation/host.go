package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrInUse is the error of OpenHost when another supervisor has the run directory.
var ErrInUse = errors.New("another nri-supervisor runs with this run directory")

// HostOptions say how a Host is made. RunDir and Helper are required.
type HostOptions struct {
	// RunDir is the supervisor's run directory, an absolute path; it exists. One Host has it at a time.
	RunDir string
	// Helper are the arguments with which this executable calls RunHelper.
	Helper []string
	// NoLimits says that no incarnation will have Limits: no controller is switched on for them, and this process stays in its own cgroup.
	NoLimits bool
	// OnProblem is told what went wrong in the background. It must not block. Nil: nobody is.
	OnProblem func(error)
}

// Host is what the incarnations of one supervisor share: their part of the cgroup hierarchies, and the guardians that kill
// what is in it when the supervisor dies. It is safe for concurrent use.
type Host struct {
	helper  []string
	lock    *os.File    // the run directory
	tree    *cgroupTree // nil: there is none, because of treeErr
	treeErr error
	guards  []*guardian
	users   ownUserTable

	closeOnce sync.Once
}

// OpenHost takes possession of the run directory, removes what a killed supervisor left of its plugins (processes, cgroups,
// directories), and starts the guardians. A host without usable cgroups is no error: Host.Cgroups says why, and what needs them
// does not start.
func OpenHost(o HostOptions) (*Host, error) {
	if !filepath.IsAbs(o.RunDir) || len(o.Helper) == 0 {
		return nil, fmt.Errorf("open host: run directory %q, helper %q: both are needed", o.RunDir, o.Helper)
	}
	if o.OnProblem == nil {
		o.OnProblem = func(error) {}
	}
	lock, err := lockDir(o.RunDir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, o.RunDir)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(closeOthersOnExec(), awaitGuardians(lock)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	h := &Host{helper: o.Helper, lock: lock}
	name, err := treeName(lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	emptyRecorded(lock, name)
	if h.tree, h.treeErr = openCgroupTree(name, o.NoLimits); h.treeErr == nil {
		if h.guards, err = startGuardians(o.Helper, h.tree.bases(), lock, o.OnProblem); err != nil {
			h.treeErr = fmt.Errorf("start a guardian: %w", err)
			h.tree = nil
		} else if err := writeRecord(lock, h.tree.bases()); err != nil {
			o.OnProblem(err)
		}
	}
	if err := sweepPlugins(lock); err != nil {
		o.OnProblem(err)
	}
	return h, nil
}

// Cgroups is nil if each plugin gets a cgroup of its own, else it says why there are none.
func (h *Host) Cgroups() error { return h.treeErr }

// Close ends the guardians, and with it whatever is left of the plugins. All incarnations should be done.
func (h *Host) Close() {
	h.closeOnce.Do(func() {
		if h.guards != nil {
			closeGuardians(h.guards)
			_ = removeRecord(h.lock) // an old record is harmless
		}
		_ = h.lock.Close() // a folder
	})
}

// treeName is the name of the cgroup of the supervisor that holds the run directory. It names the directory itself: in another mount namespace another one has the same path.
func treeName(runDir *os.File) (string, error) {
	info, err := runDir.Stat()
	if err != nil {
		return "", fmt.Errorf("identify run directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("identify run directory %q: it has no inode", runDir.Name())
	}
	return fmt.Sprintf("%s%x-%x", treePrefix, st.Dev, st.Ino), nil
}
