//go:build race

package wire

import (
	"errors"
	"syscall"
)

// systemCall reads or writes by the standard library: the race detector learns from it who waited for whom.
func systemCall(call, fd uintptr, p []byte) (int, syscall.Errno) {
	var n int
	var err error
	if call == syscall.SYS_RECVFROM {
		n, err = syscall.Read(int(fd), p) //nolint:gosec // a descriptor
	} else {
		n, err = syscall.Write(int(fd), p) //nolint:gosec // a descriptor
	}
	if errno, failed := errors.AsType[syscall.Errno](err); failed {
		return 0, errno
	}
	return n, 0
}
