//go:build !race

package wire

import (
	"syscall"
	"unsafe"
)

// systemCall reads or writes past the scheduler. It never waits, whatever the mode of the descriptor, which other processes may share.
func systemCall(call, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0) //nolint:gosec // p is not empty, and there is no other way to such a call
	return int(n), errno
}
