package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // http.Server takes its complaints nowhere else; they go to Options.Problem
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options are the listeners to what Serve does. Each may be nil. They are called on several goroutines and must not block.
type Options struct {
	// Listening is called once, when clients can connect.
	Listening func()
	// Denied is told of each request of a peer that may not ask.
	Denied func(Denial)
	// Problem is told, in one line, of what went wrong and cost nothing but a connection, and of a request that came too late and was not carried out.
	Problem func(text string)
	// Roles say who may do what. The zero value: root and the user of this process everything, others nothing.
	Roles Roles
	// Log is the level of the log. Nil: it cannot be changed.
	Log LogLevels
}

// Denial is a request that was answered with 403.
type Denial struct {
	// UID and PID are the peer's, from the kernel. PID is 0 when the peer is in a pid namespace that is not visible here.
	UID uint32
	PID int
	// Method and Path are what it asked for. They come from the peer, as they are.
	Method, Path string
}

// limits bound what clients can cost.
type limits struct {
	read  time.Duration // from the accept to the end of the request
	write time.Duration // from the request's head to the end of the reply
	grace time.Duration // for requests that run when Serve is told to end
	body  int64         // bytes of a request's body
	head  int           // bytes of a request's head
	ours  int           // connections of admins, and as many of peers with lower roles
	other int           // connections of peers that may not
	tails int           // streams that follow something at once
}

// defaultLimits are far above what the command line needs, whose requests are a few hundred bytes and are answered within milliseconds, and far below what would hurt: all
// connections together cost less than 1 MiB, and a client that is stopped frees its own within seconds.
func defaultLimits() limits {
	return limits{read: 5 * time.Second, write: 10 * time.Second, grace: time.Second, body: 4 << 10, head: 16 << 10, ours: 64, other: 8, tails: 16}
}

// Serve answers on the unix socket at socketPath until ctx ends; it then returns nil, when every goroutine that it started has ended and the socket file is gone. Requests
// that run at that moment have one second to end. It returns an error at once when it cannot listen: when the path is not absolute or longer than 107 bytes, when its
// folder belongs to or can be written by others, when something that is not a socket is in the way, and when somebody answers there already. A folder that does not exist is made with mode 0700; a
// stale socket is replaced.
func Serve(ctx context.Context, socketPath string, api API, o Options) error {
	s := newServer(api, o, defaultLimits())
	return s.serve(ctx, socketPath)
}

// server is one run of Serve.
type server struct {
	api    API
	opts   Options
	limits limits
	role   func(uid uint32, gids []uint32) Role
	tails  chan struct{} // a slot for each stream
}

func newServer(api API, o Options, l limits) *server {
	if o.Listening == nil {
		o.Listening = func() {}
	}
	if o.Denied == nil {
		o.Denied = func(Denial) {}
	}
	if o.Problem == nil {
		o.Problem = func(string) {}
	}
	return &server{api: api, opts: o, limits: l, role: o.Roles.of, tails: make(chan struct{}, l.tails)}
}

func (s *server) serve(ctx context.Context, path string) error {
	socket, err := listen(ctx, path, s.opts.Roles)
	if err != nil {
		return err
	}
	var conns sync.WaitGroup // of the goroutines that http.Server starts, one per connection
	srv := &http.Server{
		Handler:     s.handler(),
		ReadTimeout: s.limits.read, ReadHeaderTimeout: s.limits.read, WriteTimeout: s.limits.write,
		MaxHeaderBytes: s.limits.head,
		ConnContext:    func(ctx context.Context, c net.Conn) context.Context { return withHangUp(withPeer(ctx, c), c) },
		BaseContext:    func(net.Listener) context.Context { return ctx }, // streams end with it
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed:
				conns.Done()
			case http.StateActive, http.StateIdle, http.StateHijacked: // nothing here hijacks
			}
		},
		ErrorLog: log.New(lineWriter(s.opts.Problem), "", 0),
	}
	srv.SetKeepAlivesEnabled(false)
	var serveErr error
	served := make(chan struct{})
	go func() {
		defer close(served)
		serveErr = srv.Serve(&gate{
			socketFile: socket, role: s.role, problem: s.opts.Problem, admins: make(chan struct{}, s.limits.ours),
			members: make(chan struct{}, s.limits.ours), others: make(chan struct{}, s.limits.other),
		})
	}()
	s.opts.Listening()
	select {
	case <-ctx.Done():
	case <-served:
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.grace)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close()
	}
	<-served
	conns.Wait()
	if !errors.Is(serveErr, http.ErrServerClosed) {
		return fmt.Errorf("serve on %q: %w", path, serveErr)
	}
	return nil
}

// lineWriter hands each line to a function.
type lineWriter func(string)

var _ io.Writer = lineWriter(nil)

// Write takes one message of the log package, which is one or more whole lines.
func (w lineWriter) Write(p []byte) (int, error) {
	w(strings.TrimSpace(string(p)))
	return len(p), nil
}
