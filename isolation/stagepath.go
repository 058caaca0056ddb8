package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the links on the way to a path, as path_resolution(7) does.
const maxLinks = 40

// settle resolves a path by the links of folders that only the host's own programs write to, as /bin -> usr/bin. What lies in another folder somebody may replace at any
// moment: its links are not followed. strange is set if there is one on the way; the path is then that of the link, with the rest behind it.
func (o *order) settle(path string) (settled string, strange bool, err error) {
	settled, _, err = o.settleTo(path)
	if errors.Is(err, errStrange) {
		return settled, true, nil
	}
	return settled, false, err
}

// errStrange ends settleTo at a link that somebody may replace.
var errStrange = errors.New("a link in a folder that others can change")

// settleTo is settle that tells where it ended with an error.
func (o *order) settleTo(path string) (settled, where string, err error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		place := filepath.Join(at, name)
		info, err := os.Lstat(place)
		if err != nil {
			return "", place, pathCause(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = place
			continue
		}
		if !o.rootOnly(at) {
			return filepath.Join(append([]string{place}, rest...)...), place, errStrange
		}
		if links++; links > maxLinks {
			return "", place, unix.ELOOP
		}
		to, err := os.Readlink(place)
		if err != nil {
			return "", place, pathCause(err)
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, at, nil
}

// rootOnly tells whether a folder is one whose entries no plugin can change, if none has more than its profile: the root folder, those that are protected in each profile, and
// those that are frozen in each; but not those that a list makes writable. In /var/lib a protected folder that the host does not have can be made by anybody, and then no one protects its entries.
func (o *order) rootOnly(dir string) bool {
	if dir == "/" {
		return true
	}
	for below, top := range FrozenBelow() {
		if within(dir, top) && within(below, dir) {
			return true
		}
	}
	frozen := slices.ContainsFunc(o.Hide, func(hidden string) bool {
		return hidden != dir && within(hidden, dir) && within(dir, "/var/snap")
	})
	n := slices.IndexFunc(protectedPaths(), func(p string) bool { return within(dir, p) && !within(p, "/var/lib") })
	if n < 0 {
		return frozen
	}
	listed := slices.ContainsFunc(o.shared, func(l string) bool {
		return within(dir, l) && within(l, protectedPaths()[n]) && l != protectedPaths()[n]
	})
	for ok := !listed; ok && dir != "/"; dir = filepath.Dir(dir) { // of the folders above as well: in /home they are others'
		info, err := os.Lstat(dir)
		ok = err == nil && trustedFolder(info)
		if !ok {
			return false
		}
	}
	return !listed
}

// findShared finds the folders that lists make writable, by the links that lead there, too.
func (o *order) findShared() {
	lists := slices.Concat(o.Writable, o.Written)
	found := slices.Clone(lists)
	for _, path := range lists {
		if target, _, err := o.settle(path); err == nil {
			found = append(found, target)
		}
	}
	o.shared = found
}

// trustedFolder tells whether the mode of a folder lets only root, or who runs this, write to it.
func trustedFolder(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Mode&0o022 == 0 && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// absent tells whether an error says that a path leads to nothing.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// openPlace opens what is at a path, without any link on the way, as a place to mount on.
func openPlace(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// atPlace does something with what is at a path, if something is: what is no link itself, nor below one.
func atPlace(path string, do func(place int) error) error {
	fd, err := openPlace(path)
	if err != nil {
		return err
	}
	kind, err := kindOf(fd)
	switch {
	case err != nil:
	case kind == unix.S_IFLNK:
		err = unix.ELOOP
	default:
		err = do(fd)
	}
	return errors.Join(err, unix.Close(fd))
}

// kindOf is the type in the mode of what is open, as this kernel knows it: the server of a file system may not answer.
func kindOf(fd int) (uint16, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return 0, err
	}
	return st.Mode & unix.S_IFMT, nil
}

// inFolder does something with an entry of a folder that no link leads to. The entry is not looked at: it may be that of a server that does not answer.
func inFolder(path string, do func(folder int, name string) error) error {
	return atPlace(filepath.Dir(path), func(folder int) error { return do(folder, filepath.Base(path)) })
}

// unmount takes a mount out of this namespace, and does nothing else, whatever its path leads to by now.
func unmount(point string) error {
	return inFolder(point, func(folder int, name string) error {
		return unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", folder, name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	})
}

// attach mounts a tree, or a new file system, at an open place.
func attach(tree, place int) error {
	return unix.MoveMount(tree, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// makePlace makes what is missing of a path that something shall be mounted at, without following a link.
func makePlace(path string, dir bool) error {
	at, err := openPlace("/")
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	names := strings.Split(strings.Trim(path, "/"), "/")
	for n, name := range names {
		how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
		next, err := unix.Openat2(at, name, how)
		if errors.Is(err, unix.ENOENT) {
			if err = makeEmpty(at, name, dir || n < len(names)-1); err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
			next, err = unix.Openat2(at, name, how)
		}
		if err != nil {
			return err
		}
		_ = unix.Close(at) // a place
		at = next
	}
	return nil
}

// makeEmpty makes something that can be mounted on.
func makeEmpty(folder int, name string, dir bool) error {
	if dir {
		return unix.Mkdirat(folder, name, 0o711)
	}
	return unix.Mknodat(folder, name, unix.S_IFREG|0o600, 0)
}
