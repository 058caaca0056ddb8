package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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
	// listed is what the manifest lists, written the same with the links that no plugin can change resolved; empty for the plugin's own.
	listed, written string
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
		s := shown{path: target, writable: set&unix.MOUNT_ATTR_RDONLY == 0}
		if path != o.Dir {
			var strange bool
			s.listed = path
			switch s.written, strange, err = o.settle(path); {
			case err != nil:
				return fmt.Errorf("show %q: %w", path, err)
			case strange && target == "/":
				return s.leadsTo("/")
			}
			o.settled[path] = target
		}
		if target == "/" { // all that is not protected can be written anyway
			return nil
		}
		place, err := openPlace(target) // there is no link on the way any more, or somebody puts one there just now
		if err != nil {
			return fmt.Errorf("show %q: %w", path, err)
		}
		fd, err := unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
		_ = unix.Close(place) // a place
		if err != nil {
			return fmt.Errorf("show %q: %w", path, err)
		}
		s.tree = os.NewFile(uintptr(fd), target)
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
	o.settled = map[string]string{}
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

// leadsTo is why a listed path is not shown: where it leads to meets what else is said of a path.
func (s shown) leadsTo(what string) error {
	to := strconv.Quote(s.path)
	if what != s.path {
		to += ", and so to " + strconv.Quote(what)
	}
	return fmt.Errorf("show %q: a link that others can change leads to %s, which the list does not name: list what is meant without links", s.listed, to)
}

// checkShown refuses a listed path that leads to, into or above what is hidden, frozen or protected, if only a link in a folder that somebody may write to does that.
func (o *order) checkShown(list []shown, masks []mask, frozen []level) error {
	var kept []string
	for _, m := range masks {
		kept = append(kept, m.path)
	}
	for _, l := range frozen {
		kept = append(kept, l.path)
	}
	for _, path := range slices.Concat(o.Protect, protectedPaths()) {
		if target, strange, err := o.settle(path); err == nil && !strange {
			kept = append(kept, target)
		}
	}
	meets := func(a, b string) bool { return within(a, b) || within(b, a) }
	for _, s := range list {
		if s.listed == "" || s.written == s.path {
			continue
		}
		for _, path := range kept {
			if meets(s.path, path) && !meets(s.written, path) {
				return s.leadsTo(path)
			}
		}
	}
	return nil
}

// place puts the path into its place, which exists unless a folder above it is hidden.
func (s shown) place() error {
	put := func(place int) error { return attach(int(s.tree.Fd()), place) }
	err := atPlace(s.path, put)
	if errors.Is(err, unix.ENOENT) {
		if err = makePlace(s.path, s.dir); err == nil {
			err = atPlace(s.path, put)
		}
	}
	if err != nil {
		return fmt.Errorf("show %q: %w", s.path, err)
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
