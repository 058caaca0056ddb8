package isolation

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

	"golang.org/x/sys/unix"
)

const (
	// attachFolderMode lets plugins of other users reach their socket and nobody list what is there.
	attachFolderMode fs.FileMode = 0o711
	// ownSocketMode is for sockets that only root and our own user use; sharedSocketMode for those of other users, where the uid that the kernel tells decides.
	ownSocketMode, sharedSocketMode fs.FileMode = 0o600, 0o666
	// writableByOthers is the write permission of the group and of everybody.
	writableByOthers fs.FileMode = 0o022
	// answerLimit bounds the question whether somebody answers on a socket that is already there; on one host connect takes microseconds.
	answerLimit = time.Second
)

// attachSocket is a listening socket and the file by which it is reached.
type attachSocket struct {
	*net.UnixListener
	path string
	info fs.FileInfo // of the file that we made
}

// listenAt listens at path. Folders that are missing are made; those that exist are left alone, because pods may have them mounted. A socket on which nobody answers is replaced.
func listenAt(ctx context.Context, path string, uids []uint32) (*attachSocket, error) {
	if !filepath.IsAbs(path) || len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen at %q: use an absolute path of at most %d bytes", path, maxSocketPath)
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("listen at %q: %w", path, causeOf(err))
	}
	l.SetUnlinkOnClose(false) // Close looks first whether the file is still ours
	s := &attachSocket{UnixListener: l, path: path}
	mode := sharedSocketMode
	if onlyOurs(uids) {
		mode = ownSocketMode
	}
	if err := chmodSocket(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of %q: %w", path, causeOf(err)), l.Close())
	}
	if s.info, err = os.Lstat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("look at %q: %w", path, causeOf(err)), l.Close())
	}
	return s, nil
}

// chmodSocket sets the mode of the socket at path, and of nothing else: whoever can write to the folder may have put a link there.
func chmodSocket(path string, mode fs.FileMode) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("it is no socket any more: who else can write to its folder?")
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

// Close stops listening and removes the file, unless somebody else has put another in its place. The folder stays.
func (s *attachSocket) Close() error {
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
		_ = os.Remove(s.path) // a stale one is replaced by the next start
	}
	return s.UnixListener.Close()
}

func onlyOurs(uids []uint32) bool {
	for _, uid := range uids {
		if uid != 0 && int(uid) != os.Geteuid() {
			return false
		}
	}
	return true
}

// MakeDockFolder makes the folder of a DockSpec.Socket if it is missing, as OpenDock does: a process has hidden from it only what there is at its start.
func MakeDockFolder(socket string) error { return makeFolder(filepath.Dir(socket)) }

// makeFolder makes what is missing of a path of folders, whatever the umask says.
func makeFolder(folder string) error {
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return nil // whatever else is wrong with it, its user says
	}
	if parent := filepath.Dir(folder); parent != folder {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(folder, attachFolderMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(folder, attachFolderMode)
	}
	if err != nil {
		return fmt.Errorf("create folder %q: %w", folder, causeOf(err))
	}
	return nil
}

// checkFolder refuses a folder in which others could replace the socket.
func checkFolder(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return fmt.Errorf("look at folder %q: %w", folder, causeOf(err))
	}
	if info.Mode()&writableByOthers != 0 {
		return fmt.Errorf("folder %q can be written by others (mode %04o): chmod go-w it", folder, info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("folder %q belongs to uid %d, neither root nor the user running this: chown it", folder, st.Uid)
	}
	return nil
}

// removeStale removes a socket on which nobody answers. Anything else that is in the way stays and is an error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at %q: %w", path, causeOf(err))
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%q exists and is not a socket: remove it", path)
	}
	d := net.Dialer{Timeout: answerLimit}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("somebody else answers at %q: each attached plugin needs a socket of its own", path), conn.Close())
	case !errors.Is(err, syscall.ECONNREFUSED): // a full queue, for one, has a listener behind it
		return fmt.Errorf("ask who answers at %q: %w; if nobody does, remove it", path, causeOf(err))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket %q: %w", path, causeOf(err))
	}
	return nil
}

// causeOf leaves out the parts of a file or socket error that the caller's message has already.
func causeOf(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
