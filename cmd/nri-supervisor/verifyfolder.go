package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

const (
	// trialPrefix begins the name of a trial's folder; a number follows.
	trialPrefix = "nri-verify"
	// trialRun is the run directory in there, and all that is in there: its name is short since sockets' paths are.
	trialRun = "r"
	// trialAttempts bounds how often a new folder is made that somebody who sweeps was faster to take.
	trialAttempts = 100
)

// trialFolder is the private folder of one run of verify. It is locked for as long as that lives, so that the next one can tell what was left behind by one that was killed.
type trialFolder struct {
	path string
	lock *folderLock
}

// newTrialFolder makes one in a folder, and removes what is left of others there.
func newTrialFolder(parent string) (*trialFolder, error) {
	sweepTrials(parent)
	for range trialAttempts {
		path, err := os.MkdirTemp(parent, trialPrefix)
		if err != nil {
			return nil, err
		}
		f, err := lockTrial(path)
		switch {
		case errors.Is(err, errHeld), errors.Is(err, fs.ErrNotExist):
			continue // somebody sweeps it away, before it was locked
		case err == nil:
			if err = os.Mkdir(f.runDir(), 0o700); err == nil {
				return f, nil
			}
			f.remove()
		}
		return nil, err
	}
	return nil, fmt.Errorf("make a folder in %q: each of %d was removed at once", parent, trialAttempts)
}

// lockTrial locks a folder, which is still at its path.
func lockTrial(path string) (*trialFolder, error) {
	lock, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && !lock.is(info) {
		err = fs.ErrNotExist
	}
	if err != nil {
		lock.unlock()
		return nil, err
	}
	return &trialFolder{path, lock}, nil
}

// runDir is the directory for the plugin.
func (f *trialFolder) runDir() string { return filepath.Join(f.path, trialRun) }

// remove removes it. What stays, the next run removes.
func (f *trialFolder) remove() {
	_ = os.RemoveAll(f.path)
	f.lock.unlock()
}

// sweepTrials removes the folders that runs of this user have left behind when they were killed, and what runs below their cgroups. What cannot be removed is no reason to try no plugin.
func sweepTrials(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, trialPrefix+"*")) // the pattern is right, unless the folder has a strange name
	for _, path := range paths {
		if !isTrial(path) {
			continue
		}
		f, err := lockTrial(path)
		if err != nil {
			continue // it is in use, or gone
		}
		if isTrial(path) && f.endRest() == nil {
			f.remove()
			continue
		}
		f.lock.unlock()
	}
}

// isTrial tells whether a path is that of a folder which verify made for this user.
func isTrial(path string) bool {
	number := strings.TrimPrefix(filepath.Base(path), trialPrefix)
	info, err := os.Lstat(path)
	if err != nil || number == "" || strings.Trim(number, "0123456789") != "" || info.Mode() != fs.ModeDir|0o700 {
		return false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return false
	}
	entries, err := os.ReadDir(path)
	return err == nil && (len(entries) == 0 || len(entries) == 1 && entries[0].Name() == trialRun && entries[0].IsDir())
}

// endRest ends what is left of the plugin of a run that was killed, as far as it was in a cgroup, and empties its folder. An error says that its guardians are still about to do that. Whoever can write to
// the folder above can have made all that is in this one: no link is followed.
func (f *trialFolder) endRest() error {
	if os.Geteuid() != 0 {
		return nil // there was no cgroup
	}
	fd, err := unix.Openat(int(f.lock.file.Fd()), trialRun, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", f.runDir(), err)
	}
	dir := os.NewFile(uintptr(fd), f.runDir())
	return errors.Join(isolation.EndRest(dir), dir.Close())
}
