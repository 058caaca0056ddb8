package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/nri-supervisor/nri-supervisor/filelook"
)

// ErrOfProcess is the error of ReadReference for a file of a process in /proc.
var ErrOfProcess = errors.New("it belongs to a process, and its content would be told to the plugin")

// ReadReference reads a file that a manifest refers to, by configFrom or fileRef, as the user of this process. What /proc has of a process is refused
// with ErrOfProcess, whatever link leads there: the supervisor's own environment is no plugin's business. Safe for concurrent use.
func ReadReference(path string) ([]byte, error) {
	f, err := readReference(path)
	return f.Data, err
}

// readReference is the function of that name, with a limit.
func (b *builder) readReference(path string) (SourceFile, error) {
	return filelook.Read(b.options.Looks, path, func() (SourceFile, error) { return readReference(path) })
}

// readReference opens the file before it looks where it is: what is checked is what is read.
func readReference(path string) (SourceFile, error) {
	// Without O_NONBLOCK a named pipe would keep us waiting for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return SourceFile{}, err
	}
	defer f.Close()
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		target, err = filepath.EvalSymlinks(path) // no /proc, and so none of its files
	}
	if err == nil && regexp.MustCompile(`^/proc/[0-9]+/`).MatchString(target) {
		err = ErrOfProcess
	}
	if err != nil {
		return SourceFile{}, err
	}
	out, _, err := readOpen(f, path)
	return out, err
}
