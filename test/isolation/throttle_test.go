//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// tryThrottle changes how much of the machine another process gets, to what it gets anyway.
func tryThrottle(arg string) (string, error) {
	how, victim, _ := strings.Cut(arg, "@")
	return "", onProcess(victim, func(pid int) error {
		switch how {
		case "files":
			var lim unix.Rlimit
			if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &lim); err != nil {
				return fmt.Errorf("not even read: %w", err)
			}
			return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &lim, nil)
		case "priority":
			return keepPriority(unix.PRIO_PROCESS, pid)
		case "group's priority": // of its own group or nobody's: that of the test's own would slow the test
			if group, err := unix.Getpgid(pid); err != nil || pid != 0 && group != pid {
				return fmt.Errorf("process %d leads no group: %w", pid, err)
			}
			return keepPriority(unix.PRIO_PGRP, pid)
		case "group's io":
			const group, idle = 2, 3 << 13 // IOPRIO_WHO_PGRP, IOPRIO_CLASS_IDLE: ioprio_set(2)
			if _, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_SET, group, uintptr(pid), idle); errno != 0 {
				return errno
			}
			return nil
		case "processors":
			var set unix.CPUSet
			return errors.Join(unix.SchedGetaffinity(pid, &set), unix.SchedSetaffinity(pid, &set))
		case "scheduler":
			attr, err := unix.SchedGetAttr(pid, 0)
			return errors.Join(err, unix.SchedSetAttr(pid, attr, 0))
		case "io":
			const process, idle = 1, 3 << 13 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE: ioprio_set(2)
			if _, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_SET, process, uintptr(pid), idle); errno != 0 {
				return errno
			}
			return nil
		default:
			return errors.New("no such way: " + how)
		}
	})
}

// keepPriority sets the priority that there is.
func keepPriority(which, who int) error {
	const most = 20 // the kernel counts down from it, getpriority(2) "C library/kernel differences"
	n, err := unix.Getpriority(which, who)
	if err != nil {
		return fmt.Errorf("not even read: %w", err)
	}
	return unix.Setpriority(which, who, most-n)
}
