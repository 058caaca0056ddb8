package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

const (
	// startLimit bounds a registration from the dial to the runtime's Synchronize. The runtime itself gives up after 5 s (api.DefaultPluginRegistrationTimeout); a little more lets
	// its own error arrive.
	startLimit = api.DefaultPluginRegistrationTimeout + time.Second
	// redialFirst and redialMost bound the wait between attempts: a runtime that comes back is noticed within seconds, an absent one costs a syscall now and then.
	redialFirst = 100 * time.Millisecond
	redialMost  = 3 * time.Second
	// stuckAfter is how much longer than the runtime's own timeout a request may be unanswered, or the connection unread, before the connection is closed: the runtime has given that request
	// up long before, and every other event of the node would wait in vain, too. It allows for a node that starves everybody for seconds.
	stuckAfter = 5 * time.Second
	// readAhead is what one read from the runtime takes: most requests whole.
	readAhead = 16 << 10
	// writeStall is how long one write to the runtime may take before the connection is closed: neither ttrpc nor NRI's multiplexer has a limit of its own.
	writeStall = 5 * time.Second
)

// RuntimeInfo is what the runtime said about itself. The zero value: never connected.
type RuntimeInfo struct {
	Name           string        `json:"name"`
	Version        string        `json:"version"`
	NRIVersion     string        `json:"nriVersion"`
	RequestTimeout time.Duration `json:"requestTimeout"`
}

// connection is how the last attempt to reach the runtime went.
type connection struct {
	connected bool
	reason    string // taken, missing, permission, refused, rejected, timeout, lost; empty when connected
	err       string
	hint      string
	since     time.Time
}

// classicEvents are the events that every supported runtime knows: those of NRI 0.8.
func classicEvents() api.EventMask {
	var m api.EventMask
	m.Set(api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX,
		api.Event_CREATE_CONTAINER, api.Event_POST_CREATE_CONTAINER, api.Event_START_CONTAINER, api.Event_POST_START_CONTAINER,
		api.Event_UPDATE_CONTAINER, api.Event_POST_UPDATE_CONTAINER, api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER)
	return m
}

