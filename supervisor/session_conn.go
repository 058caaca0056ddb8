package supervisor

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stallConn closes itself when one write takes too long: the peer has stopped reading. It tells when the peer has closed the connection.
type stallConn struct {
	net.Conn
	limit time.Duration
	once  sync.Once
	lost  chan struct{} // closed at the first read that fails because of the peer
	begun time.Time     // what away counts from: somebody may set the clock
	away  atomic.Int64  // since when the reader does something else than to read, in nanoseconds; 0: it reads, or never did
}

// unread is for how long nobody has been reading.
func (c *stallConn) unread(now time.Time) time.Duration {
	if away := c.away.Load(); away != 0 {
		return now.Sub(c.begun) - time.Duration(away)
	}
	return 0
}

// Read reads.
func (c *stallConn) Read(b []byte) (int, error) {
	c.away.Store(0)
	n, err := c.Conn.Read(b)
	if err == nil {
		c.away.Store(max(1, int64(time.Since(c.begun))))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.once.Do(func() { close(c.lost) })
	}
	return n, err
}

// Write writes within the limit.
func (c *stallConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// quietLogger drops what NRI's stub says: everything worth saying is an Event.
type quietLogger struct{}

// Debugf drops.
func (quietLogger) Debugf(context.Context, string, ...any) {}

// Infof drops.
func (quietLogger) Infof(context.Context, string, ...any) {}

// Warnf drops.
func (quietLogger) Warnf(context.Context, string, ...any) {}

// Errorf drops.
func (quietLogger) Errorf(context.Context, string, ...any) {}
