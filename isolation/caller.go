package isolation

import (
	"context"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// What ttrpc's PROTOCOL.md says of messages, and the fields of the Request in its request.proto.
const (
	messageHead    = 10 // length, stream, type, flags
	typeRequest    = 1
	typeResponse   = 2
	firstFrame     = 4096 // ttrpc reads into a buffer of this size, and NRI's multiplexer gives it whole frames only
	fieldService   = 1
	fieldMethod    = 2
	fieldPayload   = 3
	fieldTimeout   = 4
	pluginService  = "nri.pkg.api.v1alpha1.Plugin"
	bufferKept     = 32 << 10 // larger ones are left to the collector
	firstStream    = 1
	betweenStreams = 2 // those of the client are odd
)

// hasty is the context of a call by a goroutine that must not be kept beyond Done.
type hasty interface {
	context.Context
	// Late is told, once, how a call ended in the plugin that returned the context's error, because Done was closed before. It must not wait.
	Late(err error)
	// Aside has another goroutine decode a reply that is large.
	Aside(decode func())
}

// decodedAtOnce is the largest message that a goroutine decodes that must not be kept: 16 KiB of the most expensive reply there is, empty messages in a list, take some milliseconds, and 4 MiB
// a second.
const decodedAtOnce = 16 << 10

// caller is the client of ttrpc for calls with one request and one reply. It is there beside ttrpc's own, which forgets a call when its context ends: whoever gives a call up here still hears
// when the plugin is done with it. It encodes a request once.
type caller struct {
	conn   net.Conn // to write to; somebody else reads and hands over what is answered
	closed func()   // called once, when every call has ended

	sending sync.Mutex // held while a message is written: numbers of streams only grow on the wire
	last    uint32     // stream
	buf     []byte     // of the message before

	mu    sync.Mutex // guards the rest
	calls map[uint32]*flight
	over  bool
}

// flight is a call that the plugin has not answered.
type flight struct {
	answer chan answer // holds one
	given  hasty       // who gave it up; nil: somebody waits
}

// answer is a message of the plugin, or why there is none.
type answer struct {
	message []byte
	err     error
}

func newCaller(conn net.Conn, closed func()) *caller {
	return &caller{conn: conn, closed: closed, calls: map[uint32]*flight{}}
}

// call calls a method of the plugin. Errors are those of ttrpc's client: a status, ttrpc.ErrClosed when the connection is gone, or ctx's.
func (c *caller) call(ctx context.Context, method string, req, reply proto.Message) error {
	f := &flight{answer: make(chan answer, 1)}
	stream, err := c.send(ctx, method, req, f)
	if err != nil {
		return err
	}
	var a answer
	select {
	case a = <-f.answer:
	case <-ctx.Done():
		if c.giveUp(ctx, stream, f) {
			return ctx.Err()
		}
		a = <-f.answer // it came meanwhile
	}
	if a.err != nil {
		return a.err
	}
	if h, ok := ctx.(hasty); ok && len(a.message) > decodedAtOnce {
		return decodeAside(h, a.message, reply)
	}
	return decodeReply(a.message, reply)
}

// decodeAside decodes on another goroutine for as long as somebody waits for it. It leaves reply to that goroutine when nobody does any more.
func decodeAside(ctx hasty, message []byte, reply proto.Message) error {
	var settled atomic.Bool // by the one of the two that came first
	decoded := make(chan error, 1)
	ctx.Aside(func() {
		err := decodeReply(message, reply)
		if settled.CompareAndSwap(false, true) {
			decoded <- err
		} else {
			ctx.Late(err)
		}
	})
	select {
	case err := <-decoded:
		return err
	case <-ctx.Done():
		if settled.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-decoded
	}
}

// giveUp reports whether the call is given up: its answer has not come.
func (c *caller) giveUp(ctx context.Context, stream uint32, f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[stream] != f {
		return false
	}
	if h, ok := ctx.(hasty); ok {
		f.given = h
	} else {
		f.given = nobody{Context: ctx}
	}
	return true
}

// nobody does not care how a call ended.
type nobody struct{ context.Context } //nolint:containedctx // as above, it is a context

func (nobody) Late(error) {}

func (nobody) Aside(func()) {}

// send writes the request of a new stream.
func (c *caller) send(ctx context.Context, method string, req proto.Message, f *flight) (uint32, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	stream := uint32(firstStream)
	if c.last != 0 {
		stream = c.last + betweenStreams
	}
	if stream > math.MaxUint32-betweenStreams {
		go c.end() // after two thousand million calls
		return 0, ttrpc.ErrClosed
	}
	message, err := appendRequest(ctx, c.buf[:0], stream, method, req)
	if c.buf = message; cap(message) > bufferKept {
		c.buf = nil
	}
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return 0, ttrpc.ErrClosed
	}
	c.calls[stream] = f
	c.mu.Unlock()
	c.last = stream
	for rest := message; len(rest) > 0; {
		frame := rest
		if len(rest) == len(message) {
			frame = rest[:min(len(rest), firstFrame)]
		}
		if _, err := c.conn.Write(frame); err != nil {
			c.forget(stream)
			return 0, errors.Join(fmt.Errorf("%w: %v", ttrpc.ErrClosed, err), c.conn.Close())
		}
		rest = rest[len(frame):]
	}
	return stream, nil
}