// allEvents is every event but validation, which is a second, fail-closed request for every container.
func allEvents() api.EventMask {
	m := api.ValidEvents
	m.Clear(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	return m
}

// connect keeps a session with the runtime until ctx ends.
func (s *Supervisor) connect(ctx context.Context) {
	wait := &backoff.ExponentialBackOff{
		InitialInterval: redialFirst, MaxInterval: redialMost, Multiplier: 2, RandomizationFactor: 0.3,
	}
	wait.Reset()
	mask := s.wanted()
	unfinished := 0 // registrations in a row that ended between Configure and Synchronize
	for s.awaitTurn(ctx) {
		sess := &session{sup: s, mask: mask}
		err := sess.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if sess.synced {
			wait.Reset()
			mask = s.wanted() // the next runtime may know more, and one refusal costs one attempt
		}
		if sess.configured && !sess.synced {
			unfinished++
		} else {
			unfinished = 0
		}
		if unfinished > 0 && unfinished%2 == 0 { // twice is no accident: perhaps a runtime that refuses events it does not know
			if mask == classicEvents() {
				mask = s.wanted()
			} else {
				mask = classicEvents()
			}
		}
		s.noteUnavailable(sess, err)
		if s.opts.OneSession {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// session is one connection to the runtime.
type session struct {
	sup        *Supervisor
	mask       api.EventMask
	stub       stub.Stub
	budget     time.Duration   // of one request, from its arrival, less the margin
	ctx        context.Context //nolint:containedctx // ends with the session; requests of the runtime belong to it
	configured bool
	synced     bool          // the runtime has told its state; under Supervisor.mu until run has returned
	ended      bool          // under Supervisor.mu
	ready      chan struct{} // closed by the runtime's first Synchronize
	once       sync.Once
	giveUp     bool
	timeout    time.Duration // the runtime's, for one request
	flow       flow
	parts      incoming
	conn       *stallConn
	limit      atomic.Int64               // nanoseconds after which a request is stuck; 0 before Configure
	authors    atomic.Pointer[authorship] // of the creation before; nil without runtime.validate
}

// ErrTaken is wrapped by the errors of Options.Turn when another supervisor serves the runtime.
var ErrTaken = errors.New("another nri-supervisor serves this runtime")

// turnEvery is how often a waiting supervisor looks whether the other one is gone.
const turnEvery = 250 * time.Millisecond

// awaitTurn returns when no other supervisor serves the runtime, and reports false when ctx has ended.
func (s *Supervisor) awaitTurn(ctx context.Context) bool {
	for ctx.Err() == nil {
		if s.opts.Turn == nil {
			return true
		}
		err := s.opts.Turn()
		if err == nil {
			return true
		}
		s.noteUnavailable(&session{sup: s}, err)
		select {
		case <-ctx.Done():
		case <-time.After(turnEvery):
		}
	}
	return false
}

var errLost = errors.New("the runtime closed the connection")

// run dials, registers, serves until the connection ends, and says why it did.
func (se *session) run(ctx context.Context) error {
	dialCtx, cancelDial := context.WithTimeout(ctx, startLimit)
	conn, err := se.sup.dial(dialCtx)
	cancelDial()
	if err != nil {
		return err
	}
	watched := &stallConn{Conn: wire.Quick(conn), limit: writeStall, lost: make(chan struct{}), begun: time.Now()}
	conn, se.conn = wire.NewFramedConn(watched, readAhead), watched
	se.sup.current.Store(se)
	defer se.sup.current.CompareAndSwap(se, nil)
	sctx, end := context.WithCancel(context.WithoutCancel(ctx)) // the end of ctx ends the session only after finish
	defer end()
	se.ctx, se.ready = sctx, make(chan struct{})
	closed := make(chan struct{})
	rt := se.sup.opts.Config.Supervisor.Runtime
	var serve any = &handlers{session: se}
	if se.outside() {
		serve = &validator{handlers{session: se}}
	}
	st, err := stub.New(serve,
		stub.WithConnection(conn), stub.WithPluginName(rt.Name), stub.WithPluginIdx(rt.Index),
		stub.WithOnClose(func() { close(closed) }),
		stub.WithFailurePolicy(&api.FailurePolicy{KeepConnected: true}),
		stub.WithLogger(quietLogger{}), stub.WithTTRPCOptions(nil, se.serverOptions()))
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("prepare registration: %w", err)
	}
	se.stub = st
	started := make(chan error, 1)
	go func() { started <- st.Start(sctx) }()
	defer func() {
		_ = conn.Close()
		se.unblock(sctx, started)
		select {
		case <-closed:
		case <-time.After(time.Second): // Start failed before it had anything to close
		}
		se.sup.sessionEnded(se)
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	startErr := (<-chan error)(started)
	ready := (<-chan struct{})(se.ready)
	for {
		select {
		case err := <-startErr:
			if err != nil {
				started <- err
				return fmt.Errorf("register: %w", err)
			}
			started <- nil
			startErr = nil
		case <-ready:
			limit.Stop()
			ready = nil
		case <-limit.C:
			return fmt.Errorf("register: the runtime did not finish the registration in %s: %w", startLimit, context.DeadlineExceeded)
		case now := <-look.C:
			if why := se.stuck(now); why != "" {
				return errors.New("closed by nri-supervisor itself: " + why)
			}
		case <-closed:
			return errLost
		case <-watched.lost: // during its start the stub does not say
			return errLost
		case <-ctx.Done():
			se.finish()
			return ctx.Err()
		}
	}
}

// stuck says what of the session makes no progress; empty: nothing.
func (se *session) stuck(now time.Time) string {
	limit := time.Duration(se.limit.Load())
	if limit == 0 {
		return ""
	}
	if d := se.flow.longest(now); d > limit {
		return "a request of the runtime has been unanswered for " + d.Round(time.Second).String()
	}
	if d := se.conn.unread(now); d > limit {
		return "the runtime's connection has not been read for " + d.Round(time.Second).String()
	}
	return ""
}

// finish lets the requests that are being answered end, so that the connection closes between two of them.
func (se *session) finish() {
	begin := time.Now()
	defer func() { se.sup.finishing = time.Since(begin) }()
	limit := time.NewTimer(min(max(se.timeout, margin(se.timeout)), finishLimit))
	defer limit.Stop()
	select {
	case <-se.flow.quiet():
	case <-limit.C:
	}
}

// unblock waits for Start to return. A runtime that goes away between Register and Configure leaves it waiting for a Configure that never comes, holding the stub's lock; so
// one is made up, which our handler refuses.
func (se *session) unblock(ctx context.Context, started chan error) {
	const grace = time.Second // a Start that is not waiting for a Configure ends by itself, because the connection is closed; it must not be disturbed before it waits
	select {
	case err := <-started:
		started <- err
		return
	case <-time.After(grace):
	}
	se.giveUp = true
	if c, ok := se.stub.(interface {
		Configure(context.Context, *api.ConfigureRequest) (*api.ConfigureResponse, error)
	}); ok {
		_, _ = c.Configure(ctx, &api.ConfigureRequest{})
	}
	<-started //nolint:errcheck // run has its reason already
}

func (s *Supervisor) dial(ctx context.Context) (net.Conn, error) {
	if s.opts.Dial != nil {
		return s.opts.Dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.opts.Config.Supervisor.Runtime.Socket)
}

// sessionBegan tells the plugins that a runtime is there and its state known, and before that what is gone. It reports false when the session has ended already.
func (s *Supervisor) sessionBegan(se *session, now time.Time, gone []farewell) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if se.ended {
		return false
	}
	se.synced = true
	s.conn = connection{connected: true, since: now}
	s.tellVanishedLocked(gone)
	s.tellStateLocked()
	return true
}

// sessionOver reports whether the session has ended.
func (s *Supervisor) sessionOver(se *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return se.ended
}

// tellStateLocked makes every plugin be told the state as it is now. Under mu, so that the beginnings and ends of sessions reach all plugins in one order.
func (s *Supervisor) tellStateLocked() {
	s.sessions++
	for _, h := range s.plan().hosts {
		h.box.put(message{in: plugin.RuntimeUp{Session: s.sessions}, fn: func() {
			if h.down() {
				h.explainDown()
			}
		}})
	}
}

// sessionEnded tells the plugins that the runtime is gone.
func (s *Supervisor) sessionEnded(se *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	se.ended = true
	s.metrics.runtimeGone()
	if !se.synced {
		return
	}
	s.conn.connected = false
	for _, h := range s.plan().hosts {
		h.post(plugin.RuntimeDown{})
	}
	s.emit(RuntimeLost{Reason: "the connection ended"})
}

// noteUnavailable remembers why the runtime cannot be reached, and says so once per different reason.
func (s *Supervisor) noteUnavailable(se *session, err error) {
	c := connection{err: err.Error(), since: time.Now()}
	socket := s.opts.Config.Supervisor.Runtime.Socket
	switch {
	case errors.Is(err, ErrTaken):
		c.reason = "taken"
		c.hint = "this one takes over when the other is gone; stop one of them if that is not meant"
	case errors.Is(err, fs.ErrNotExist):
		c.reason = "missing"
		c.hint = "NRI is off, or the socket is elsewhere: enable it in the runtime (containerd: disable = false in the nri plugin's table, the default from 2.0) or set runtime.socket"
	case errors.Is(err, fs.ErrPermission):
		c.reason = "permission"
		c.hint = "run as root; under SELinux the container needs a type that may connect to the runtime's socket (spc_t)"
	case errors.Is(err, syscall.ECONNREFUSED):
		c.reason = "refused"
		c.hint = "nobody listens: the runtime is down, or the socket file itself was mounted into this container and is stale: mount its folder"
	case errors.Is(err, context.DeadlineExceeded):
		c.reason = "timeout"
		c.hint = "the runtime accepts but does not finish the registration: it may wait for another plugin, or be stuck"
	case errors.Is(err, errLost) && se.synced:
		c.reason = "lost"
	default:
		c.reason = "rejected"
		c.hint = "look into the runtime's log for why it refused the registration"
	}
	s.mu.Lock()
	if s.sessions > 0 && c.reason == "missing" { // it was good before
		c.hint = "the runtime does not run: start it; if it runs, " + c.hint
	}
	again := s.conn.reason == c.reason
	if again {
		c.since = s.conn.since
	}
	s.conn = c
	s.mu.Unlock()
	if !again {
		s.emit(RuntimeUnavailable{Socket: socket, Reason: c.reason, Err: c.err, Hint: c.hint})
	}
}
