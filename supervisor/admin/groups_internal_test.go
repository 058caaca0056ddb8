package admin

import (
	"syscall"
	"unsafe"
)

// setThreadGroups sets the supplementary groups of this thread alone; package syscall would set those of the whole process.
func setThreadGroups(groups []uint32) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return errno
	}
	return nil
}
