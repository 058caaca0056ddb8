package isolation

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// User is who an incarnation runs as.
type User struct {
	UID, GID uint32
	// Groups are the supplementary groups, and all of them.
	Groups []uint32
}

// Groups are those of an incarnation that keeps a user of its own.
type Groups struct {
	// GID is the group; nil: one of its own.
	GID *uint32
	// Supplementary are the supplementary groups, and all of them.
	Supplementary []uint32
}

// become changes this thread's user and groups for good. The capabilities stay permitted: they are cut next.
//
// The raw calls act on this thread only, which is the one that executes the plugin; what package syscall does for all threads
// needs threads that take part.
func (u *User) become() error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	var first unsafe.Pointer
	if len(u.Groups) > 0 {
		first = unsafe.Pointer(&u.Groups[0]) //nolint:gosec // setgroups takes an array
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("set groups %d: %w", u.Groups, errno)
	}
	g, id := uintptr(u.GID), uintptr(u.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, g, g, g); errno != 0 {
		return fmt.Errorf("set group %d: %w", u.GID, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return fmt.Errorf("set user %d: %w", u.UID, errno)
	}
	return nil
}
