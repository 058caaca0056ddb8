package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
)

const (
	// frameHead is the header of a frame of NRI's multiplexer: connection and length, 4 bytes each (nri/pkg/net/multiplex).
	frameHead = 8
	// messageHead is the header of a ttrpc message: length, stream, type and flags (ttrpc's PROTOCOL.md).
	messageHead = 10
	// heldMost is how many bytes are put together before they are written. What is larger needs several writes anyway.
	heldMost = 64 << 10
	// heldKept is how large a buffer is kept for the next message.
	heldKept = 16 << 10
)

// FramedConn is a connection below NRI's multiplexer that reads what has come at once, and writes a message at once: the multiplexer reads and writes each frame in two pieces, and each
// piece is a system call that may wake the process at the other end for nothing. Make one with NewFramedConn. One goroutine may read and one may write at the same time.
type FramedConn struct {
	net.Conn
	in  *bufio.Reader
	out *FrameWriter
}

// NewFramedConn returns a FramedConn in front of conn that reads up to ahead bytes at once; 16 at least.
func NewFramedConn(conn net.Conn, ahead int) *FramedConn {
	return &FramedConn{Conn: conn, in: bufio.NewReaderSize(conn, ahead), out: NewFrameWriter(conn)}
}

// Read reads.
func (c *FramedConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes, as FrameWriter does.
func (c *FramedConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// FrameWriter puts together what NRI's multiplexer and ttrpc write in pieces: a message of 6 KiB comes as two or three frames of two writes each, and each of these writes wakes the
// process at the other end, which then waits for the next. Through a FrameWriter it is one write of the same bytes.
//
// Nothing is held once a message is complete, and ttrpc never begins one that it does not end at once. What is not ttrpc in NRI's frames may be held for ever.
//
// Make one with NewFrameWriter. Not safe for concurrent use: the multiplexer writes under a lock.
type FrameWriter struct {
	w    io.Writer
	held []byte

	head     [frameHead]byte // of the frame that begins
	headLen  int
	left     int       // payload of the frame that is still to come
	current  *progress // of the frame's connection
	messages map[uint32]*progress
}

// progress is how far a connection is in the message that it sends.
type progress struct {
	head    [messageHead]byte
	headLen int
	left    int
}

// NewFrameWriter returns a FrameWriter in front of w.
func NewFrameWriter(w io.Writer) *FrameWriter {
	return &FrameWriter{w: w, messages: map[uint32]*progress{}}
}

// Write takes p, and writes it with what is held when it completes a message. After an error the connection is of no use any more: part of a frame may have been sent, so the
// count is never 0, by which the multiplexer knows.
func (f *FrameWriter) Write(p []byte) (int, error) {
	f.follow(p)
	if len(f.held)+len(p) > heldMost {
		if err := f.flush(); err != nil {
			return 1, err
		}
		if n, err := f.w.Write(p); err != nil {
			return max(n, 1), err
		}
		return len(p), nil
	}
	f.held = append(f.held, p...)
	if f.between() {
		if err := f.flush(); err != nil {
			return 1, err
		}
	}
	return len(p), nil
}

func (f *FrameWriter) flush() error {
	if len(f.held) == 0 {
		return nil
	}
	_, err := f.w.Write(f.held)
	f.held = f.held[:0]
	if cap(f.held) > heldKept {
		f.held = nil
	}
	return err
}

// between reports whether what was taken so far ends with a whole frame and a whole message of its connection.
func (f *FrameWriter) between() bool {
	return f.headLen == 0 && f.left == 0 && (f.current == nil || f.current.headLen == 0 && f.current.left == 0)
}

// follow keeps track of frames and messages.
func (f *FrameWriter) follow(p []byte) {
	for len(p) > 0 {
		if f.left == 0 {
			n := copy(f.head[f.headLen:], p)
			f.headLen += n
			p = p[n:]
			if f.headLen == frameHead {
				f.headLen = 0
				f.begin(binary.BigEndian.Uint32(f.head[:4]), binary.BigEndian.Uint32(f.head[4:]))
			}
			continue
		}
		n := min(len(p), f.left)
		f.current.follow(p[:n])
		f.left -= n
		p = p[n:]
	}
}

func (f *FrameWriter) begin(connection, size uint32) {
	m := f.messages[connection]
	if m == nil {
		m = &progress{}
		f.messages[connection] = m
	}
	f.current, f.left = m, int(size)
}

func (m *progress) follow(p []byte) {
	for len(p) > 0 {
		if m.left == 0 {
			n := copy(m.head[m.headLen:], p)
			m.headLen += n
			p = p[n:]
			if m.headLen == messageHead {
				m.headLen, m.left = 0, int(binary.BigEndian.Uint32(m.head[:4]))
			}
			continue
		}
		n := min(len(p), m.left)
		m.left -= n
		p = p[n:]
	}
}
