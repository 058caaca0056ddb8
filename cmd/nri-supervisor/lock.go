package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// errHeld is wrapped by the errors of folders that another supervisor has locked.
var errHeld = errors.New("another nri-supervisor holds it")

// folderLock is a lock on a folder, by flock(2): it needs no file, works for every user who may read the folder, is shared by all mounts of it (host and containers), and ends
// with the process, however that ends. The children do not inherit it.
type folderLock struct {
	file *os.File
	info fs.FileInfo
}

// lockFolder locks a folder, or says that somebody else has.
func lockFolder(path string) (*folderLock, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock folder: %w", err), f.Close())
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errHeld
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock folder %q: %w", path, err), f.Close())
	}
	return &folderLock{file: f, info: info}, nil
}

// unlock ends the lock. Nil is none.
func (l *folderLock) unlock() {
	if l != nil {
		_ = l.file.Close() // read only
	}
}

// is reports whether the lock is on this folder.
func (l *folderLock) is(info fs.FileInfo) bool { return l != nil && os.SameFile(l.info, info) }

// runtimeLock keeps two supervisors from serving one runtime. It is on the folder of the runtime's NRI socket: what whoever wants to reach the runtime has to share, whatever else
// differs between two configurations. Safe for concurrent use.
type runtimeLock struct {
	folder string
	own    []fs.FileInfo // folders that we have locked otherwise, one of which may be the same
	warn   func(error)   // told once that the folder cannot be locked

	mu     sync.Mutex // guards the rest
	held   *folderLock
	warned bool
}

func newRuntimeLock(socket string, warn func(error), own ...fs.FileInfo) *runtimeLock {
	return &runtimeLock{folder: filepath.Dir(socket), own: own, warn: warn}
}

// take takes the lock unless it is held already. The error wraps errHeld when another supervisor has it. A folder that is not there yet, or that cannot be locked, keeps nobody from
// trying to reach the runtime.
func (l *runtimeLock) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.folder)
	if err != nil {
		return nil // whoever dials says it better
	}
	if l.held.is(info) {
		return nil
	}
	for _, f := range l.own {
		if os.SameFile(f, info) {
			return nil
		}
	}
	l.held.unlock() // the runtime has made its folder anew
	l.held, err = lockFolder(l.folder)
	if err != nil && !errors.Is(err, errHeld) {
		if !l.warned {
			l.warned = true
			l.warn(err)
		}
		return nil
	}
	return err
}

func (l *runtimeLock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.unlock()
	l.held = nil
}

// lockOwnFolder makes a folder if it is missing, and keeps other supervisors out of it.
func lockOwnFolder(path, field string, mode fs.FileMode) (*folderLock, error) {
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, hintError{fmt.Errorf("%s: %w", field, err), []string{"run as root, or set " + field + " to a folder that this user can make"}}
	}
	l, err := lockFolder(path)
	if errors.Is(err, errHeld) {
		return nil, hintError{fmt.Errorf("%s %q: %w", field, path, errHeld), []string{"stop the other one, or give each its own " + field}}
	}
	return l, err
}

// lockFolders keeps other supervisors out of the state directory, and returns what takes the right to serve the runtime. The run directory is there already, and isolation.Host locks it.
func lockFolders(spec policy.SupervisorSpec, warn func(error)) (turn func() error, unlock func(), err error) {
	run, err := os.Stat(spec.RunDir)
	if err != nil {
		return nil, nil, fmt.Errorf("run directory: %w", err)
	}
	// A folder that a plugin's profile hides must be there when the plugin starts, which may be before the runtime's first start since boot. What cannot be made is none of the plugins' to reach.
	_ = os.Mkdir(filepath.Dir(spec.Runtime.Socket), 0o711) //nolint:gosec // what the runtime itself gives such folders
	own := []fs.FileInfo{run}
	var kept *folderLock
	if info, err := os.Stat(spec.StateDir); err != nil || !os.SameFile(run, info) {
		kept, err = lockOwnFolder(spec.StateDir, "stateDir", 0o700)
		if errors.Is(err, errHeld) {
			return nil, nil, err
		}
		if err == nil { // else the state is kept in memory, and whoever keeps it says so
			own = append(own, kept.info)
		}
	}
	lock := newRuntimeLock(spec.Runtime.Socket, warn, own...)
	turn = func() error {
		if err := lock.take(); err != nil {
			return fmt.Errorf("%w: %w", supervisor.ErrTaken, err)
		}
		return nil
	}
	unlock = func() {
		lock.release()
		kept.unlock()
	}
	return turn, unlock, nil
}
