package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// errControlEnded ends a hosted plugin whose control service stopped: the supervisor is gone or done with it.
var errControlEnded = errors.New("the control service ended")

// serveHosted is a plugin of nri-supervisor: go-plugin's handshake and control service, and NRI on the inherited socket.
func serveHosted(impl any, o options) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM) // go-plugin swallows SIGINT

	stdout, stderr := os.Stdout, os.Stderr
	logger := newLogger(stderr, hclog.Trace)
	if o.level != nil {
		o.level.Set(slogLevel(logger.GetLevel()))
	}
	conn, err := connect("")
	if err != nil {
		return err
	}
	c := &control{
		impl: impl, version: o.version, logger: logger, level: o.level,
		connected: conn.alive, stop: make(chan struct{}),
	}
	ready := newFirstConn()
	served := make(chan struct{})
	go func() {
		defer close(served)
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig: wire.Handshake(),
			Plugins:         goplugin.PluginSet{wire.ControlPlugin: &wire.Plugin{Impl: c}},
			Logger:          newLogger(stderr, hclog.Warn),
			GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
				return grpc.NewServer(append(opts, grpc.StatsHandler(ready))...)
			},
		})
		_ = c.Stop(context.Background()) // never fails
	}()

	// The supervisor connects as soon as it read the handshake. Only then has go-plugin finished replacing os.Stdout and
	// os.Stderr by streams of its own, which would lose what handlers print when nobody reads them: put the real ones back.
	select {
	case <-ready.connected:
	case <-served:
		return errors.Join(fmt.Errorf("serve control service: %w", errControlEnded), conn.Close())
	case <-signals:
		return conn.Close()
	}
	os.Stdout, os.Stderr = stdout, stderr
	forgetHost()

	r := &runner{
		impl: impl, opts: o, conn: conn, signals: signals, stop: c.stop,
		intercept: &interceptor{impl: impl, hosted: true},
		stubOpts:  []stub.Option{stub.WithLogger(stubLogger{logger})},
	}
	return r.run()
}

// forgetHost removes from the environment what only this process may use, so that what the plugin executes does not take
// itself for a plugin. The name and index stay: the stub reads them.
func forgetHost() {
	for _, key := range []string{wire.MagicCookieKey, api.PluginSocketEnvVar, "PLUGIN_CLIENT_CERT", goplugin.EnvUnixSocketDir} {
		_ = os.Unsetenv(key) // fails for an empty key only
	}
}

// firstConn is a gRPC stats handler that tells when the first client is connected.
type firstConn struct {
	once      sync.Once
	connected chan struct{}
}

func newFirstConn() *firstConn { return &firstConn{connected: make(chan struct{})} }

func (f *firstConn) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		f.once.Do(func() { close(f.connected) })
	}
}

func (*firstConn) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*firstConn) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*firstConn) HandleRPC(context.Context, stats.RPCStats)                         {}
