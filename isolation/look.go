package isolation

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Look looks at a place in a process of its own, and returns when that has ended, whatever came of it: it may wait for a server of FUSE or NFS for ever, so that it can end neither by itself nor by a
// signal, and would keep the process that it is a thread of from ending. helper is as HostOptions.Helper. It may be called at any time by many.
func Look(helper []string, place string) {
	if os.Getenv(helperEnv) != "" {
		return // a helper starts no helper
	}
	cmd := helperCommand(helper, helperLook, place)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true} // it is nobody's whom a signal to the group is meant for
	_ = cmd.Run()                                                      // the way there is what counts
}

// runLook asks the server anew, whatever the kernel still knows of the place.
func runLook(place string) int {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, place, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return 1
	}
	return 0
}
