package isolation

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Reach says how a process reaches a file of this host. It is a closed set.
type Reach int

const (
	// Unreached is a file that the process does not see at that path.
	Unreached Reach = iota
	// ReachedReadOnly is one that it sees on a mount that is read-only for it.
	ReachedReadOnly
	// ReachedWritable is one that it sees on a mount that it can write to, as far as the file's owner and mode let it.
	ReachedWritable
	// ReachedElsewhere is one that the process does not see at that path, while it can write to a mount of the same file system, on which it may be the same file under another path.
	ReachedElsewhere
)

// String returns the reach for people.
func (r Reach) String() string {
	switch r {
	case Unreached:
		return "unreached"
	case ReachedReadOnly:
		return "read-only"
	case ReachedWritable:
		return "writable"
	case ReachedElsewhere:
		return "elsewhere"
	}
	return fmt.Sprintf("Reach(%d)", int(r))
}

// Reach looks from the process's own mount namespace at what lies at path, an absolute path without links. An error says that this cannot be known, such as because the process
// has ended.
func (i *Instance) Reach(path string) (Reach, error) { return reach(i.PID(), path) }

func reach(pid int, path string) (Reach, error) {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return Unreached, err
	}
	defer func() { _ = root.Close() }() // a mere path
	var here, there unix.Stat_t
	if err := unix.Lstat(path, &here); err != nil {
		return Unreached, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	// What the process has put in the way is not followed: it could lead out of its namespace.
	fd, err := unix.Openat2(int(root.Fd()), "."+path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return elsewhere(pid, path)
	case err != nil:
		return Unreached, &os.PathError{Op: "openat2", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fstat(fd, &there); err != nil {
		return Unreached, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if here.Dev != there.Dev || here.Ino != there.Ino {
		return elsewhere(pid, path)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return Unreached, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return ReachedReadOnly, nil
	}
	return ReachedWritable, nil
}

// elsewhere looks for a mount of the process by which it could write to the file system on which this host has a path: what was mounted there after the process's start was somewhere else before.
func elsewhere(pid int, path string) (Reach, error) {
	host, err := listMounts()
	if err != nil {
		return Unreached, err
	}
	theirs, err := readFileAndClose(fmt.Sprintf("/proc/%d/mountinfo", pid), parseMounts)
	if err != nil {
		return Unreached, err
	}
	of := mountOf(host, path)
	if slices.ContainsFunc(theirs, func(m mounted) bool { return m.device == of.device && !m.readOnly }) {
		return ReachedElsewhere, nil
	}
	return Unreached, nil
}
