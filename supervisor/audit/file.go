package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	fileMode   fs.FileMode = 0o600
	folderMode fs.FileMode = 0o700
)

// file is the file that is written, with its rotation. It is the writer's alone.
type file struct {
	path     string
	maxSize  int64
	maxFiles int

	f     *os.File
	info  fs.FileInfo
	size  int64
	mends bool // the last line has no end
}

// write appends whole lines.
func (w *file) write(lines []byte) error {
	if err := w.ready(int64(len(lines))); err != nil {
		return err
	}
	if w.mends {
		lines = append([]byte("\n"), lines...)
	}
	n, err := w.f.Write(lines)
	if err == nil {
		w.size, w.mends = w.size+int64(n), false
		return nil
	}
	if n > 0 { // a line in part
		if w.f.Truncate(w.size) != nil {
			w.size, w.mends = w.size+int64(n), true
		}
	}
	return fmt.Errorf("write %q: %w", w.path, reason(err))
}

// ready makes sure that the file is open, is the one at the path, and has room.
func (w *file) ready(room int64) error {
	if w.f != nil {
		if now, err := os.Lstat(w.path); err != nil || !os.SameFile(now, w.info) { // somebody has taken it away
			w.close()
		}
	}
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if w.size == 0 || w.size+room <= w.maxSize {
		return nil
	}
	w.close()
	if err := w.rotate(); err != nil {
		return err
	}
	return w.open()
}

func (w *file) open() error {
	if err := os.MkdirAll(filepath.Dir(w.path), folderMode); err != nil {
		return fmt.Errorf("make the folder of %q: %w", w.path, reason(err))
	}
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return fmt.Errorf("open %q: %w", w.path, reason(err))
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("look at %q: %w", w.path, reason(err))
	case !info.Mode().IsRegular():
		err = fmt.Errorf("open %q: it is not a file", w.path)
	case info.Mode().Perm() != fileMode:
		if chmod := f.Chmod(fileMode); chmod != nil {
			err = fmt.Errorf("set the mode of %q: %w", w.path, reason(chmod))
		}
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	w.f, w.info, w.size = f, info, info.Size()
	w.mends = w.size > 0 && !endsLine(w.path, w.size)
	return nil
}

// endsLine reports whether the file ends with a whole line: a crash may have cut one.
func endsLine(path string, size int64) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err == nil && last[0] == '\n'
}

// rotate moves path to path.1, path.1 to path.2, and so on; what was path.N is gone.
func (w *file) rotate() error {
	if w.maxFiles < 1 {
		return w.gone(os.Remove(w.path))
	}
	for n := w.maxFiles - 1; n >= 0; n-- {
		if err := w.gone(os.Rename(numbered(w.path, n), numbered(w.path, n+1))); err != nil {
			return err
		}
	}
	return nil
}

func (w *file) gone(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("rotate %q: %w", w.path, reason(err))
}

func (w *file) close() {
	if w.f != nil {
		_ = w.f.Close()
		w.f = nil
	}
}

// numbered is the path of the nth file before the current one.
func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// reason leaves out what the message says already.
func reason(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
