package isolation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	nrinet "github.com/containerd/nri/pkg/net"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// updateFunc is Spec.OnUpdate.
type updateFunc func(ctx context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error)

// maxUpdates is how many UpdateContainers of one plugin are taken at once. Well-behaved plugins send one after the other.
const maxUpdates = 16

// nriConn is the runtime side of one plugin's NRI connection.
type nriConn struct {
	mux      multiplex.Mux
	below    trunk
	caller   *caller
	server   *ttrpc.Server
	listener net.Listener
	plugin   api.PluginService

	registered chan struct{} // closed by the first RegisterPlugin
	closed     chan struct{} // closed when the connection ended, by either side
	served     chan struct{} // closed when the server accepts no more

	mu       sync.Mutex // guards the rest
	onUpdate updateFunc
	reg      *Registration
	closing  bool
	updates  int            // calls of onUpdate that run
	handlers sync.WaitGroup // calls of onUpdate; no Add once closing is set
}

// socketPair returns a connection and the descriptor of its other end.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create socket pair: %w", err)
	}
	local, peer := os.NewFile(uintptr(fds[0]), "nri"), os.NewFile(uintptr(fds[1]), "nri of plugin")
	conn, err := net.FileConn(local) // duplicates the descriptor
	err = errors.Join(err, local.Close())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("create socket pair: %w", err), peer.Close())
	}
	return conn, peer, nil
}

// newNRIConn serves the runtime's side of conn, which it owns from then on.
func newNRIConn(conn net.Conn, onUpdate updateFunc) (*nriConn, error) {
	return newPacedConn(conn, onUpdate, newLimiter(frameRate, frameBurst, time.Now()))
}

// newPacedConn is newNRIConn with a pace of the plugin's frames.
func newPacedConn(conn net.Conn, onUpdate updateFunc, pace limiter) (*nriConn, error) {
	c := &nriConn{
		onUpdate:   onUpdate,
		registered: make(chan struct{}),
		closed:     make(chan struct{}),
		served:     make(chan struct{}),
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create ttrpc server: %w", err), conn.Close())
	}
	c.server = server
	below := newTrunk(wire.Quick(conn))
	c.below = below
	replies := newTap(below, pace)
	c.mux = multiplex.Multiplex(replies, multiplex.WithBlockedRead())
	defer c.mux.Unblock() // when all is in place, or the mux's reader would never end
	pluginConn, err := c.mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open plugin service: %w", err), c.mux.Close())
	}
	runtimeConn, err := c.mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open runtime service: %w", err), c.mux.Close())
	}
	c.listener = nrinet.NewConnListener(branch{runtimeConn, below.backlog})
	api.RegisterRuntimeService(server, (*runtimeService)(c))
	c.caller = newCaller(pluginConn, func() { close(c.closed) })
	replies.calls = c.caller
	c.plugin = newEventFallback(pluginClient{c.caller}, c.nriVersion)
	go func() {
		defer close(c.served)
		_ = server.Serve(context.Background(), c.listener) // ends with the connection; there is no other way
	}()
	go func() {
		_, _ = pluginConn.Read(nil) // the tap takes all that comes: it returns when the connection has ended, whoever ended it
		c.hangUp()
	}()
	return c, nil
}

// hangUp closes the connection.
func (c *nriConn) hangUp() {
	_ = c.mux.Close() // ends all of them; closing twice is no error worth telling
	c.caller.end()
	_ = c.server.Close()
	_ = c.listener.Close()
}

// close closes the connection and waits for what runs on it.
func (c *nriConn) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.hangUp()
	<-c.closed
	<-c.served
	c.handlers.Wait()
	c.below.out.close()
}

// takeUpdates says who takes updates from now on.
func (c *nriConn) takeUpdates(f updateFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onUpdate = f
}

// registration is what the plugin said when it registered; the zero value before.
func (c *nriConn) registration() Registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reg == nil {
		return Registration{}
	}
	return *c.reg
}

func (c *nriConn) nriVersion() string { return c.registration().NRIVersion }

// runtimeService is what the plugin may call.
type runtimeService nriConn

// RegisterPlugin takes the plugin's registration, once.
func (r *runtimeService) RegisterPlugin(_ context.Context, req *api.RegisterPluginRequest) (*api.Empty, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reg != nil {
		return nil, status.Errorf(codes.AlreadyExists, "register plugin %q: already registered as %q on this connection",
			req.GetPluginName(), r.reg.Name)
	}
	r.reg = &Registration{Name: req.GetPluginName(), Index: req.GetPluginIdx(), NRIVersion: req.GetNRIVersion()}
	close(r.registered)
	return &api.Empty{}, nil
}

// UpdateContainers takes updates that the plugin asks for on its own.
func (r *runtimeService) UpdateContainers(ctx context.Context, req *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	r.mu.Lock()
	switch {
	case r.closing:
		r.mu.Unlock()
		return nil, status.Error(codes.Unavailable, "update containers: the plugin is being stopped")
	case r.reg == nil:
		r.mu.Unlock()
		return nil, status.Error(codes.FailedPrecondition, "update containers: register the plugin first")
	case r.onUpdate == nil:
		r.mu.Unlock()
		return nil, status.Error(codes.Unavailable, "update containers: updates are not accepted from this plugin")
	case r.updates >= maxUpdates:
		r.mu.Unlock()
		return nil, status.Errorf(codes.ResourceExhausted, "update containers: %d requests of this plugin are not answered yet", maxUpdates)
	case len(req.GetEvict()) > 0:
		r.mu.Unlock()
		return nil, status.Error(codes.InvalidArgument, "update containers: evictions are not supported, no NRI runtime carries them out")
	}
	r.updates++
	onUpdate := r.onUpdate
	r.handlers.Add(1)
	r.mu.Unlock()
	defer r.handlers.Done()
	defer func() {
		r.mu.Lock()
		r.updates--
		r.mu.Unlock()
	}()
	failed, err := onUpdate(ctx, req.GetUpdate())
	return &api.UpdateContainersResponse{Failed: failed}, err
}
