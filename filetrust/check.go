package filetrust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// writableByOthers is the write permission of the group and of everybody.
	writableByOthers fs.FileMode = 0o022
	// maxLinks is how many symbolic links one path may lead through, as in path_resolution(7).
	maxLinks = 40
)

// Weakness is why a path is not trusted: somebody else can change what it leads to. The zero value is not used.
type Weakness struct { //nolint:errname // what a file has; that it is an error as well is for the callers
	// Path is what can be changed: the file, or a folder or a symbolic link on the way to it. It is absolute, and has no links before its last part.
	Path string
	// Mode, UID and GID are its own.
	Mode fs.FileMode
	// UID and GID are the owner's numbers.
	UID, GID uint32
	// Writable tells that its mode lets others write; else it belongs to somebody else.
	Writable bool
}

// Error says what can be changed and by whom.
func (w *Weakness) Error() string {
	if w.Writable {
		return fmt.Sprintf("%s can be written by others (owner %d, group %d, mode %04o)", w.what(), w.UID, w.GID, w.Mode.Perm())
	}
	return fmt.Sprintf("%s belongs to user %d, who is neither root nor the user of this process (mode %04o)", w.what(), w.UID, w.Mode.Perm())
}

// Remedy is the command that ends the weakness.
func (w *Weakness) Remedy() string {
	if w.Writable {
		return "chmod go-w " + w.Path
	}
	if w.Mode&fs.ModeSymlink != 0 {
		return "chown -h root " + w.Path
	}
	return "chown root " + w.Path
}

func (w *Weakness) what() string {
	switch {
	case w.Mode.IsDir():
		return "the folder " + w.Path
	case w.Mode&fs.ModeSymlink != 0:
		return "the link " + w.Path
	default:
		return "the file " + w.Path
	}
}

// Check returns the path without links to what path leads to, and a *Weakness if somebody else than root and this process's user can change what that is. path is
// absolute. Other errors are those of looking at it.
func Check(path string) (resolved string, err error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("look at %q: not an absolute path", path)
	}
	w := walk{real: "/", rest: parts(path)}
	if _, err := w.see(w.real); err != nil {
		return "", err
	}
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return "", err
		}
	}
	if w.weak != nil {
		return w.real, w.weak
	}
	return w.real, nil
}

// walk is a path of which a part has been looked at.
type walk struct {
	real  string // without links
	rest  []string
	links int
	weak  *Weakness // the latest
	// followed are the links.
	followed []string
	// before is told of each place before that is looked at, and ends the walk with its error; nil: nobody is.
	before func(place string) error
}

func parts(path string) []string { return strings.Split(path, "/") }

// step looks at the next part of the path.
func (w *walk) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	switch name {
	case "", ".":
		return nil
	case "..":
		w.real = filepath.Dir(w.real)
		return nil
	}
	next := filepath.Join(w.real, name)
	mode, err := w.see(next)
	if err != nil {
		return err
	}
	if mode&fs.ModeSymlink == 0 {
		w.real = next
		return nil
	}
	target, err := os.Readlink(next)
	if err != nil {
		return err
	}
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "resolve", Path: next, Err: unix.ELOOP}
	}
	w.followed = append(w.followed, next)
	if filepath.IsAbs(target) {
		w.real = "/"
	}
	w.rest = append(parts(target), w.rest...)
	return nil
}

// see judges one file, folder or link.
func (w *walk) see(path string) (fs.FileMode, error) {
	if w.before != nil {
		if err := w.before(path); err != nil {
			return 0, err
		}
	}
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("look at " + path + ": no owner is known")
	}
	if weak := judge(info.Mode(), st.Uid, readOnly(path, info.Mode())); weak != nil {
		weak.Path, weak.GID = path, st.Gid
		w.weak = weak
	}
	return info.Mode(), nil
}

// judge is the rule.
func judge(mode fs.FileMode, uid uint32, readOnly bool) *Weakness {
	weak := &Weakness{Mode: mode, UID: uid}
	switch {
	case uid != 0 && int(uid) != os.Geteuid():
		return weak
	case mode&fs.ModeSymlink != 0, mode&writableByOthers == 0, readOnly: // a link has no mode of its own
		return nil
	case mode.IsDir() && mode&fs.ModeSticky != 0:
		return nil
	}
	weak.Writable = true
	return weak
}

// readOnly tells whether a file lies on a mount that is read-only. Only of those that others could write is that asked.
func readOnly(path string, mode fs.FileMode) bool {
	if mode&fs.ModeSymlink != 0 || mode&writableByOthers == 0 {
		return false
	}
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}