func (c *caller) forget(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, stream)
}

// appendRequest appends the message of a request, with its header.
func appendRequest(ctx context.Context, b []byte, stream uint32, method string, req proto.Message) ([]byte, error) {
	payload := wire.PayloadOf(ctx)
	size := payload.Size(req)
	b = append(b, make([]byte, messageHead)...)
	b = protowire.AppendString(protowire.AppendTag(b, fieldService, protowire.BytesType), pluginService)
	b = protowire.AppendString(protowire.AppendTag(b, fieldMethod, protowire.BytesType), method)
	if size > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldPayload, protowire.BytesType), uint64(size))
		begin := len(b)
		var err error
		if b, err = payload.Append(b, req); err != nil {
			return b, fmt.Errorf("encode %s: %w", method, err)
		}
		if len(b)-begin != size {
			return b, fmt.Errorf("encode %s: %d bytes, expected %d: the request changed meanwhile", method, len(b)-begin, size)
		}
	}
	if d, ok := ctx.Deadline(); ok {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldTimeout, protowire.VarintType), uint64(time.Until(d))) //nolint:gosec // negative ones as protobuf has them
	}
	length := len(b) - messageHead
	if length > ttrpcMaxMessage {
		return b, status.Errorf(codes.ResourceExhausted, "%s has %d bytes, the limit of a message is %d", method, length, ttrpcMaxMessage)
	}
	bigendian.BigEndian.PutUint32(b, uint32(length)) //nolint:gosec // bounded
	bigendian.BigEndian.PutUint32(b[4:], stream)
	b[8] = typeRequest
	return b, nil
}

// end ends every call: the connection is gone.
func (c *caller) end() {
	_ = c.conn.Close() // it is of no use any more
	c.mu.Lock()
	first, left := !c.over, c.calls
	c.over, c.calls = true, nil
	c.mu.Unlock()
	for _, f := range left {
		f.end(answer{err: ttrpc.ErrClosed})
	}
	if first {
		c.closed()
	}
}

// answered ends the call of the stream. A message for another one means nothing.
func (c *caller) answered(stream uint32, a answer) {
	c.mu.Lock()
	f := c.calls[stream]
	delete(c.calls, stream)
	c.mu.Unlock()
	if f != nil {
		f.end(a)
	}
}

// end tells whoever waits, or the one who gave the call up. The call is in no list any more, so nobody gives it up now.
func (f *flight) end(a answer) {
	if f.given == nil {
		f.answer <- a
		return
	}
	err := a.err
	if err == nil {
		err = decodeReply(a.message, nil)
	}
	f.given.Late(err)
}

// decodeReply takes a Response apart: the status that it carries is the error, and the payload is decoded into reply, if that is not nil. That it cannot is an error of the call, not of the
// connection, which none of its errors is.
func decodeReply(b []byte, reply proto.Message) error {
	var r ttrpc.Response
	if err := proto.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("decode the reply: %w", err)
	}
	if err := status.ErrorProto(r.GetStatus()); err != nil { // nil when it is OK
		return err
	}
	if reply == nil {
		return nil
	}
	return proto.Unmarshal(r.GetPayload(), reply)
}
