//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// calls are system calls with arguments that do nothing: what counts is whether the kernel looks at them. pid is somebody else's process.
func calls(pid int) map[string][4]uintptr {
	none := ^uintptr(0)
	return map[string][4]uintptr{
		"keyctl":           {unix.SYS_KEYCTL, 0, 0, 0}, // KEYCTL_GET_KEYRING_ID
		"add_key":          {unix.SYS_ADD_KEY, 0, 0, 0},
		"bpf":              {unix.SYS_BPF, none, 0, 0},
		"perf_event_open":  {unix.SYS_PERF_EVENT_OPEN, 0, 0, none},
		"setns":            {unix.SYS_SETNS, none, 0, 0},
		"unshare":          {unix.SYS_UNSHARE, 0, 0, 0},
		"clone":            {unix.SYS_CLONE, unix.CLONE_PARENT | unix.CLONE_SIGHAND, 0, 0}, // a sibling; without the memory of the handlers there is none
		"io_setup":         {unix.SYS_IO_SETUP, 0, 0, 0},
		"clone3":           {unix.SYS_CLONE3, 0, 0, 0},
		"pidfd_getfd":      {unix.SYS_PIDFD_GETFD, none, 0, 0},
		"process_vm_readv": {unix.SYS_PROCESS_VM_READV, uintptr(pid), 0, 0},
		"kcmp":             {unix.SYS_KCMP, uintptr(pid), uintptr(pid), none},
		"io_uring_setup":   {unix.SYS_IO_URING_SETUP, 0, 0, 0},
		"userfaultfd":      {unix.SYS_USERFAULTFD, none, 0, 0},
		"mount":            {unix.SYS_MOUNT, 0, 0, 0},
		"umount2":          {unix.SYS_UMOUNT2, 0, 0, 0},
		"pivot_root":       {unix.SYS_PIVOT_ROOT, 0, 0, 0},
		"move_mount":       {unix.SYS_MOVE_MOUNT, none, 0, none},
		"open_tree":        {unix.SYS_OPEN_TREE, none, 0, 0},
		"mount_setattr":    {unix.SYS_MOUNT_SETATTR, none, 0, 0},
		"fsopen":           {unix.SYS_FSOPEN, 0, 0, 0},
		"init_module":      {unix.SYS_INIT_MODULE, 0, 0, 0},
		"finit_module":     {unix.SYS_FINIT_MODULE, none, 0, 0},
		"delete_module":    {unix.SYS_DELETE_MODULE, 0, 0, 0},
		"kexec_load":       {unix.SYS_KEXEC_LOAD, 0, none, 0},
		"swapon":           {unix.SYS_SWAPON, 0, 0, 0},
		"acct":             {unix.SYS_ACCT, 1, 0, 0},
		"sethostname":      {unix.SYS_SETHOSTNAME, 0, 1 << 20, 0},
		"clock_settime":    {unix.SYS_CLOCK_SETTIME, 0, 0, 0},
		"syslog":           {unix.SYS_SYSLOG, 9, 0, 0}, // SYSLOG_ACTION_SIZE_UNREAD
	}
}

// tryCall makes one of the calls. That it does not exist or is not permitted is a denial, any other error is not.
func tryCall(arg string) (string, error) {
	name, pid, _ := strings.Cut(arg, "@")
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		return "", err
	}
	c, ok := calls(n)[name]
	if !ok {
		return "", errors.New("no such call: " + name)
	}
	_, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3])
	if errno == unix.EPERM || errno == unix.ENOSYS {
		return "", errno
	}
	return "", nil
}

// tryUserNamespace starts a program in a user namespace of its own, where it would hold all capabilities.
func tryUserNamespace(string) (string, error) {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	return "", cmd.Run()
}
