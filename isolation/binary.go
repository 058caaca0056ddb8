package isolation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// binary is an executable that was checked.
type binary struct {
	path   string   // what to execute
	file   *os.File // the file that was checked; nil if it was neither pinned nor to be executed by the stage
	script bool     // its interpreter reads it again, by its path
}

func (b binary) close() {
	if b.file != nil {
		_ = b.file.Close() // read only
	}
}

// openBinary checks that path is a program that may be executed, and, with a pin, that its content is the pinned one. A
// pinned program is executed through the descriptor that was hashed, so that it cannot be exchanged in between; its name
// in ps is then the descriptor's number. A program that is to be confined is left open, for the stage; a program open, for the stage.
func openBinary(path, pin string, c *Confinement) (binary, error) {
	if !filepath.IsAbs(path) {
		return binary{}, fmt.Errorf("check %q: not an absolute path", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return binary{}, fmt.Errorf("check %q: %w", path, pathCause(err))
	}
	if err := c.checkFile(path, info); err != nil {
		return binary{}, err
	}
	if pin == "" {
		if c.staged() {
			return keepBinary(path, c)
		}
		return binary{path: path}, nil
	}
	want, err := hex.DecodeString(pin)
	if err != nil || len(want) != sha256.Size {
		return binary{}, fmt.Errorf("check %q: sha256 %q is not %d hexadecimal digits", path, pin, 2*sha256.Size)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return binary{}, fmt.Errorf("check %q: %w", path, pathCause(err))
	}
	if err := checkPin(f, want, c); err != nil {
		return binary{}, errors.Join(fmt.Errorf("check %q: %w", path, err), f.Close())
	}
	return binary{path: fmt.Sprintf("/proc/self/fd/%d", f.Fd()), file: f}, nil
}

// keepBinary opens a program that is not pinned. What was opened is checked once more: it may be another file by now.
func keepBinary(path string, c *Confinement) (binary, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) { // it may be executed and not read
		f, err = os.OpenFile(path, unix.O_PATH, 0)
	}
	if err != nil {
		return binary{}, fmt.Errorf("check %q: %w", path, pathCause(err))
	}
	info, err := f.Stat()
	if err == nil {
		err = c.checkFile(path, info)
	}
	if err != nil {
		return binary{}, errors.Join(err, f.Close())
	}
	return binary{path: path, file: f, script: isScript(f)}, nil
}

func isScript(f *os.File) bool {
	head := make([]byte, 2)
	n, err := f.ReadAt(head, 0)
	return err == nil && n == 2 && string(head) == "#!"
}

// checkFile refuses what cannot be executed, what would gain privileges by being executed, which also clears the parent-death
// signal, and what others can change.
func (c *Confinement) checkFile(path string, info fs.FileInfo) error {
	const writableByOthers fs.FileMode = 0o022
	mode := info.Mode()
	owner, owned := info.Sys().(*syscall.Stat_t)
	switch {
	case mode.IsDir():
		return fmt.Errorf("check %q: a directory, not a program", path)
	case !mode.IsRegular():
		return fmt.Errorf("check %q: not a regular file (%s)", path, mode.Type())
	case mode&0o111 == 0:
		return fmt.Errorf("check %q: not executable (mode %#o): chmod +x it", path, mode.Perm())
	case c.TrustFile && mode&writableByOthers != 0:
		return fmt.Errorf("check %q: others can write it (mode %#o): chmod go-w it, or set fileTrust: off", path, mode.Perm())
	case c.TrustFile && owned && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("check %q: it belongs to user %d, who is neither root nor this one: chown root it, or set fileTrust: off", path, owner.Uid)
	case c.Setuid:
		return nil
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return fmt.Errorf("check %q: setuid or setgid programs are refused: chmod ug-s it", path)
	}
	if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 {
		return fmt.Errorf("check %q: programs with file capabilities are refused: setcap -r it", path)
	}
	return nil
}

func checkPin(f *os.File, want []byte, c *Confinement) error {
	before, err := f.Stat()
	if err != nil {
		return pathCause(err)
	}
	if err := c.checkFile(f.Name(), before); err != nil {
		return err
	}
	if isScript(f) {
		return errors.New("a script cannot be pinned, its interpreter reads it again: pin a compiled program, or leave sha256 empty")
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return pathCause(err)
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, want) {
		return fmt.Errorf("sha256 is %x, the manifest pins %s", sum, strings.ToLower(hex.EncodeToString(want)))
	}
	after, err := f.Stat()
	if err != nil {
		return pathCause(err)
	}
	if before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		return errors.New("the file changed while it was read: try again when its installation is complete")
	}
	return nil
}

// pathCause removes the path from an error that is going to be wrapped with it.
func pathCause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
