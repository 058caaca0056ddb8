package isolation

import (
	"bytes"
	bigendian "encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/net/multiplex"
)

// FuzzFrames: whatever a plugin sends, what is not on the connection of its replies reaches the multiplexer unchanged, up to the end or to a frame that is too large.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x02ab"), 3)
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x00\x01\x02\x00\x12\x00\x00\x00\x00\x02\x00\x00\x00\x01c"), 4096)
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x0a\xff\xff\xff\xff\x00\x00\x00\x01\x02\x00"), 1)
	f.Add([]byte("\x00\x00\x00\x02\xff\xff\xff\xff"), 9)
	f.Fuzz(func(t *testing.T, sent []byte, size int) {
		if size < 1 || size > 1<<16 {
			return
		}
		in := newTap(newTrunk(sentBefore{Reader: bytes.NewReader(sent)}), unpaced())
		in.calls = newCaller(nil, nil)
		got, err := []byte(nil), error(nil)
		for p := make([]byte, size); err == nil; {
			var n int
			n, err = in.Read(p)
			got = append(got, p[:n]...)
		}
		if want := passedOn(sent); !bytes.Equal(got, want) {
			t.Errorf("%q: passed on %q, want %q", sent, got, want)
		}
	})
}

// unpaced is for tests that do not look at the time.
func unpaced() limiter { return newLimiter(1<<40, 1<<40, time.Now()) }

// sentBefore is a connection of which only what came is of interest.
type sentBefore struct {
	net.Conn
	io.Reader
}

func (s sentBefore) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// passedOn is what of sent is in frames that hold no replies, with their headers.
func passedOn(sent []byte) (out []byte) {
	for len(sent) >= frameHeader {
		n := int(bigendian.BigEndian.Uint32(sent[4:]))
		if n > largestFrame {
			break
		}
		end := min(frameHeader+n, len(sent))
		if multiplex.ConnID(bigendian.BigEndian.Uint32(sent)) != multiplex.PluginServiceConn {
			out = append(out, sent[:end]...)
		}
		sent = sent[end:]
	}
	return out
}

func TestRequestsOfAPluginArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = frameBurst * requestUnit // twice what comes at once
		frame := bigendian.BigEndian.AppendUint32(bigendian.BigEndian.AppendUint32(nil, uint32(multiplex.RuntimeServiceConn)), n)
		in := newTap(newTrunk(sentBefore{Reader: bytes.NewReader(bytes.Repeat(append(frame, make([]byte, n)...), 2))}), newLimiter(frameRate, frameBurst, time.Now()))
		in.calls = newCaller(nil, nil)
		begin := time.Now()
		if got, err := io.Copy(io.Discard, in); err != nil || got != 2*(n+frameHeader) {
			t.Errorf("%d bytes, %v", got, err)
		}
		if took := time.Since(begin); took < time.Second/2 || took > 2*time.Second {
			t.Errorf("two requests of %d bytes took %s", n, took)
		}
	})
}
