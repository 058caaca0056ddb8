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

// shown is a path of the manifest's lists, or the plugin's own directory, as a mount that is not in its place yet. What the host mounts
// below it later still arrives.
type shown struct {
	path string
	tree *os.File
	dir  bool
	// writable is set for what can be written.
	writable bool
}

// openShown opens what the manifest lists, as the host has it. own is the plugin's directory without links.
func (o *order) openShown(own string) (out []shown, err error) {
	defer func() {
		if err != nil {
			closeShown(out)
		}
	}()
	add := func(path string, set uint64) error {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("show %q: %w", path, pathCause(err))
		}
		if target == "/" { // all that is not protected can be written anyway
			return nil
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("show %q: %w", path, err)
		}
		s := shown{path: target, tree: os.NewFile(uintptr(fd), target), writable: set&unix.MOUNT_ATTR_RDONLY == 0}
		out = append(out, s)
		info, err := s.tree.Stat()
		if err != nil {
			return fmt.Errorf("show %q: %w", path, pathCause(err))
		}
		out[len(out)-1].dir = info.IsDir()
		if o.Devices != nil && !within(target, "/dev") {
			set |= unix.MOUNT_ATTR_NODEV
		}
		if set == 0 {
			return nil
		}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set}); err != nil {
			return fmt.Errorf("show %q: %w", path, err)
		}
		return nil
	}
	for _, path := range o.Readable {
		if err := add(path, unix.MOUNT_ATTR_RDONLY); err != nil {
			return out, err
		}
	}
	for _, path := range o.Writable {
		if err := add(path, 0); err != nil {
			return out, err
		}
	}
	if o.OwnFiles {
		out = append(out, shown{path: own, tree: os.NewFile(stageOwnFiles, own), dir: true, writable: true})
		return out, nil
	}
	return out, add(own, 0)
}

func closeShown(list []shown) {
	for _, s := range list {
		_ = s.tree.Close() // a mount
	}
}

// place puts the path into its place, which exists unless a folder above it is hidden.
func (s shown) place() error {
	if err := s.makePlace(); err != nil {
		return fmt.Errorf("show %q: %w", s.path, err)
	}
	if err := unix.MoveMount(int(s.tree.Fd()), "", unix.AT_FDCWD, s.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("show %q: %w", s.path, err)
	}
	return nil
}

func (s shown) makePlace() error {
	if _, err := os.Lstat(s.path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o711); err != nil { //nolint:gosec // the plugin may have another user
		return pathCause(err)
	}
	var err error
	if s.dir {
		err = os.Mkdir(s.path, 0o711) //nolint:gosec // as above; what is mounted here has a mode of its own
	} else {
		err = os.WriteFile(s.path, nil, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return pathCause(err)
	}
	return nil
}

// split divides the list into what lies below a mask, or takes its place, and the others.
func split(list []shown, masks []mask) (below, others []shown) {
	for _, s := range list {
		if slices.ContainsFunc(masks, func(m mask) bool { return within(s.path, m.path) }) {
			below = append(below, s)
		} else {
			others = append(others, s)
		}
	}
	slices.SortStableFunc(below, func(a, b shown) int { return len(a.path) - len(b.path) })
	return below, others
}
