package body

import (
	"io"
	"net"
	"sync"
	"testing"
)

// front passes connections on to the adaptation, and can end them: the adaptation itself keeps the connections of plugins that it did not start when it stops.
type front struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func newFront(t *testing.T, path, behind string) *front {
	t.Helper()
	l, err := net.Listen("unix", path) //nolint:noctx // a local socket
	if err != nil {
		t.Fatal(err)
	}
	f := &front{listener: l}
	f.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("unix", behind) //nolint:noctx // a local socket
			if err != nil {
				_ = c.Close()
				continue
			}
			f.mu.Lock()
			f.conns = append(f.conns, c, b)
			f.mu.Unlock()
			f.wg.Go(func() { _, _ = io.Copy(c, b); _ = c.Close() })
			f.wg.Go(func() { _, _ = io.Copy(b, c); _ = b.Close() })
		}
	})
	return f
}

func (f *front) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}
