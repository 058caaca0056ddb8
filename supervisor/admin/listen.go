package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// maxSocketPath is the longest path of a unix socket in bytes: sun_path of unix(7) has 108 with the NUL at the end.
	maxSocketPath = 107
	// folderMode and socketMode keep everybody out but the supervisor's own user and root.
	folderMode fs.FileMode = 0o700
	socketMode fs.FileMode = 0o600
	// passMode, groupMode and openMode let those in who have a role.
	passMode  fs.FileMode = 0o711
	groupMode fs.FileMode = 0o660
	openMode  fs.FileMode = 0o666
	// writableByOthers is the write permission of the group and of everybody.
	writableByOthers fs.FileMode = 0o022
	// probeLimit bounds the question whether somebody answers on a socket file that is already there; on one host connect takes microseconds.
	probeLimit = time.Second
)

// checkSocketPath refuses paths that the kernel, or Go's net package, would take for something else.
func checkSocketPath(path string) error {
	switch {
	case path == "":
		return errors.New("the path of the admin socket is empty")
	case !filepath.IsAbs(path): // "@name" would be an abstract socket, which has no permissions
		return fmt.Errorf("the path %q of the admin socket is not absolute: start it with /", path)
	case len(path) > maxSocketPath:
		return fmt.Errorf("the path %q of the admin socket has %d bytes, and unix sockets allow %d: choose a shorter one", path, len(path), maxSocketPath)
	}
	return nil
}

// socketFile is a listening socket and the file by which it is reached.
type socketFile struct {
	*net.UnixListener
	path string
	info fs.FileInfo // of the file that we made
}

// listen makes the folder if it does not exist, and the socket in it.
func listen(ctx context.Context, path string, roles Roles) (*socketFile, error) {
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	mode, folder := socketMode, folderMode
	gid, others := roles.reach()
	switch {
	case others:
		mode, folder = openMode, passMode
	case gid >= 0:
		mode, folder = groupMode, passMode
	}
	if err := prepareFolder(filepath.Dir(path), folder); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, errnoOf(err))
	}
	l.SetUnlinkOnClose(false) // Close looks first whether the file is still ours
	s := &socketFile{UnixListener: l, path: path}
	// Until here the mode is what the umask left. Nobody gains by that: whoever connects is asked for by SO_PEERCRED.
	if gid >= 0 && !others {
		if err := os.Lchown(path, -1, gid); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("give %q to gid %d, which has a role: %w", path, gid, errnoOf(err))
		}
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("set the mode of %q: %w", path, errnoOf(err))
	}
	if s.info, err = os.Lstat(path); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("look at %q: %w", path, errnoOf(err))
	}
	return s, nil
}

// Close stops listening and removes the file, unless somebody else has put another in its place.
func (s *socketFile) Close() error {
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
		_ = os.Remove(s.path)
	}
	return s.UnixListener.Close()
}

// prepareFolder makes the folder, and refuses one in which others could replace the socket.
func prepareFolder(folder string, mode fs.FileMode) error {
	if err := os.MkdirAll(folder, mode); err != nil {
		return fmt.Errorf("create the folder of the admin socket %q: %w", folder, errnoOf(err))
	}
	info, err := os.Stat(folder)
	if err != nil {
		return fmt.Errorf("look at the folder of the admin socket %q: %w", folder, errnoOf(err))
	}
	if info.Mode()&writableByOthers != 0 {
		return fmt.Errorf("the folder of the admin socket %q can be written by others (mode %04o): chmod go-w it, or set spec.admin.socket elsewhere",
			folder, info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !trustedOwner(int(st.Uid), os.Geteuid()) {
		return fmt.Errorf("the folder of the admin socket %q belongs to uid %d, neither root nor the user running this: chown it, or set spec.admin.socket elsewhere",
			folder, st.Uid)
	}
	return nil
}

// trustedOwner says whether whoever owns the folder could replace the supervisor anyway.
func trustedOwner(owner, euid int) bool { return owner == 0 || owner == euid }

// removeStale removes a socket on which nobody answers. Anything else that is in the way stays and is an error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at %q: %w", path, errnoOf(err))
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%q exists and is not a socket: remove it, or set spec.admin.socket elsewhere", path)
	}
	d := net.Dialer{Timeout: probeLimit}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("somebody already answers on %q: stop the other nri-supervisor, or set spec.admin.socket elsewhere", path)
	case !errors.Is(err, syscall.ECONNREFUSED): // a full queue, for one, has a listener behind it
		return fmt.Errorf("ask who answers on %q: %w; if nobody does, remove it", path, errnoOf(err))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket %q: %w", path, errnoOf(err))
	}
	return nil
}

// errnoOf leaves out the parts of a file or socket error that the caller's message has already.
func errnoOf(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
