package wire

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// quickConn is a socket whose reads and writes are system calls that Go's scheduler is not told of. They never wait (MSG_DONTWAIT), so there is nothing that it would have
// to do meanwhile; but being told, it wakes a thread that watches over system calls, each time the process gets to work: for a process that waits for a message most of the time, that is as
// much work as to handle the message.
type quickConn struct {
	net.Conn
	raw syscall.RawConn
}

// Quick returns conn with reads and writes that cost less, or conn itself when it is not a socket. Deadlines count as before.
func Quick(conn net.Conn) net.Conn {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return conn
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return conn
	}
	return &quickConn{Conn: conn, raw: raw}
}

// SyscallConn is that of the socket.
func (c *quickConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Read reads what has come, and waits if nothing has.
func (c *quickConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		n, failed = transfer(syscall.SYS_RECVFROM, fd, p)
		return !errors.Is(failed, syscall.EAGAIN)
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, &net.OpError{Op: "read", Net: "unix", Err: failed}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of p, and waits where the peer does not read.
func (c *quickConn) Write(p []byte) (int, error) {
	done := 0
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for done < len(p) {
			n, err := transfer(syscall.SYS_SENDTO, fd, p[done:])
			if err != nil {
				failed = err
				return !errors.Is(err, syscall.EAGAIN)
			}
			done += n
		}
		failed = nil
		return true
	})
	switch {
	case err != nil:
		return done, err
	case failed != nil:
		return done, &net.OpError{Op: "write", Net: "unix", Err: failed}
	}
	return done, nil
}

// WriteSome writes what the peer's socket takes at once, which may be nothing, and never waits.
func WriteSome(raw syscall.RawConn, p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if failed := raw.Write(func(fd uintptr) bool {
		n, err = transfer(syscall.SYS_SENDTO, fd, p)
		return true
	}); failed != nil {
		return 0, failed
	}
	if errors.Is(err, syscall.EAGAIN) {
		err = nil
	}
	return n, err
}

// transfer receives or sends at least one byte on a socket, without waiting.
func transfer(call, fd uintptr, p []byte) (int, error) {
	for {
		n, errno := systemCall(call, fd, p)
		switch errno {
		case 0:
			return n, nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
