package isolation

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// maxBacklog is how many bytes of a plugin may wait for being handled: eight messages of ttrpc's largest size. NRI's mux
// bounds its queues by the number of frames only, 256 of 4 MiB each, and a plugin that sends much and reads nothing fills them.
const maxBacklog = 8 * ttrpcMaxMessage

// readAhead is what one read from a plugin takes: a usual reply whole.
const readAhead = 4 << 10

// errBacklog ends the connection of a plugin that sends more than is taken.
var errBacklog = errors.New("more than is taken was sent")

// trunk is the connection below NRI's mux, with the bounds that it and ttrpc lack. It closes the connection when one write
// makes no end within WriteStall, because a peer that stopped reading would hold ttrpc's send lock, and whoever waits for
// it, for ever; and when more than maxBacklog was read and not yet taken.
type trunk struct {
	net.Conn
	backlog *atomic.Int64
}

func newTrunk(c net.Conn) trunk { return trunk{Conn: c, backlog: new(atomic.Int64)} }

func (t trunk) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if t.backlog.Add(int64(n)) > maxBacklog {
		return n, errors.Join(errBacklog, t.Close())
	}
	return n, err
}

func (t trunk) Write(p []byte) (int, error) {
	if err := t.SetWriteDeadline(time.Now().Add(WriteStall)); err != nil {
		return 0, err
	}
	n, err := t.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// Not an error that counts as a timeout of the call: the connection is over.
		return n, errors.Join(fmt.Errorf("plugin did not read for %s: %w", WriteStall, net.ErrClosed), t.Close())
	}
	return n, err
}

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
