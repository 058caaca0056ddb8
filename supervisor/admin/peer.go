package admin

import (
	"context"
	"fmt"
	"net"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is who is on the other end, as of its connect.
type peer struct {
	uid  uint32
	gids []uint32 // its group and its supplementary groups
	pid  int32    // 0 when it is in a pid namespace that we do not see
	role Role
}

// peerOf asks the kernel who connected, as of the connect: SO_PEERCRED for user and group, SO_PEERGROUPS for the supplementary groups (unix(7); Linux 4.13).
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", err)
	}
	var cred *unix.Ucred
	var groups []uint32
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr == nil {
			groups = peerGroups(fd)
		}
	}); err != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", err)
	}
	if credErr != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", credErr)
	}
	return peer{uid: cred.Uid, gids: append([]uint32{cred.Gid}, groups...), pid: cred.Pid}, nil
}

// maxGroups is how many supplementary groups a process may have (NGROUPS_MAX, limits.h).
const maxGroups = 65536

// peerGroups returns the supplementary groups; none when the kernel cannot tell, which gives less and never more.
func peerGroups(fd uintptr) []uint32 {
	groups := make([]uint32, 32)
	for {
		size := uint32(len(groups) * 4) //nolint:gosec // bounded by maxGroups
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // x/sys has no function for an option that is a list of numbers
		switch {
		case errno == 0 && int(size/4) <= len(groups):
			return groups[:size/4]
		case errno == unix.ERANGE && len(groups) < maxGroups:
			groups = make([]uint32, min(2*len(groups), maxGroups))
		default:
			return nil
		}
	}
}

// gate accepts connections, finds out who is there, and keeps their number within the limits. Admins, those with lower roles, and those who may not ask have slots of their own.
type gate struct {
	*socketFile
	role                    func(uid uint32, gids []uint32) Role
	admins, members, others chan struct{}
	problem                 func(string)
}

// Accept returns the next connection, a *peerConn. One above the limit, or whose peer is unknown, is closed at once.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		p, err := peerOf(c)
		if err != nil {
			_ = c.Close()
			g.problem(err.Error())
			continue
		}
		p.role = g.role(p.uid, p.gids)
		slots := g.others
		switch p.role {
		case RoleAdmin:
			slots = g.admins
		case RoleView, RoleOperate:
			slots = g.members
		case RoleNone:
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = c.Close()
			g.problem(fmt.Sprintf("closed a connection of uid %d, pid %d: %d are open already", p.uid, p.pid, cap(slots)))
			continue
		}
		return &peerConn{UnixConn: c, peer: p, release: sync.OnceFunc(func() { <-slots })}, nil
	}
}

// peerConn is a connection that knows its peer and gives its slot back when it is closed.
type peerConn struct {
	*net.UnixConn
	peer    peer
	release func()
}

// Close closes the connection.
func (c *peerConn) Close() error {
	err := c.UnixConn.Close()
	c.release()
	return err
}

// peerKey is the key of the peer in a request's context.
type peerKey struct{}

// withPeer puts the connection's peer into the context of its requests.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if pc, ok := c.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, pc.peer)
	}
	return ctx
}

// peerFrom returns the peer of a request. A request without one is nobody's and may do nothing.
func peerFrom(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}
