package admin

import (
	"bytes"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// listenerOf is the process that listens at the other end of a unix connection; 0 if that cannot be told, as of one in another pid namespace.
func listenerOf(conn net.Conn) int64 {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	var pid int64
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int64(cred.Pid)
		}
	})
	if err != nil {
		return 0
	}
	return pid
}

// processState is the state of a process as in proc(5), such as 'T' for one that is stopped; 0 if it cannot be seen.
func processState(pid int64) byte {
	if pid <= 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") ")) // the name may hold anything
	if !found || len(rest) == 0 {
		return 0
	}
	return rest[0]
}
