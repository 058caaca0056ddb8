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
// such paths lie, the values the topmost folder that is frozen for them.
func FrozenBelow() map[string]string {
	return map[string]string{"/run": "/run", "/var/run": "/var/run", "/var/snap": "/var"}
}

// levels are the folders to freeze, each resolved, wherever they are mounted, those above others first. A listed path that can be written is as the
// host has it, and so is what is hidden as a whole.
func (o *order) levels(mounts []mounted, list []shown, masks []mask) []string {
	var out []string
	add := func(path string) {
		if path != "/" && !slices.Contains(out, path) && freezes(path, list, masks) {
			out = append(out, path)
		}
	}
	for _, hidden := range o.Hide {
		for below, top := range FrozenBelow() {
			if hidden == below || !within(hidden, below) {
				continue
			}
			for dir := filepath.Dir(hidden); within(dir, top); dir = filepath.Dir(dir) {
				target, err := filepath.EvalSymlinks(dir)
				if err != nil {
					continue // not there: the one above it has no such entry
				}
				add(target)
				same, _ := mask{path: target}.elsewhere(mounts)
				for _, path := range same {
					add(path)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(a) - len(b) })
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

// freeze puts a read-only folder over another one, with the entries that this one has now. What is hidden is an empty place.
func freeze(path string, masks []mask) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("freeze %q: %w", path, pathCause(err))
		}
	}()
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
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
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return err
	}
	for _, e := range entries {
		place := filepath.Join(path, e.Name())
		n := slices.IndexFunc(masks, func(m mask) bool { return m.path == place })
		switch {
		case n >= 0:
			err = makeEmpty(place, masks[n].dir)
		case e.Type() == fs.ModeSymlink:
			err = copyLink(dir, e.Name(), place)
		default:
			err = keepEntry(dir, e, place)
		}
		// What is gone meanwhile, or is something else by now, has come after the start.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("%q: %w", e.Name(), err)
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
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
