package admin

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// peer is who is on the other end, as of its connect.
type peer struct {
	uid     uint32
	pid     int32 // 0 when it is in a pid namespace that we do not see
	allowed bool
}

// peerOf asks the kernel who connected (SO_PEERCRED, unix(7)).
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", err)
	}
	if credErr != nil {
		return peer{}, fmt.Errorf("ask for the peer's credentials: %w", credErr)
	}
	return peer{uid: cred.Uid, pid: cred.Pid}, nil
}

// gate accepts connections, finds out who is there, and keeps their number within the limits. Those who may ask and those who may not have slots of their own.
type gate struct {
	*socketFile
	admits       []uint32 // uids
	ours, others chan struct{}
	problem      func(string)
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
		p.allowed = slices.Contains(g.admits, p.uid)
		slots := g.others
		if p.allowed {
			slots = g.ours
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
