package isolation

import (
	"errors"
	"net"
	"sync/atomic"
)

// maxBacklog is how many bytes of a plugin may wait for being handled: eight messages of ttrpc's largest size. NRI's mux
// bounds its queues by the number of frames only, 256 of 4 MiB each, and a plugin that sends much and reads nothing fills them.
const maxBacklog = 8 * ttrpcMaxMessage

// readAhead is what one read from a plugin takes: a usual reply whole.
const readAhead = 4 << 10

// errBacklog ends the connection of a plugin that sends more than is taken.
var errBacklog = errors.New("more than is taken was sent")

// trunk is the connection below NRI's mux, with the bounds that it lacks. Writing never waits for the plugin: what it does not read at once is written by a goroutine, and when that makes no
// end within WriteStall the connection is closed. It is closed, too, when more than maxBacklog was read and not yet taken, or is to be written.
type trunk struct {
	net.Conn
	backlog *atomic.Int64
	over    *atomic.Bool // it was closed here
	out     *sender
}

func newTrunk(c net.Conn) trunk {
	return trunk{Conn: c, backlog: new(atomic.Int64), over: new(atomic.Bool), out: newSender(c)}
}

func (t trunk) Close() error {
	t.over.Store(true)
	return t.Conn.Close()
}

func (t trunk) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if t.backlog.Add(int64(n)) > maxBacklog {
		return n, errors.Join(errBacklog, t.Close())
	}
	return n, err
}

func (t trunk) Write(p []byte) (int, error) { return t.out.write(p) }

// branch is one of the connections above the mux. What is read from it is taken off the backlog.
type branch struct {
	net.Conn
	backlog *atomic.Int64
}

// frameHeader is the size of the header of each of the mux's frames; each read from a branch returns one frame.
const frameHeader = 8

func (b branch) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 {
		b.backlog.Add(-int64(n) - frameHeader)
	}
	return n, err
}
