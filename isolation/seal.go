package isolation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxPinned is the size of the largest program that is copied, in bytes: the copy is memory.
	maxPinned = 1 << 30
	// maxMemfdName is how much of a name is kept: memfd_create(2) takes 249 bytes.
	maxMemfdName = 100
)

// sealPinned copies a program into memory and returns the copy, if its content is the pinned one. The copy is sealed before it is hashed: what was hashed is
// what is executed, whoever still has the file open for writing.
func sealPinned(f *os.File, pin string) (_ *os.File, err error) {
	want, err := hex.DecodeString(pin)
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("sha256 %q is not %d hexadecimal digits", pin, 2*sha256.Size)
	}
	sealed, err := newSealable(filepath.Base(f.Name()))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = sealed.Close() // it is gone with that
		}
	}()
	n, err := io.Copy(sealed, io.LimitReader(f, maxPinned+1))
	if err != nil {
		return nil, fmt.Errorf("copy it into memory: %w", pathCause(err))
	}
	if n > maxPinned {
		return nil, fmt.Errorf("it has more than %d bytes (1 GiB), and what is pinned is copied into memory: leave sha256 empty", maxPinned)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal the copy: %w", err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(sealed, 0, n)); err != nil {
		return nil, fmt.Errorf("read the copy: %w", pathCause(err))
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, want) {
		return nil, fmt.Errorf("sha256 is %x, the manifest pins %s", sum, strings.ToLower(hex.EncodeToString(want)))
	}
	return sealed, nil
}

// newSealable makes a file in memory that can be executed and sealed.
func newSealable(name string) (*os.File, error) {
	name = name[:min(len(name), maxMemfdName)]
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 each can be executed
		fd, err = unix.MemfdCreate(name, flags)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("make a copy in memory: %w: this host forbids executing one, vm.memfd_noexec is 2: allow it, or leave sha256 empty", err)
	}
	if err != nil {
		return nil, fmt.Errorf("make a copy in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
