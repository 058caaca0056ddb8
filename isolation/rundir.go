package isolation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is the longest path of a unix socket: sun_path of unix(7) is 108 bytes with its terminating zero.
	maxSocketPath = 107
	// socketNameLen is the longest name that go-plugin gives its socket: "plugin" and a 32 bit number.
	socketNameLen = len("/plugin") + 10
	// idBytes make the name of an incarnation's directory. A clash fails the start.
	idBytes = 3
)

// runDir is the private directory of one incarnation. It is locked while the incarnation lives, so that the next start can
// tell what was left behind by a supervisor that was killed.
type runDir struct {
	path string
	lock *os.File
	// own is what the incarnation itself sees there: a file system in memory that nobody else sees. nil: the directory as it is.
	own *os.File
}

// newRunDir creates base/plugins/name/ID, mode 0700, and removes its dead siblings.
func newRunDir(ctx context.Context, base, name string) (_ *runDir, err error) {
	parent := filepath.Join(base, "plugins", name)
	if n := len(parent) + 1 + 2*idBytes + socketNameLen; n > maxSocketPath {
		return nil, fmt.Errorf("create directory in %q: socket paths would have %d bytes, the limit is %d: use a shorter runDir or plugin name",
			parent, n, maxSocketPath)
	}
	// A plugin with a user of its own passes through these to its own one, and can list none of them.
	if err := os.MkdirAll(parent, 0o711); err != nil { //nolint:gosec // as above
		return nil, fmt.Errorf("create directory: %w", err)
	}
	// Held while siblings are swept and the new directory is not yet locked itself.
	parentLock, err := awaitLock(ctx, parent)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, parentLock.Close()) }()

	if err := sweep(parentLock); err != nil {
		return nil, err
	}
	var id [idBytes]byte
	_, _ = rand.Read(id[:]) // never fails
	path := filepath.Join(parent, hex.EncodeToString(id[:]))
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &runDir{path: path, lock: lock}, nil
}

// giveTo makes the directory the user's.
func (d *runDir) giveTo(u *User) error {
	if u == nil {
		return nil
	}
	if err := d.lock.Chown(int(u.UID), int(u.GID)); err != nil {
		return fmt.Errorf("give directory to user %d: %w", u.UID, err)
	}
	return nil
}

// bound gives the incarnation a bounded file system of its own in the place of the directory.
func (d *runDir) bound(u *User) (err error) {
	d.own, err = newOwnFiles(u)
	return err
}

// sweep removes the directories in parent that no living incarnation holds. It follows no link.
func sweep(parent *os.File) error {
	names, err := parent.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("sweep directory: %w", err)
	}
	at := int(parent.Fd())
	for _, name := range names {
		lock, err := lockDirAt(at, name)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.ENOENT):
			continue // in use, or gone
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			_, err = unlink(at, name)
		case err == nil:
			err = errors.Join(removeFolderAt(at, name), lock.Close())
		}
		if err != nil {
			return fmt.Errorf("sweep directory %q: %w", parent.Name(), err)
		}
	}
	return nil
}

// awaitLock locks a directory as soon as nobody else holds it, or until ctx ends: whoever holds it may be something that a plugin left behind.
func awaitLock(ctx context.Context, path string) (*os.File, error) {
	const every = 10 * time.Millisecond // it is held for as long as a few directories take to be removed
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		f, err := lockDir(path)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: another process holds it: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

func lockDir(path string) (*os.File, error) { return lockDirAt(unix.AT_FDCWD, path) }

// lockDirAt locks what a directory has under a name, if that is a directory.
func lockDirAt(at int, path string) (*os.File, error) {
	f, err := openFolder(at, path)
	if err != nil {
		return nil, fmt.Errorf("lock directory %q: %w", path, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock directory %q: %w", path, err), f.Close())
	}
	return f, nil
}

// remove deletes the directory with all that the plugin left in it.
func (d *runDir) remove() error {
	if d.own != nil {
		_ = d.own.Close() // a mount, which is gone with its last process
	}
	return errors.Join(removeFolder(d.path), d.lock.Close())
}

// openSocket opens the socket at path without connecting to it, and returns an address that names exactly this socket. A
// plugin tells where it listens; what it tells must be a socket in its own directory, or it could make us talk to anybody.
func (d *runDir) openSocket(network, path string) (*os.File, *net.UnixAddr, error) {
	if network != "unix" {
		return nil, nil, fmt.Errorf("plugin listens on %q %q: only a unix socket in its own directory is accepted", network, path)
	}
	name, ok := strings.CutPrefix(path, d.path+"/")
	if !ok || strings.ContainsRune(name, '/') {
		return nil, nil, fmt.Errorf("plugin listens on %q: only a socket in its own directory %q is accepted", path, d.path)
	}
	fd, err := d.openat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("open plugin's socket %q: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open plugin's socket %q: %w", path, err), f.Close())
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, nil, errors.Join(fmt.Errorf("open plugin's socket %q: not a socket", path), f.Close())
	}
	return f, &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d", fd), Net: "unix"}, nil
}

// openat opens what the incarnation has under a name. Where its own file system could not be mounted, it uses the directory itself.
func (d *runDir) openat(name string) (fd int, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if d.own != nil {
		if fd, err = unix.Openat(int(d.own.Fd()), name, flags, 0); !errors.Is(err, unix.ENOENT) {
			return fd, err
		}
	}
	return unix.Openat(int(d.lock.Fd()), name, flags, 0)
}
