package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// neverTimeout is go-plugin's StartTimeout: the start is bounded by its context, whose end kills the process.
const neverTimeout = 24 * time.Hour

// controlPlane is the go-plugin side of one incarnation. Of go-plugin's client only Start is used. Its Client opens streams
// that nothing closes if the plugin dies meanwhile, and its Kill may block for ever; so the connection is made here.
type controlPlane struct {
	config *goplugin.ClientConfig
	client *goplugin.Client
	runner *pluginRunner

	mu     sync.Mutex // guards the rest
	conn   *grpc.ClientConn
	remote wire.Control // nil until the handshake is done
}

// newControlPlane prepares a client that executes the process by run, with the environment that go-plugin wants.
func newControlPlane(dir *runDir, name string, run func(env []string) (*process, error)) *controlPlane {
	c := &controlPlane{runner: &pluginRunner{dir: dir, name: name, run: run, first: newFirstLine()}}
	c.config = &goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		Plugins:          goplugin.PluginSet{wire.ControlPlugin: &wire.Plugin{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     neverTimeout,
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir.path},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			c.runner.env = socketDir(cmd.Env, dir.path)
			return c.runner, nil
		},
	}
	c.client = goplugin.NewClient(c.config)
	return c
}

// socketDir makes the plugin put its socket into dir itself: go-plugin's folder inside makes the path 22 bytes longer.
func socketDir(env []string, dir string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, goplugin.EnvUnixSocketDir+"=") {
			out = append(out, kv)
		}
	}
	return append(out, goplugin.EnvUnixSocketDir+"="+dir)
}

// start executes the process, waits for the handshake, and asks the control service a first question. It ends when the
// process does, so whoever gives up kills that.
func (c *controlPlane) start(ctx context.Context) (Phase, error) {
	addr, err := c.client.Start()
	if err != nil {
		if c.runner.execErr != nil {
			return PhaseExec, c.runner.execErr
		}
		return PhaseHandshake, err
	}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(credentials.NewTLS(c.config.TLSConfig)), // made by Start, for this plugin only
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return PhaseControl, fmt.Errorf("connect to control service: %w", err)
	}
	remote := wire.NewClient(conn)
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	if _, err := remote.Describe(ctx); err != nil {
		return PhaseControl, fmt.Errorf("ask control service for its description: %w", err)
	}
	c.mu.Lock()
	c.remote = remote
	c.mu.Unlock()
	return "", nil
}

// control is the plugin's control service, nil before the handshake.
func (c *controlPlane) control() wire.Control {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remote
}

// close ends the connection. It is called when the process is reaped and start has returned.
func (c *controlPlane) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close() // closed once
	}
	c.runner.closeSocket()
}

// pluginRunner is go-plugin's view of the process. Its pipes are drained elsewhere: go-plugin gets the first line of
// stdout and an empty stderr, so that neither a flood nor a grandchild that holds the pipes can keep it.
type pluginRunner struct {
	dir   *runDir
	name  string
	run   func(env []string) (*process, error)
	env   []string
	first *firstLine

	execErr error

	mu     sync.Mutex // guards the rest
	proc   *process
	socket *os.File
}

var _ runner.Runner = (*pluginRunner)(nil)

func (r *pluginRunner) Start(context.Context) error {
	p, err := r.run(r.env)
	if err != nil {
		r.execErr = err
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proc = p
	return nil
}

func (r *pluginRunner) process() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

func (r *pluginRunner) Wait(context.Context) error {
	if p := r.process(); p != nil {
		<-p.exited
	}
	return nil
}

func (r *pluginRunner) Kill(context.Context) error {
	if p := r.process(); p != nil {
		p.signal(unix.SIGKILL)
	}
	return nil
}

func (r *pluginRunner) ID() string {
	if p := r.process(); p != nil {
		return strconv.Itoa(p.pid)
	}
	return ""
}

func (*pluginRunner) Diagnose(context.Context) string { return "" }
func (r *pluginRunner) Name() string                  { return r.name }
func (r *pluginRunner) Stdout() io.ReadCloser         { return r.first }
func (*pluginRunner) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }

// PluginToHost checks the address that the plugin says it listens on.
func (r *pluginRunner) PluginToHost(network, path string) (string, string, error) {
	f, addr, err := r.dir.openSocket(network, path)
	if err != nil {
		return "", "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.socket != nil {
		return "", "", errors.Join(errors.New("plugin listens on a second socket: only one is used"), f.Close())
	}
	r.socket = f
	return addr.Net, addr.Name, nil
}

// HostToPlugin is for sockets that a plugin would connect to; there are none.
func (*pluginRunner) HostToPlugin(network, path string) (string, string, error) {
	return "", "", &net.AddrError{Err: "plugins connect to nothing", Addr: network + " " + path}
}

func (r *pluginRunner) closeSocket() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.socket != nil {
		_ = r.socket.Close() // O_PATH
		r.socket = nil
	}
}

// firstLine is a reader of one line that is handed over once.
type firstLine struct {
	line chan []byte // capacity 1
	rest []byte
}

func newFirstLine() *firstLine { return &firstLine{line: make(chan []byte, 1)} }

// give hands over the line. It is called once, also when the stream ended without one.
func (f *firstLine) give(line []byte) {
	f.line <- append(append([]byte(nil), line...), '\n')
	close(f.line)
}

func (f *firstLine) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		line, ok := <-f.line
		if !ok {
			return 0, io.EOF
		}
		f.rest = line
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (*firstLine) Close() error { return nil }
