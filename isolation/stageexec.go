package isolation

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// execFile executes an open file, or, for a script, which its interpreter has to find, its path. It returns only on failure.
func execFile(fd int, path string, script bool, args, env []*byte) error {
	const thisFile = unix.AT_EMPTY_PATH
	name, flags := "", thisFile
	if script {
		name, flags, fd = path, 0, unix.AT_FDCWD
	}
	p, err := unix.BytePtrFromString(name)
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
