package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mask is a path that is hidden.
type mask struct {
	path string
	dir  bool
	tmp  bool // a temporary directory, which the plugin may use
}

// masks are the paths to hide that exist, each resolved, wherever they are mounted, those above others first.
func (o *order) masks(mounts []mounted) []mask {
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
		out = append(out, mask{path: target, dir: info.IsDir(), tmp: tmp})
	}
	for _, path := range o.PrivateTmp {
		add(path, true)
	}
	for _, path := range o.Hide {
		add(path, false)
	}
	for _, m := range slices.Clone(out) {
		if !m.tmp {
			same, parts := m.elsewhere(mounts)
			for _, path := range slices.Concat(same, parts) {
				add(path, false)
			}
		}
	}
	out = append(out, o.rest(out)...)
	slices.SortStableFunc(out, func(a, b mask) int { return len(a.path) - len(b.path) })
	return out
}

// rest are the folders in the root that a plugin with confined files has no use of, unless it lists all: Landlock keeps it from their files, but not from
// their sockets. They are not looked at: the server of one may not answer.
func (o *order) rest(masks []mask) []mask {
	if !o.ConfineFiles || slices.Contains(o.Readable, "/") || slices.Contains(o.Writable, "/") {
		return nil
	}
	var used []string
	for _, r := range o.Rules {
		if target, err := filepath.EvalSymlinks(r.Path); err == nil && r.System && !slices.Contains(o.PrivateTmp, r.Path) {
			used = append(used, target)
		}
	}
	top, err := topFolders()
	if err != nil {
		return nil // who cannot read the root folder cannot mount either
	}
	var out []mask
	for _, path := range top {
		known := slices.ContainsFunc(masks, func(m mask) bool { return m.path == path })
		if !known && !slices.ContainsFunc(used, func(u string) bool { return within(u, path) }) {
			out = append(out, mask{path: path, dir: true})
		}
	}
	return out
}

// apply hides the path: an empty folder, or a file that is no socket.
func (m mask) apply() error {
	var err error
	switch {
	case m.tmp:
		options := []string{"mode=1777"}
		for name, value := range ownOptions() {
			options = append(options, name+"="+value)
		}
		mount := func() error {
			return unix.Mount("tmpfs", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, strings.Join(options, ","))
		}
		if err = mount(); errors.Is(err, unix.ENOENT) { // below another one that is hidden by now
			if err = os.MkdirAll(m.path, 0o711); err == nil { //nolint:gosec // the plugin may have another user
				err = mount()
			}
		}
	case m.dir:
		err = unix.Mount("tmpfs", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0711,size=1m,nr_inodes=1k")
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

// seal makes the empty folder that hides a path read-only, when what is shown below it is in its place.
func (m mask) seal() error {
	if m.tmp || !m.dir {
		return nil
	}
	err := unix.MountSetattr(unix.AT_FDCWD, m.path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // below another one: nothing is there, or no mount
		return fmt.Errorf("hide %q: %w", m.path, err)
	}
	return nil
}

// detach takes the mounts out of this namespace that the plugin cannot reach: below what is hidden and, if its files are confined, those of
// no rule. A mount that stayed would keep the host from using its device for something else after it has unmounted it there. It returns those that stay.
func (o *order) detach(masks []mask, mounts []mounted) []mounted {
	var used []string
	if o.ConfineFiles {
		used = []string{o.Dir, o.Path}
		for _, r := range o.Rules {
			used = append(used, r.Path)
		}
		for i, path := range used {
			if target, err := filepath.EvalSymlinks(path); err == nil {
				used[i] = target
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(mounts), func(at mounted) bool {
		point := at.point
		hidden := slices.ContainsFunc(masks, func(m mask) bool { return m.dir && point != m.path && within(point, m.path) })
		useless := o.ConfineFiles && !slices.ContainsFunc(used, func(path string) bool { return within(path, point) || within(point, path) })
		if hidden || useless {
			_ = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // it may be gone with the one above it
		}
		return hidden || useless
	})
}
