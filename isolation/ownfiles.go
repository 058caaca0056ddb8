package isolation

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// ownSize bounds, in bytes, each file system in memory that a confined plugin has to itself: its own directory, and each of its
	// temporary folders. It is what a plugin's sockets, settings and scratch files need many times over, and a small part of what a node's
	// /run has, a tenth of the memory with systemd.
	ownSize = 64 << 20
	// ownInodes bounds the files and folders in each of them: an empty one costs the kernel about a kilobyte.
	ownInodes = 16 << 10
)

// OwnFiles is how many bytes an incarnation can write into the file systems in memory that it has to itself; 0: it has none. They count for
// its Limits.Memory as well. Safe for concurrent use.
func OwnFiles(c *Confinement) int64 {
	if !c.mounts() {
		return 0
	}
	return int64(ownSize * (1 + len(c.PrivateTmp)))
}

// ownOptions are the bounds in the words of mount(8).
func ownOptions() map[string]string {
	return map[string]string{"size": strconv.Itoa(ownSize), "nr_inodes": strconv.Itoa(ownInodes)}
}

// newOwnFiles makes an empty file system in memory, bounded and the user's, that is mounted nowhere: the stage mounts it in the plugin's
// own mount namespace, the host never sees it, and it is gone with the last process and descriptor that has it.
func newOwnFiles(u *User) (*os.File, error) {
	options := ownOptions()
	options["mode"] = "0700"
	if u != nil {
		options["uid"], options["gid"] = strconv.FormatUint(uint64(u.UID), 10), strconv.FormatUint(uint64(u.GID), 10)
	}
	fd, err := newTmpfs(options, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("make a file system in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "own files"), nil
}

// newTmpfs makes a file system in memory that is mounted nowhere yet.
func newTmpfs(options map[string]string, attributes int) (fd int, err error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, unix.Close(fs)) }()
	for name, value := range options {
		if err := unix.FsconfigSetString(fs, name, value); err != nil {
			return -1, fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
}
