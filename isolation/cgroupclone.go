package isolation

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cloneArgs is struct clone_args of clone3(2), with cgroup.
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// canCloneInto says why no process can be started in a cgroup. Linux before 5.7 cannot, and filters of container runtimes deny the call. Asked is for a cgroup behind
// a descriptor that no process can have, so that nothing is started.
func canCloneInto() error {
	args := cloneArgs{flags: unix.CLONE_INTO_CGROUP, exitSignal: uint64(unix.SIGCHLD), cgroup: math.MaxInt32}
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0) //nolint:gosec // it takes a pointer
	for _, e := range []unix.Errno{unix.ENOSYS, unix.EINVAL, unix.E2BIG, unix.EPERM} {
		if errors.Is(errno, e) {
			return fmt.Errorf("start processes in a cgroup, clone3: %w: it needs Linux 5.7, and in a container no filter that denies it", errno)
		}
	}
	return nil // EBADF, if the machine has room for a process
}
