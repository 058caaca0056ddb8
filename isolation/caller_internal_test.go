package isolation

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// askedPlugin is a plugin's service behind NRI's own multiplexer and ttrpc's own server.
type askedPlugin struct {
	api.PluginService
	create func(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error)
}

func (p askedPlugin) CreateContainer(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	return p.create(ctx, r)
}

// asking returns the runtime's side of a connection to such a plugin, and what ends the plugin's.
func asking(t *testing.T, create func(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error)) (c *nriConn, end func()) {
	t.Helper()
	local, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	if c, err = newNRIConn(local, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	conn, err := net.FileConn(peer)
	if err = errors.Join(err, peer.Close()); err != nil {
		t.Fatal(err)
	}
	mux := multiplex.Multiplex(conn)
	l, err := mux.Listen(multiplex.PluginServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	api.RegisterPluginService(srv, askedPlugin{create: create})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(context.Background(), l)
	}()
	end = sync.OnceFunc(func() {
		_, _ = mux.Close(), srv.Close()
		<-served
	})
	t.Cleanup(end)
	return c, end
}

func named(name string) *api.CreateContainerRequest {
	return &api.CreateContainerRequest{Container: &api.Container{Name: name}}
}

func replyNamed(name string) *api.CreateContainerResponse {
	return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Args: []string{name}}}
}

func TestACallOfAnySizeComesBackAsTTRPCsOwnClientWouldSeeIt(t *testing.T) {
	t.Parallel()
	c, _ := asking(t, func(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		name := r.GetContainer().GetName()
		switch name {
		case "refused":
			return nil, status.Error(codes.PermissionDenied, "no")
		case "nothing":
			return &api.CreateContainerResponse{}, nil
		case "deadline":
			d, ok := ctx.Deadline()
			if !ok || time.Until(d) > time.Hour {
				return nil, errors.New("the deadline did not come")
			}
		}
		return replyNamed(name), nil
	})
	for _, size := range []int{0, 1, 3000, 4000, 4086, 4096, 4097, 8192, 70000, 1 << 20, ttrpcMaxMessage - 200} {
		name := strings.Repeat("x", size)
		if r, err := c.plugin.CreateContainer(t.Context(), named(name)); err != nil || len(r.GetAdjust().GetArgs()[0]) != size {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := c.plugin.CreateContainer(t.Context(), named(strings.Repeat("x", ttrpcMaxMessage))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request that is too large: %v", err)
	}
	if _, err := c.plugin.CreateContainer(t.Context(), named("refused")); status.Code(err) != codes.PermissionDenied || status.Convert(err).Message() != "no" {
		t.Errorf("a refusal: %v", err)
	}
	if r, err := c.plugin.CreateContainer(t.Context(), named("nothing")); err != nil || r.GetAdjust() != nil {
		t.Errorf("an empty reply: %v, %v", r, err)
	}
	if _, err := c.plugin.CreateContainer(WithDeadline(t.Context(), time.Now().Add(time.Minute)), named("deadline")); err != nil {
		t.Error(err)
	}
}

func TestManyCallsAtOnceGetTheirOwnReplies(t *testing.T) {
	t.Parallel()
	c, _ := asking(t, func(_ context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return replyNamed(r.GetContainer().GetName()), nil
	})
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for k := range 50 {
				name := strings.Repeat(string(rune('a'+i)), 100*k+i)
				if r, err := c.plugin.CreateContainer(t.Context(), named(name)); err != nil || r.GetAdjust().GetArgs()[0] != name {
					t.Errorf("call %d of %d: %v", k, i, err)
				}
			}
		})
	}
	calls.Wait()
}

// lateContext is the context of a goroutine that must not be kept.
type lateContext struct {
	context.Context
	late  chan error
	aside chan func() // nil: nothing is large
}

func (l lateContext) Late(err error) { l.late <- err }

func (l lateContext) Aside(decode func()) { l.aside <- decode }

