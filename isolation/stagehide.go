package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// mask is a path that is hidden.
type mask struct {
	path string
	dir  bool
	tmp  bool // a temporary directory, which the plugin may use
}

// masks are the paths to hide that exist, each resolved, wherever they are mounted, those above others first. A link in a folder that somebody may write to is none: what it leads
// to is no runtime's own.
func (o *order) masks(mounts []mounted) ([]mask, error) {
	var out []mask
	add := func(path string, tmp bool) error {
		target, strange, err := o.settle(path)
		switch known := slices.ContainsFunc(out, func(m mask) bool { return m.path == target }); {
		case absent(err), strange, known:
			return nil
		case err != nil:
			return fmt.Errorf("hide %q: %w", path, err)
		}
		if slices.ContainsFunc([]string{"/usr", "/etc", "/proc", "/sys", "/dev"}, func(system string) bool { return within(system, target) }) {
			return fmt.Errorf("hide %q: that is %q, without which no plugin runs: write another path", path, target)
		}
		if info, err := os.Lstat(target); err == nil { // else it went away meanwhile
			out = append(out, mask{path: target, dir: info.IsDir(), tmp: tmp})
		}
		return nil
	}
	var errs []error
	for _, path := range o.PrivateTmp {
		errs = append(errs, add(path, true))
	}
	for _, path := range o.Hide {
		errs = append(errs, add(path, false))
	}
	for _, m := range slices.Clone(out) {
		if !m.tmp {
			same, parts := m.elsewhere(mounts)
			for _, path := range slices.Concat(same, parts) {
				errs = append(errs, add(path, false))
			}
		}
	}
	out = append(out, o.rest(out)...)
	slices.SortStableFunc(out, func(a, b mask) int { return len(a.path) - len(b.path) })
	return out, errors.Join(errs...)
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

// apply hides the path: an empty folder, or a file that is no socket. What is there is looked at only now, and by one descriptor: somebody may have put something else there since. If
// shows is set, something is to be shown below it.
func (m mask) apply(shows bool) error {
	cover := func(place int) error {
		kind, err := kindOf(place)
		if err != nil {
			return err
		}
		options, attributes := map[string]string{"mode": "0711", "size": "1m", "nr_inodes": "1k"}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV
		var tree int
		switch {
		case m.tmp:
			options = ownOptions()
			options["mode"] = "1777"
			tree, err = newTmpfs(options, attributes)
		case kind == unix.S_IFDIR:
			attributes |= unix.MOUNT_ATTR_NOEXEC
			if !shows {
				attributes |= unix.MOUNT_ATTR_RDONLY
			}
			tree, err = newTmpfs(options, attributes)
		default:
			tree, err = unix.OpenTree(unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		}
		if err != nil {
			return err
		}
		return errors.Join(attach(tree, place), unix.Close(tree))
	}
	err := atPlace(m.path, cover)
	if m.tmp && errors.Is(err, unix.ENOENT) { // below another one that is hidden by now
		if err = makePlace(m.path, true); err == nil {
			err = atPlace(m.path, cover)
		}
	}
	if err != nil && !absent(err) { // below another one that is hidden by now, or gone
		return fmt.Errorf("hide %q: %w", m.path, err)
	}
	return nil
}

// seal makes the empty folder that hides a path read-only, when what is shown below it is in its place.
func (m mask) seal() error {
	if m.tmp || !m.dir {
		return nil
	}
	err := atPlace(m.path, func(place int) error {
		return unix.MountSetattr(place, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	})
	if err != nil && !absent(err) && !errors.Is(err, unix.EINVAL) { // below another one: nothing is there, or no mount
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
			if target, ok := o.settled[path]; ok {
				used[i] = target
			} else if target, strange, err := o.settle(path); err == nil && !strange {
				used[i] = target
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(mounts), func(at mounted) bool {
		point := at.point
		hidden := slices.ContainsFunc(masks, func(m mask) bool { return m.dir && point != m.path && within(point, m.path) })
		useless := o.ConfineFiles && !slices.ContainsFunc(used, func(path string) bool { return within(path, point) || within(point, path) })
		if hidden || useless {
			_ = unmount(point) // it may be gone with the one above it
		}
		return hidden || useless
	})
}
