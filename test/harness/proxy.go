package harness

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between plugins and the adaptation, which never closes the connections of external plugins by itself: a runtime's process would take them with it.
type proxy struct {
	l         net.Listener
	to        string
	dials     *atomic.Int64
	intercept *atomic.Pointer[func(n int, c net.Conn) bool]

	mu    sync.Mutex // guards the rest
	conns map[net.Conn]struct{}
	shut  bool
	wg    sync.WaitGroup
}

func newProxy(tb testing.TB, path, to string, dials *atomic.Int64, intercept *atomic.Pointer[func(n int, c net.Conn) bool]) *proxy {
	tb.Helper()
	_ = os.Remove(path)
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{l: l, to: to, dials: dials, intercept: intercept, conns: map[net.Conn]struct{}{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(dials.Add(1))
			p.wg.Go(func() { p.serve(n, c) })
		}
	})
	return p
}

func (p *proxy) serve(n int, c net.Conn) {
	if f := p.intercept.Load(); f != nil {
		if !p.track(c) {
			return
		}
		if (*f)(n, c) {
			return
		}
	}
	up, err := (&net.Dialer{}).DialContext(context.Background(), "unix", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	if !p.track(c, up) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pipe(c, up) })
	both.Go(func() { p.pipe(up, c) })
	both.Wait()
}

// pipe copies one direction; the end of one ends both.
func (p *proxy) pipe(dst, src net.Conn) {
	_, _ = io.Copy(dst, src)
	_ = dst.Close()
	_ = src.Close()
	p.mu.Lock()
	delete(p.conns, src)
	p.mu.Unlock()
}

func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.shut {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.shut
}

// cut ends every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// close ends the listener and every connection.
func (p *proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	p.shut = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
