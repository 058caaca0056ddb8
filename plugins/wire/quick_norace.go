//go:build !race

package wire

import (
	"syscall"
	"unsafe"
)

// systemCall reads or writes past the scheduler.
func systemCall(call, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p))) //nolint:gosec // p is not empty, and there is no other way to such a call
	return int(n), errno                                                                         //nolint:gosec // at most len(p)
}
