package isolation

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// sender writes to a plugin without ever waiting for it. What the plugin's socket takes at once is written at once; the rest is queued and written, in order, by a goroutine that lives as long as
// there is a rest. Safe for concurrent use.
type sender struct {
	conn net.Conn
	raw  syscall.RawConn // nil: conn can only be written to by waiting

	mu      sync.Mutex
	rest    []byte // for the next write
	unsent  int    // bytes, with those that are being written
	pushing bool   // by a goroutine
	err     error  // why nothing is written any more
	done    sync.WaitGroup
}

func newSender(c net.Conn) *sender {
	s := &sender{conn: c}
	if sc, ok := c.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn() // it fails for a closed connection, on which nothing can be written either way
	}
	return s
}

// close ends the sender, whose connection is closed, and waits for its goroutine.
func (s *sender) close() {
	s.mu.Lock()
	if s.err == nil {
		s.err = net.ErrClosed
	}
	s.mu.Unlock()
	s.done.Wait()
}

// write takes all of p, or fails.
func (s *sender) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	rest := p
	if !s.pushing {
		n, err := s.try(p)
		if err != nil {
			return n, s.failLocked(err)
		}
		if rest = p[n:]; len(rest) == 0 {
			return len(p), nil
		}
	}
	if s.unsent += len(rest); s.unsent > maxBacklog {
		return 0, s.failLocked(errBacklog)
	}
	s.rest = append(s.rest, rest...)
	if !s.pushing {
		s.pushing = true
		s.done.Go(s.push)
	}
	return len(p), nil
}

// try writes what can be written without waiting.
func (s *sender) try(p []byte) (int, error) {
	if s.raw == nil {
		return 0, nil
	}
	return wire.WriteSome(s.raw, p)
}

// push writes the rest until there is none.
func (s *sender) push() {
	for {
		s.mu.Lock()
		chunk := s.rest
		s.rest = nil
		if len(chunk) == 0 || s.err != nil {
			s.pushing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		var err error
		for piece := range slices.Chunk(chunk, ttrpcMaxMessage) {
			if err = s.conn.SetWriteDeadline(time.Now().Add(WriteStall)); err == nil {
				_, err = s.conn.Write(piece)
			}
			if err != nil {
				break
			}
		}
		if err == nil {
			err = s.conn.SetWriteDeadline(time.Time{})
		}
		s.mu.Lock()
		s.unsent -= len(chunk)
		if err != nil {
			_ = s.failLocked(err)
		}
		s.mu.Unlock()
	}
}

// failLocked ends the connection: part of a frame may have been sent. The error is none that counts as a timeout of a call.
func (s *sender) failLocked(err error) error {
	if s.err == nil {
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			err = fmt.Errorf("plugin did not read for %s", WriteStall)
		}
		s.err = errors.Join(fmt.Errorf("%w: %v", net.ErrClosed, err), s.conn.Close())
	}
	return s.err
}
