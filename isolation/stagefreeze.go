package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// FrozenBelow are the folders in which a path of Confinement.Hide stays hidden although it does not exist at the start, or is made anew later: a plugin
// sees each folder between one of these and the hidden path with the entries that it had at the start, and the entries as they are. The keys are where
// such paths lie, the values the topmost folder that is frozen for them. Safe for concurrent use.
func FrozenBelow() map[string]string {
	return map[string]string{"/run": "/run", "/var/run": "/var/run", "/var/snap": "/var"}
}

// level is a folder to freeze.
type level struct {
	path string
	// hidden are the names in it that are paths of Confinement.Hide, absent those that lead to one and are not there.
	hidden, absent []string
}

// levels are the folders to freeze, each resolved, wherever they are mounted, those above others first. A listed path that can be written is as the
// host has it, and so is what is hidden as a whole.
func (o *order) levels(mounts []mounted, list []shown, masks []mask) []level {
	var out []level
	type entry struct {
		level  int
		hidden string
	}
	var entries []entry
	for _, hidden := range o.Hide {
		for below, top := range FrozenBelow() {
			if hidden == below || !within(hidden, below) {
				continue
			}
			child, missing := hidden, false
			for dir := filepath.Dir(hidden); within(dir, top); child, dir = dir, filepath.Dir(dir) {
				target, strange, err := o.settle(dir)
				if err != nil || strange {
					missing = true // the one above it has no such entry
					continue
				}
				same, _ := mask{path: target}.elsewhere(mounts)
				for _, path := range append(same, target) {
					if path == "/" || !freezes(path, list, masks) {
						continue
					}
					n := slices.IndexFunc(out, func(l level) bool { return l.path == path })
					if n < 0 {
						n, out = len(out), append(out, level{path: path})
					}
					switch {
					case child == hidden:
						out[n].hidden = append(out[n].hidden, filepath.Base(child))
						entries = append(entries, entry{n, hidden})
					case missing:
						out[n].absent = append(out[n].absent, filepath.Base(child))
					}
				}
				missing = false
			}
		}
	}
	for _, e := range entries {
		if o.leadsOut(e.hidden, out, list) {
			out[e.level].absent = append(out[e.level].absent, filepath.Base(e.hidden))
		}
	}
	slices.SortFunc(out, func(a, b level) int { return len(a.path) - len(b.path) })
	return out
}

// leadsOut tells whether a hidden path is a link to a place outside of what is frozen, where the mask over it would be gone with the file that it lies on. It has to be left out, unless it is
// listed.
func (o *order) leadsOut(hidden string, frozen []level, list []shown) bool {
	if info, err := os.Lstat(hidden); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	target, strange, err := o.settle(hidden)
	if err != nil || strange {
		return true
	}
	return !slices.ContainsFunc(frozen, func(l level) bool { return l.path == filepath.Dir(target) }) &&
		!slices.ContainsFunc(list, func(s shown) bool { return within(s.path, target) || within(target, s.path) })
}

// freezes tells whether a folder is to be frozen: what is said of the nearest path above it decides.
func freezes(path string, list []shown, masks []mask) bool {
	depth, ok := 0, true
	for _, m := range masks {
		if within(path, m.path) && len(m.path) > depth {
			depth, ok = len(m.path), false
		}
	}
	for _, s := range list {
		if within(path, s.path) && len(s.path) >= depth {
			depth, ok = len(s.path), !s.writable
		}
	}
	return ok
}

// freeze puts a read-only folder over this one, with the entries that it has now. What is hidden is an empty place, or not there: the masks were made
// before, and what came since then is not among them.
func (l level) freeze(masks []mask) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("freeze %q: %w", l.path, pathCause(err))
		}
	}()
	place, err := openPlace(l.path)
	if absent(err) {
		return nil // below another one that is hidden by now
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(place) }() // a place
	fd, err := unix.Openat(place, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil // somebody put something else there
	}
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), l.path)
	defer func() { _ = dir.Close() }() // read only
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	// An entry takes an inode; a page, if it is a link to a long path.
	options := map[string]string{
		"mode": fmt.Sprintf("%04o", st.Mode&0o1777), "size": fmt.Sprintf("%dk", 64+4*len(entries)), "nr_inodes": strconv.Itoa(16 + len(entries)),
	}
	frozen, err := newTmpfs(options, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(frozen) }() // a mount
	if err := attach(frozen, place); err != nil {
		return err
	}
	for _, e := range entries {
		path, link := filepath.Join(l.path, e.Name()), e.Type() == fs.ModeSymlink
		n := slices.IndexFunc(masks, func(m mask) bool { return m.path == path })
		switch {
		case n >= 0:
			err = makeEmpty(frozen, e.Name(), masks[n].dir)
		case slices.Contains(l.absent, e.Name()), slices.Contains(l.hidden, e.Name()) && !link: // a link leads to what is hidden itself
			continue
		case link:
			err = copyLink(fd, frozen, e.Name())
		default:
			err = keepEntry(fd, frozen, e)
		}
		// What is gone meanwhile, or is something else by now, has come after the start.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("%q: %w", e.Name(), err)
		}
	}
	return unix.MountSetattr(frozen, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// keepEntry shows in the frozen folder what a folder has under a name, with the mounts in there.
func keepEntry(dir, frozen int, e fs.DirEntry) error {
	const how = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	tree, err := unix.OpenTree(dir, e.Name(), how)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(tree) }() // a mount
	if err := makeEmpty(frozen, e.Name(), e.IsDir()); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", frozen, e.Name(), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func copyLink(dir, frozen int, name string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, target)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(target[:n]), frozen, name)
}
