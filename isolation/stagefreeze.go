package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
	for _, hidden := range o.Hide {
		for below, top := range FrozenBelow() {
			if hidden == below || !within(hidden, below) {
				continue
			}
			child, missing := hidden, false
			for dir := filepath.Dir(hidden); within(dir, top); child, dir = dir, filepath.Dir(dir) {
				target, err := filepath.EvalSymlinks(dir)
				if err != nil {
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
					case missing:
						out[n].absent = append(out[n].absent, filepath.Base(child))
					}
				}
				missing = false
			}
		}
	}
	slices.SortFunc(out, func(a, b level) int { return len(a.path) - len(b.path) })
	return out
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
	dir, err := os.OpenFile(l.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // below another one that is hidden by now
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // read only
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	// An entry takes an inode; a page, if it is a link to a long path.
	options := fmt.Sprintf("mode=%04o,size=%dk,nr_inodes=%d", st.Mode&0o1777, 64+4*len(entries), 16+len(entries))
	if err := unix.Mount("tmpfs", l.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return err
	}
	for _, e := range entries {
		place, link := filepath.Join(l.path, e.Name()), e.Type() == fs.ModeSymlink
		n := slices.IndexFunc(masks, func(m mask) bool { return m.path == place })
		switch {
		case n >= 0:
			err = makeEmpty(place, masks[n].dir)
		case slices.Contains(l.absent, e.Name()), slices.Contains(l.hidden, e.Name()) && !link: // a link leads to what is hidden itself
			continue
		case link:
			err = copyLink(dir, e.Name(), place)
		default:
			err = keepEntry(dir, e, place)
		}
		// What is gone meanwhile, or is something else by now, has come after the start.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("%q: %w", e.Name(), err)
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, l.path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// keepEntry shows at a place what a folder has under a name, with the mounts in there.
func keepEntry(dir *os.File, e fs.DirEntry, place string) error {
	const how = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	tree, err := unix.OpenTree(int(dir.Fd()), e.Name(), how)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(tree) }() // a mount
	if err := makeEmpty(place, e.IsDir()); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// makeEmpty makes something that can be mounted on.
func makeEmpty(place string, dir bool) error {
	if dir {
		return unix.Mkdir(place, 0o711)
	}
	return unix.Mknod(place, unix.S_IFREG|0o600, 0)
}

func copyLink(dir *os.File, name, place string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, target)
	if err != nil {
		return err
	}
	return unix.Symlink(string(target[:n]), place)
}
