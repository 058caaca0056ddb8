package isolation

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// removeBatch is how many names of a folder are read at once.
const removeBatch = 256

// removeFolder removes a folder with all that is in it, as os.RemoveAll does, for folders that a stranger has filled: whatever their depth is, it holds two
// folders open and a few kilobytes of memory, where a walk that goes down holds as many as the tree is deep. A folder that is not empty when its turn
// comes has its own folders moved up to the top. Links are removed and not followed. It is no error if there is nothing.
func removeFolder(path string) error { return removeFolderAt(unix.AT_FDCWD, path) }

// removeFolderAt is removeFolder for what a folder has under a name.
func removeFolderAt(at int, path string) error {
	top, err := openFolder(at, path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %q: %w", path, err)
	}
	defer func() { _ = top.Close() }()
	if err := emptyFolder(top); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, path, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %q: %w", path, err)
	}
	return nil
}

// emptyFolder removes what is in a folder as removeFolder does.
func emptyFolder(top *os.File) error {
	r := remover{top: top, prefix: filepath.Base(top.Name()) + ".removed."}
	for {
		more, err := r.pass()
		if err != nil {
			return fmt.Errorf("remove what is in %q: %w", top.Name(), err)
		}
		if !more {
			return nil
		}
	}
}

func openFolder(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// remover empties one folder.
type remover struct {
	top    *os.File
	prefix string // of the names of folders that were moved up
	moved  int
}

// pass goes once over what is in the top folder. more tells whether there was anything.
func (r *remover) pass() (more bool, err error) {
	names, err := namesIn(r.top)
	for _, name := range names {
		if err := r.remove(name); err != nil {
			return false, err
		}
	}
	return len(names) > 0, err
}

// remove removes one entry of the top folder, after it has moved up what is in it.
func (r *remover) remove(name string) error {
	gone, err := unlink(int(r.top.Fd()), name)
	if gone || err != nil {
		return err
	}
	folder, err := openFolder(int(r.top.Fd()), name)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	for {
		names, err := namesIn(folder)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		for _, below := range names {
			if gone, err := unlink(int(folder.Fd()), below); gone {
				continue
			} else if err != nil {
				return err
			}
			if err := r.moveUp(folder, below); err != nil {
				return err
			}
		}
	}
	_, err = unlink(int(r.top.Fd()), name)
	return err
}

// moveUp moves a folder that is not empty to the top, under a name that is not taken.
func (r *remover) moveUp(from *os.File, name string) error {
	for {
		r.moved++
		err := unix.Renameat2(int(from.Fd()), name, int(r.top.Fd()), r.prefix+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// unlink removes a file, a link or an empty folder. gone is false for a folder that is not empty.
func unlink(at int, name string) (gone bool, err error) {
	err = unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) { // POSIX and Linux differ in the error for a folder
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return false, nil
	default:
		return false, err
	}
}

// namesIn reads some names of what is in a folder, from its beginning.
func namesIn(folder *os.File) ([]string, error) {
	if _, err := folder.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := folder.Readdirnames(removeBatch)
	if len(names) > 0 {
		return names, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return nil, err
}
