package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tmpSize bounds a private temporary directory; it counts for the memory limit of the plugin as well.
const tmpSize = "64m"

// kept is a path that stays visible although a folder above it is hidden.
type kept struct {
	path string
	fd   *os.File
	dir  bool
}

// remount gives this thread a mount namespace of its own, in which files are hidden and protected as the order says. Mounts that
// the host makes later still arrive.
func (o *order) remount() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	for _, path := range o.Protect {
		if err := setReadOnly(path, true); err != nil {
			return err
		}
	}
	own, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return fmt.Errorf("look at own directory: %w", err)
	}
	for _, path := range append([]string{own}, o.Writable...) {
		if slices.ContainsFunc(o.Protect, func(p string) bool { return within(path, p) }) {
			if err := setReadOnly(path, false); err != nil {
				return err
			}
		}
	}
	if err := o.closeDevices(); err != nil {
		return err
	}
	defer unix.Umask(unix.Umask(0)) // what is made here has the mode that is written here
	masks := o.masks()
	keep, err := o.openKept(masks)
	if err != nil {
		return err
	}
	defer func() {
		for _, k := range keep {
			_ = k.fd.Close() // O_PATH
		}
	}()
	for _, m := range masks {
		if err := m.apply(); err != nil {
			return err
		}
	}
	for _, k := range keep {
		if err := k.show(); err != nil {
			return err
		}
	}
	// The working directory is still the one below the hidden folder: from there .. leads to what is hidden.
	if err := os.Chdir(o.Dir); err != nil {
		return fmt.Errorf("enter own directory: %w", err)
	}
	return nil
}

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// setReadOnly makes a path and the mounts below it read-only, or writable again. A path that does not exist needs no protection.
func setReadOnly(path string, readOnly bool) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		if errors.Is(err, unix.ENOENT) && readOnly {
			return nil
		}
		return fmt.Errorf("protect %q: %w", path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if !readOnly {
		attr = unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("protect %q: %w", path, err)
	}
	return nil
}

// closeDevices makes devices mere files, on every mount, but for those of the order.
func (o *order) closeDevices() error {
	if o.Devices == nil {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV}); err != nil {
		return fmt.Errorf("close devices: %w", err)
	}
	for _, path := range o.Devices {
		if !within(path, "/dev") { // the lists have other paths as well
			continue
		}
		err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, unix.ENOENT) && slices.Contains(systemDevices(), path) {
			continue
		}
		if err == nil {
			err = unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NODEV})
		}
		if err != nil {
			return fmt.Errorf("open device %q: %w", path, err)
		}
	}
	return nil
}

// mask is a path that is hidden.
type mask struct {
	path string
	dir  bool
	tmp  bool // a temporary directory, which the plugin may use
	uid  int
	gid  int
}

// masks are the paths to hide that exist, each resolved, those above others first.
func (o *order) masks() []mask {
	var out []mask
	add := func(path string, tmp bool) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return // nothing is there
		}
		info, err := os.Lstat(target)
		if err != nil || slices.ContainsFunc(out, func(m mask) bool { return m.path == target }) {
			return
		}
		m := mask{path: target, dir: info.IsDir(), tmp: tmp}
		if o.User != nil {
			m.uid, m.gid = int(o.User.UID), int(o.User.GID)
		}
		out = append(out, m)
	}
	for _, path := range o.PrivateTmp {
		add(path, true)
	}
	for _, path := range o.Hide {
		add(path, false)
	}
	slices.SortStableFunc(out, func(a, b mask) int { return len(a.path) - len(b.path) })
	return out
}

// apply hides the path: an empty folder, or a file that is no socket.
func (m mask) apply() error {
	var err error
	switch {
	case m.tmp:
		err = unix.Mount("tmpfs", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size="+tmpSize)
	case m.dir:
		err = unix.Mount("tmpfs", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0711,size=1m")
	default:
		err = unix.Mount("/dev/null", m.path, "", unix.MS_BIND, "")
	}
	if errors.Is(err, unix.ENOENT) {
		return nil // below another one that is hidden by now
	}
	if err != nil {
		return fmt.Errorf("hide %q: %w", m.path, err)
	}
	return nil
}

// openKept opens what stays visible below the masks: the own directory, and the paths that the manifest lists.
func (o *order) openKept(masks []mask) ([]kept, error) {
	var out []kept
	for _, path := range slices.Concat([]string{o.Dir}, o.Readable, o.Writable) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return out, fmt.Errorf("show %q: %w", path, pathCause(err))
		}
		if !slices.ContainsFunc(masks, func(m mask) bool { return within(target, m.path) }) {
			continue
		}
		fd, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return out, fmt.Errorf("show %q: %w", path, err)
		}
		f := os.NewFile(uintptr(fd), target)
		info, err := f.Stat()
		if err != nil {
			return append(out, kept{fd: f}), fmt.Errorf("show %q: %w", path, pathCause(err))
		}
		out = append(out, kept{path: target, fd: f, dir: info.IsDir()})
	}
	slices.SortStableFunc(out, func(a, b kept) int { return len(a.path) - len(b.path) })
	return out, nil
}

// show puts the path back in its place.
func (k kept) show() error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o711); err != nil { //nolint:gosec // the plugin may have another user
		return fmt.Errorf("show %q: %w", k.path, err)
	}
	var err error
	if k.dir {
		err = os.Mkdir(k.path, 0o711) //nolint:gosec // as above; what is mounted here has a mode of its own
	} else {
		err = os.WriteFile(k.path, nil, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("show %q: %w", k.path, err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", k.fd.Fd()), k.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show %q: %w", k.path, err)
	}
	return nil
}

// leaveNetwork gives this thread an empty network with nothing but a loopback device, which is switched on.
func leaveNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make an empty network: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switch the loopback device on: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("lo")
	if err == nil {
		ifr.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
	}
	if err != nil {
		return fmt.Errorf("switch the loopback device on: %w", err)
	}
	return nil
}
