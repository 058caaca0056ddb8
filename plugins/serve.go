package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

const (
	// shutdownGrace bounds the plugin's Shutdown handler after SIGTERM or a stop request. The supervisor's own patience
	// with a stopping plugin is shorter by default (2 s a phase); this one is for a plain runtime.
	shutdownGrace = 5 * time.Second
	// stubGrace bounds the end of the NRI stub once its connection is closed. It may be stuck in its start for ever.
	stubGrace = time.Second
)

// ErrConnectionLost is returned by Serve when the other end closed the NRI connection.
var ErrConnectionLost = errors.New("the NRI connection was closed by the other end")

// Hosted tells whether nri-supervisor started this process. It holds until Serve is called.
func Hosted() bool { return os.Getenv(wire.MagicCookieKey) == wire.MagicCookieValue }

// Main serves the plugin and exits: with 0 after it was asked to stop, with 1 and a line on stderr otherwise.
func Main(impl any, opts ...Option) {
	if err := Serve(impl, opts...); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is the main function of a plugin
	}
}

// Serve runs the plugin until it is asked to stop (SIGTERM, by the supervisor, or SIGINT when started by hand), which is no
// error, or until its connection is lost, which is ErrConnectionLost. impl implements at least one of the event handlers
// of github.com/containerd/nri/pkg/stub.
//
// Call it once, from main, before anything is written to stdout. It takes over SIGTERM for the rest of the process's life.
func Serve(impl any, opts ...Option) error {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if handledEvents(impl) == 0 {
		return fmt.Errorf("serve %T: it implements no event handler of github.com/containerd/nri/pkg/stub; check the method signatures", impl)
	}
	if o.version == "" {
		o.version = moduleVersion("")
	}
	if Hosted() {
		return serveHosted(impl, o)
	}
	return servePlain(impl, o)
}

// servePlain is a plugin of an ordinary runtime, started by it or by hand.
func servePlain(impl any, o options) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	r := &runner{impl: impl, opts: o, signals: signals, intercept: &interceptor{impl: impl}}
	return r.run()
}

// runner runs the NRI side of a plugin.
type runner struct {
	impl      any
	opts      options
	intercept *interceptor
	stubOpts  []stub.Option

	conn    *watchedConn     // nil: connect
	signals <-chan os.Signal // ask to stop
	stop    <-chan struct{}  // asks to stop; nil: nobody does
}

func (r *runner) run() error {
	if r.conn == nil {
		conn, err := connect(r.opts.socket)
		if err != nil {
			return err
		}
		r.conn = conn
	}
	st, err := stub.New(r.impl, r.options()...)
	if err != nil {
		return errors.Join(fmt.Errorf("create NRI stub: %w (name and index come from the starter, "+
			"from plugins.WithName and plugins.WithIndex, or from an executable called NN-NAME)", err), r.conn.Close())
	}
	if r.opts.withStub != nil {
		r.opts.withStub(st)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- st.Run(ctx) }()

	select {
	case <-r.signals:
		return r.end(cancel, ended)
	case <-r.stop:
		return r.end(cancel, ended)
	case err := <-ended:
		return r.lost(err)
	case <-r.conn.lost:
		select {
		case err := <-ended:
			return r.lost(err)
		case <-time.After(stubGrace):
			return ErrConnectionLost
		}
	}
}

// options are the stub's. Name and index of the starter, in the environment, win over the author's.
func (r *runner) options() []stub.Option {
	opts := append([]stub.Option{
		stub.WithConnection(r.conn),
		stub.WithTTRPCOptions(nil, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(r.intercept.unary)}),
		stub.WithOnClose(func() {}), // the default of older stubs ends the process
	}, r.stubOpts...)
	if r.opts.name != "" && os.Getenv(api.PluginNameEnvVar) == "" {
		opts = append(opts, stub.WithPluginName(r.opts.name))
	}
	if r.opts.index != "" && os.Getenv(api.PluginIdxEnvVar) == "" {
		opts = append(opts, stub.WithPluginIdx(r.opts.index))
	}
	return opts
}

// end stops the plugin as asked: its Shutdown handler, then the connection. Handlers that still run are not waited for.
func (r *runner) end(cancel context.CancelFunc, ended <-chan error) error {
	ctx, stop := context.WithTimeout(context.Background(), shutdownGrace)
	defer stop()
	down := make(chan struct{})
	go func() {
		defer close(down)
		r.intercept.callShutdown(ctx)
	}()
	select {
	case <-down:
	case <-ctx.Done():
	}
	cancel()
	_ = r.conn.Close() // its end is all that is wanted
	select {
	case <-ended: //nolint:errcheck // it was asked to end
	case <-time.After(stubGrace):
	}
	return nil
}

// lost says why the stub ended without being asked to.
func (r *runner) lost(err error) error {
	if err == nil {
		return ErrConnectionLost
	}
	// How the end of the connection shows depends on what the stub was doing at that moment.
	for _, end := range []error{ttrpc.ErrServerClosed, ttrpc.ErrClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return ErrConnectionLost
		}
	}
	return fmt.Errorf("run NRI stub: %w", err)
}
