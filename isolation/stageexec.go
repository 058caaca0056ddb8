package isolation

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// execFile executes a path, or an open file if that is empty. It returns only on failure.
func execFile(fd int, path string, args, env []*byte) error {
	flags := 0
	if path == "" {
		flags = unix.AT_EMPTY_PATH
	} else {
		fd = unix.AT_FDCWD
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	// These are execve's arguments; there is no safe way to pass an array of pointers.
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd),
		uintptr(unsafe.Pointer(p)),        //nolint:gosec // see above
		uintptr(unsafe.Pointer(&args[0])), //nolint:gosec // see above
		uintptr(unsafe.Pointer(&env[0])),  //nolint:gosec // see above
		uintptr(flags), 0)
	runtime.KeepAlive(args)
	runtime.KeepAlive(env)
	return errno
}