func TestWhoGivesACallUpStillHearsHowItEnded(t *testing.T) {
	t.Parallel()
	release := make(chan error)
	c, end := asking(t, func(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return replyNamed("late"), <-release
	})
	giveUp := func() chan error {
		ctx, cancel := context.WithCancel(t.Context())
		l := lateContext{ctx, make(chan error, 2), nil}
		cancel()
		if _, err := c.plugin.CreateContainer(l, named("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		return l.late
	}
	late := giveUp()
	release <- nil
	if err := <-late; err != nil {
		t.Errorf("it ended well, told was %v", err)
	}
	late = giveUp()
	release <- status.Error(codes.Internal, "boom")
	if err := <-late; status.Code(err) != codes.Internal {
		t.Errorf("it ended with an error, told was %v", err)
	}
	late = giveUp()
	c.hangUp()
	if err := <-late; !errors.Is(err, ttrpc.ErrClosed) {
		t.Errorf("it ended with the connection, told was %v", err)
	}
	select {
	case err := <-late:
		t.Errorf("told twice: %v", err)
	default:
	}
	<-c.closed
	if _, err := c.plugin.CreateContainer(t.Context(), named("x")); !errors.Is(err, ttrpc.ErrClosed) {
		t.Errorf("a call after that: %v", err)
	}
	close(release)
	end()
}

// TestALargeReplyKeepsNobodyWhoCannotWait: a reply of 4 MiB can take a second to decode.
func TestALargeReplyKeepsNobodyWhoCannotWait(t *testing.T) {
	t.Parallel()
	c, _ := asking(t, func(_ context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return replyNamed(strings.Repeat(r.GetContainer().GetName(), decodedAtOnce)), nil
	})
	type result struct {
		r   *api.CreateContainerResponse
		err error
	}
	call := func() (lateContext, context.CancelFunc, chan result) {
		ctx, cancel := context.WithCancel(t.Context())
		l := lateContext{ctx, make(chan error, 2), make(chan func(), 1)}
		came := make(chan result, 1)
		go func() {
			r, err := c.plugin.CreateContainer(l, named("x"))
			came <- result{r, err}
		}()
		return l, cancel, came
	}
	l, cancel, came := call()
	defer cancel()
	(<-l.aside)()
	if got := <-came; got.err != nil || len(got.r.GetAdjust().GetArgs()[0]) != decodedAtOnce {
		t.Errorf("decoded in time: %v", got.err)
	}
	l, cancel, came = call()
	decode := <-l.aside
	cancel()
	if got := <-came; !errors.Is(got.err, context.Canceled) || got.r != nil {
		t.Errorf("given up before it was decoded: %v", got.err)
	}
	select {
	case err := <-l.late:
		t.Errorf("told before it was decoded: %v", err)
	default:
	}
	decode()
	if err := <-l.late; err != nil {
		t.Errorf("it ended well, told was %v", err)
	}
}

// TestAConnectionThatTheMultiplexerEndsIsKnownToHaveEnded: it ends without a reading error when a plugin sends more frames than fit its queue.
func TestAConnectionThatTheMultiplexerEndsIsKnownToHaveEnded(t *testing.T) {
	t.Parallel()
	local, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newNRIConn(local, nil)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	go func() {
		_, err := c.plugin.CreateContainer(context.Background(), named("x"))
		called <- err
	}()
	var wrote sync.WaitGroup
	wrote.Go(func() {
		_, _ = peer.Write(bytes.Repeat([]byte{0, 0, 0, 2, 0, 0, 0, 1, 0}, frameBurst-1)) // each a byte of a message that does not end; it fails when enough of it was read
	})
	<-c.closed
	if err := <-called; !errors.Is(err, ttrpc.ErrClosed) {
		t.Errorf("the call in flight: %v", err)
	}
	if err := peer.Close(); err != nil {
		t.Error(err)
	}
	wrote.Wait()
	c.close()
}

// TestAMessageThatIsNoReplyEndsItsCallOnly: what a plugin sends wrongly is its own call's error.
func TestAMessageThatIsNoReplyEndsItsCallOnly(t *testing.T) {
	t.Parallel()
	head := func(length int, stream, kind byte) []byte {
		return []byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length), 0, 0, 0, stream, kind, 0}
	}
	sent := bytes.Join([][]byte{
		head(2, 1, typeRequest),
		{0, 0},
		head(ttrpcMaxMessage+1, 3, typeResponse), make([]byte, ttrpcMaxMessage+1),
		head(0, 5, typeResponse),
		head(2, 7, typeResponse),
		{0x12, 0},
	}, nil)
	wanted := []struct {
		stream uint32
		ok     func(answer) bool
	}{
		{1, func(a answer) bool { return a.err != nil && !errors.Is(a.err, ttrpc.ErrProtocol) }}, // which would be the connection's
		{3, func(a answer) bool { return status.Code(a.err) == codes.ResourceExhausted }},
		{5, func(a answer) bool { return a.err == nil && len(a.message) == 0 }},
		{7, func(a answer) bool { return a.err == nil && string(a.message) == "\x12\x00" }},
	}
	for _, frame := range []int{7, 10, 4096, len(sent)} { // wherever it is cut
		in := bufio.NewReader(bytes.NewReader(sent))
		var m assembler
		got := 0
		for left := len(sent); left > 0; left -= min(frame, left) {
			if err := m.take(in, min(frame, left), func(stream uint32, a answer) {
				if got >= len(wanted) || stream != wanted[got].stream || !wanted[got].ok(a) {
					t.Errorf("frames of %d: message %d: stream %d, %v", frame, got, stream, a.err)
				}
				got++
			}); err != nil {
				t.Fatal(err)
			}
		}
		if got != len(wanted) {
			t.Errorf("frames of %d: %d messages, want %d", frame, got, len(wanted))
		}
	}
}

