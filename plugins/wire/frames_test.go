package wire_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// pieces counts writes and keeps what was written.
type pieces struct {
	mu     sync.Mutex
	writes int
	bytes.Buffer
}

func (p *pieces) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	return p.Buffer.Write(b)
}

// frame is one frame of the multiplexer.
func frame(connection byte, payload string) string {
	n := len(payload)
	return string([]byte{0, 0, 0, connection, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + payload
}

// head is the header of a ttrpc message of that length.
func head(n int) string {
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 1, 1, 0})
}

func TestWhatBelongsTogetherIsWrittenTogetherAndNothingIsHeldBack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 6000)
	huge := strings.Repeat("y", 1<<20)
	for name, tt := range map[string]struct {
		in     []string
		writes int
	}{
		"a short message":                  {[]string{frame(1, head(3)+"abc")}, 1},
		"a message without a payload":      {[]string{frame(1, head(0))}, 1},
		"header and payload of a frame":    {[]string{frame(1, head(3)+"abc")[:8], frame(1, head(3)+"abc")[8:]}, 1},
		"a message in two frames":          {[]string{frame(1, head(6000)+long[:4086]), frame(1, long[4086:])}, 1},
		"a message whose header is split":  {[]string{frame(1, head(3)[:4]), frame(1, head(3)[4:]+"abc")}, 1},
		"two messages":                     {[]string{frame(1, head(1)+"a"), frame(1, head(1)+"b")}, 2},
		"two messages in one frame":        {[]string{frame(1, head(1)+"a"+head(1)+"b")}, 1},
		"another connection comes between": {[]string{frame(1, head(4)+"ab"), frame(2, head(1)+"z"), frame(1, "cd")}, 2},
		"a large message":                  {[]string{frame(1, head(len(huge))+huge[:4086]), frame(1, huge[4086:])}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Join(tt.in, "")
			var whole pieces
			w := wire.NewFrameWriter(&whole)
			for _, p := range tt.in {
				if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
					t.Fatalf("wrote %d of %d: %v", n, len(p), err)
				}
			}
			if whole.String() != want || whole.writes != tt.writes {
				t.Errorf("%d writes, want %d; same bytes: %t", whole.writes, tt.writes, whole.String() == want)
			}
			// However it is cut, the same bytes come out, all of them.
			for seed := range uint64(20) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				var out pieces
				w := wire.NewFrameWriter(&out)
				for rest := want; rest != ""; {
					n := 1 + rnd.IntN(min(len(rest), 5000))
					if _, err := w.Write([]byte(rest[:n])); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if out.String() != want {
					t.Fatalf("seed %d: other bytes come out", seed)
				}
			}
		})
	}
}

// broken takes some bytes and then fails.
type broken struct{ left int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, errBroken
	}
	b.left -= len(p)
	return len(p), nil
}

func TestAfterAnErrorTheMultiplexerGivesTheConnectionUp(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]string{"small": frame(1, head(3)+"abc"), "large": frame(1, head(1<<20)+strings.Repeat("x", 1<<20))} {
		w := wire.NewFrameWriter(&broken{})
		if n, err := w.Write([]byte(p)); n == 0 || !errors.Is(err, errBroken) {
			t.Errorf("%s: %d, %v: the multiplexer goes on after an error with 0 bytes", name, n, err)
		}
	}
}

// service answers with what it is asked.
type service struct{ api.PluginService }

func (service) CreateContainer(_ context.Context, req *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	rpl := &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{}}
	for _, e := range req.GetContainer().GetEnv() {
		rpl.Adjust.Env = append(rpl.Adjust.Env, &api.KeyValue{Key: "E", Value: e})
	}
	return rpl, nil
}

// TestOneMessageOfNRIIsOneWrite: NRI's own multiplexer and ttrpc, with messages of all sizes.
func TestOneMessageOfNRIIsOneWrite(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	var writes pieces
	client := multiplex.Multiplex(wire.NewFramedConn(tee{&writes, a}, 4096))
	server := multiplex.Multiplex(wire.NewFramedConn(b, 16))
	defer func() { _, _ = client.Close(), server.Close() }()
	l, err := server.Listen(multiplex.PluginServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	api.RegisterPluginService(srv, service{})
	go func() { _ = srv.Serve(context.Background(), l) }()
	conn, err := client.Open(multiplex.PluginServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	c := ttrpc.NewClient(conn)
	defer func() { _ = c.Close() }()
	for calls, size := range []int{0, 10, 4000, 4080, 4096, 5000, 9000, 60000, 300000} {
		req := &api.CreateContainerRequest{Container: &api.Container{Env: []string{strings.Repeat("v", size)}}}
		rpl, err := api.NewPluginClient(c).CreateContainer(t.Context(), req)
		if err != nil || len(rpl.GetAdjust().GetEnv()[0].GetValue()) != size {
			t.Fatalf("%d bytes: %v", size, err)
		}
		writes.mu.Lock()
		if size < 60000 && writes.writes != calls+1 {
			t.Errorf("%d bytes: %d writes for %d messages", size, writes.writes, calls+1)
		}
		writes.mu.Unlock()
	}
}

// tee counts what goes to a connection.
type tee struct {
	count *pieces
	net.Conn
}

func (t tee) Write(p []byte) (int, error) {
	_, _ = t.count.Write(p)
	return t.Conn.Write(p)
}
