package isolation

import (
	"bufio"
	bigendian "encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// largestFrame is that of NRI's multiplexer: one of ttrpc's messages with its header. Only the writing side of the multiplexer keeps to it; the reading side would make room for 4 GiB.
const largestFrame = messageHead + ttrpcMaxMessage

// frameRate and frameBurst are how many frames a second, and at once, are read from a plugin. A reply is one or two; the rest of what floods us waits in the plugin's socket, and so does not keep
// a processor from the events. Of requests of the plugin, which are decoded at once, each requestUnit bytes count as a frame: 640 KB/s, and 512 KiB at once, where a thousand updates are some 200 KB.
const frameRate, frameBurst, requestUnit = 5000, 4096, 128

// restLeast is how often a stream that rests looks whether it is over.
const restLeast = 50 * time.Millisecond

// tap is the connection as NRI's multiplexer reads it: it takes the plugin's replies out and hands them to their calls, on the multiplexer's own reading goroutine, and passes the rest on. A
// reply so changes goroutines once.
type tap struct {
	trunk
	in    *bufio.Reader
	out   *wire.FrameWriter
	pace  limiter // of frames
	calls *caller // nil before the multiplexer reads

	head  [frameHeader]byte // of the frame that is passed on
	given int               // bytes of it that were
	left  int               // payload that was not
	reply assembler
}

func newTap(below trunk, pace limiter) *tap {
	return &tap{
		trunk: below, in: bufio.NewReaderSize(below, readAhead), out: wire.NewFrameWriter(below), pace: pace, given: frameHeader,
	}
}

// Write writes a message in one piece.
func (t *tap) Write(p []byte) (int, error) { return t.out.Write(p) }

// Read reads what is not a reply.
func (t *tap) Read(p []byte) (int, error) {
	for {
		switch {
		case t.given < frameHeader:
			n := copy(p, t.head[t.given:])
			t.given += n
			return n, nil
		case t.left > 0:
			n, err := t.in.Read(p[:min(len(p), t.left)])
			t.left -= n
			return n, err
		}
		if _, err := io.ReadFull(t.in, t.head[:]); err != nil {
			return 0, err
		}
		id, length := bigendian.BigEndian.Uint32(t.head[:]), int(bigendian.BigEndian.Uint32(t.head[4:]))
		if length > largestFrame {
			return 0, fmt.Errorf("a frame of %d bytes, the limit is %d: %w", length, largestFrame, ttrpc.ErrProtocol)
		}
		reply := multiplex.ConnID(id) == multiplex.PluginServiceConn
		cost := 1
		if !reply {
			cost += length / requestUnit
		}
		for wait := t.pace.take(float64(cost), time.Now()); wait > 0 && !t.over.Load(); wait = t.pace.take(0, time.Now()) {
			<-time.After(min(wait, restLeast))
		}
		if !reply {
			t.given, t.left = 0, length
			continue
		}
		if err := t.reply.take(t.in, length, t.calls.answered); err != nil {
			return 0, err
		}
		t.backlog.Add(-int64(length) - frameHeader)
	}
}

// assembler puts ttrpc's messages together from frames.
type assembler struct {
	head    [messageHead]byte
	headLen int
	message []byte // nil: it is too large and left out
	left    int    // of the message
}

// take reads n bytes, and hands over each message that is complete. An error ends the connection; what is wrong with a single message is in the answer.
func (m *assembler) take(in *bufio.Reader, n int, done func(stream uint32, a answer)) error {
	for n > 0 {
		if m.headLen < messageHead {
			part := m.head[m.headLen:min(messageHead, m.headLen+n)]
			if _, err := io.ReadFull(in, part); err != nil {
				return err
			}
			n -= len(part)
			if m.headLen += len(part); m.headLen < messageHead {
				return nil
			}
			m.left, m.message = int(bigendian.BigEndian.Uint32(m.head[:])), nil
			if m.left <= ttrpcMaxMessage {
				m.message = make([]byte, m.left)
			}
		}
		part := min(n, m.left)
		var err error
		if m.message != nil {
			begin := len(m.message) - m.left
			_, err = io.ReadFull(in, m.message[begin:begin+part])
		} else {
			_, err = in.Discard(part)
		}
		if err != nil {
			return err
		}
		n -= part
		if m.left -= part; m.left == 0 {
			done(bigendian.BigEndian.Uint32(m.head[4:]), m.finish())
		}
	}
	return nil
}

// finish is the message that is complete, and begins a new one.
func (m *assembler) finish() answer {
	a := answer{message: m.message}
	switch {
	case m.message == nil:
		size := bigendian.BigEndian.Uint32(m.head[:])
		a.err = status.Errorf(codes.ResourceExhausted, "the message has %d bytes, the limit is %d", size, ttrpcMaxMessage)
	case m.head[8] != typeResponse:
		a = answer{err: fmt.Errorf("a message of type %d in the place of a reply", m.head[8])}
	}
	m.headLen, m.message = 0, nil
	return a
}
