package plugins

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// watchedConn is an NRI connection that tells when it is lost. NRI's stub cannot be relied on for that: it waits for
// ever when its peer goes away between registration and configuration.
type watchedConn struct {
	net.Conn
	once sync.Once
	lost chan struct{}
}

// readAhead is what one read from the runtime or the supervisor takes: most requests whole.
const readAhead = 16 << 10

func watch(c net.Conn) *watchedConn {
	return &watchedConn{Conn: wire.NewFramedConn(wire.Quick(c), readAhead), lost: make(chan struct{})}
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.gone()
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.gone()
	return c.Conn.Close()
}

func (c *watchedConn) gone() { c.once.Do(func() { close(c.lost) }) }

func (c *watchedConn) alive() bool {
	select {
	case <-c.lost:
		return false
	default:
		return true
	}
}

// connect returns the connection that the starter handed over, or else dials path.
func connect(path string) (*watchedConn, error) {
	if env := os.Getenv(api.PluginSocketEnvVar); env != "" {
		fd, err := strconv.Atoi(env)
		if err != nil || fd < 0 {
			return nil, fmt.Errorf("use socket %s=%q: not a file descriptor number", api.PluginSocketEnvVar, env)
		}
		f := os.NewFile(uintptr(fd), "nri socket")
		conn, err := net.FileConn(f)
		if err != nil {
			return nil, fmt.Errorf("use socket %s=%q: %w", api.PluginSocketEnvVar, env, err)
		}
		// conn is a duplicate that is closed on exec; the original would be inherited by what the plugin executes.
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("close descriptor %d: %w", fd, err)
		}
		return watch(conn), nil
	}
	if path == "" {
		path = api.DefaultSocketPath
	}
	conn, err := net.Dial("unix", path) //nolint:noctx // a local socket: it answers at once or not at all
	if err != nil {
		return nil, fmt.Errorf("connect to the runtime's NRI socket: %w", err)
	}
	return watch(conn), nil
}