// TestWhatIsNoResponseIsTheErrorOfItsCall: else one garbled reply would end the connection, and the plugin with it.
func TestWhatIsNoResponseIsTheErrorOfItsCall(t *testing.T) {
	t.Parallel()
	for _, garbled := range []string{"\x12\xff", "\x0a\x01\xff", "\x12\x01\xff", "\xf5\xf5\xf5\xf6\x10\xf5\xfa\xd9\x00"} {
		err := decodeReply([]byte(garbled), &api.CreateContainerResponse{})
		if err == nil || errors.Is(err, ttrpc.ErrProtocol) || errors.Is(err, ttrpc.ErrClosed) {
			t.Errorf("%q: %v", garbled, err)
		}
	}
}

func TestWritingNeverWaitsForAPluginThatDoesNotRead(t *testing.T) {
	t.Parallel()
	local, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(local)
	var want bytes.Buffer
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for i := range 32 { // 2 MiB: no socket takes that much unread
		chunk[0] = byte(i)
		want.Write(chunk)
		if n, err := s.write(chunk); n != len(chunk) || err != nil {
			t.Fatalf("chunk %d: %d, %v", i, n, err)
		}
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("what is read in the end is not what was written: %v", err)
	}
	if err := errors.Join(local.Close(), peer.Close()); err != nil {
		t.Error(err)
	}
	s.close()
	if _, err := s.write(chunk); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAPluginThatLeavesMoreUnreadThanIsKeptIsCutOff(t *testing.T) {
	t.Parallel()
	local, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(local)
	written := 0
	for chunk := make([]byte, 1<<20); err == nil; {
		var n int
		n, err = s.write(chunk)
		written += n
	}
	if !strings.Contains(err.Error(), errBacklog.Error()) || written > maxBacklog+2<<20 {
		t.Errorf("after %d bytes: %v", written, err)
	}
	s.close()
	if err := peer.Close(); err != nil {
		t.Error(err)
	}
}
