package filelook

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// deaf does something on a thread that takes none of the process's signals. The kernel hands such a signal to one thread, usually the first; if that waits for a file system, the signal waits with
// it, though others could take it: a service could not be stopped.
func deaf(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	for _, s := range []syscall.Signal{
		unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCHLD, unix.SIGPIPE, unix.SIGALRM, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH,
	} {
		block.Val[0] |= 1 << (uint(s) - 1) // all below 32, which the first word of each architecture holds
	}
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }() // the thread is used again
	}
	do()
}
