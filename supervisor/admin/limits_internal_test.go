package admin

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// stubAPI answers with a status, after what before does.
type stubAPI struct {
	API    // what no test asks for
	before func()
}

func (s stubAPI) Status() supervisor.Status {
	if s.before != nil {
		s.before()
	}
	return supervisor.Status{Version: "v1"}
}
func (stubAPI) Missed() []supervisor.MissedWork  { return nil }
func (stubAPI) Act(_, _ string, _ uint32) error  { return nil }
func (stubAPI) Bypass(_ time.Duration, _ uint32) {}
func (stubAPI) ReloadBy(context.Context, uint32) (supervisor.ReloadReport, error) {
	return supervisor.ReloadReport{}, nil
}

// running is a server whose limits, uids and listeners a test chose.
type running struct {
	socket   string
	stop     func() // ends it, and returns when Serve has
	denied   chan Denial
	problems chan string
	role     func(Role) // gives those who are admitted another one
}

func start(t *testing.T, api API, l limits, admits ...uint32) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &running{socket: filepath.Join(dir, "admin.sock"), denied: make(chan Denial, 100), problems: make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, ended := make(chan struct{}), make(chan error, 1)
	s := newServer(api, Options{
		Listening: func() { close(up) }, Denied: func(d Denial) { r.denied <- d },
		Problem: func(p string) {
			select {
			case r.problems <- p:
			default: // a test that asks again and again looks at the first ones
			}
		},
	}, l)
	var now atomic.Int32
	now.Store(int32(RoleAdmin))
	r.role = func(role Role) { now.Store(int32(role)) }
	s.role = func(uid uint32, _ []uint32) Role {
		if slices.Contains(admits, uid) {
			return Role(now.Load())
		}
		return RoleNone
	}
	go func() { ended <- s.serve(ctx, r.socket) }()
	select {
	case <-up:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func me() uint32 { return uint32(os.Geteuid()) }

// notMe are the uids that a supervisor of somebody else admits.
func notMe() uint32 { return me() + 4242 }

func (r *running) connect(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask asks for the status as a well-behaved client does.
func (r *running) ask(t *testing.T) (supervisor.Status, error) {
	t.Helper()
	c, err := Dial(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	return c.Status(t.Context())
}

// closed waits until the other side has closed the connection, and returns what it had sent.
func closed(t *testing.T, c net.Conn) string {
	t.Helper()
	data, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	return string(data)
}

func TestASilentClientIsClosedAndKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.read = 200 * time.Millisecond
	r := start(t, stubAPI{}, l, me())
	silent, half, slow := r.connect(t), r.connect(t), r.connect(t)
	if _, err := half.Write([]byte("GET /v1/status HTTP/1.1\r\nHost: x\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Write([]byte("POST /v1/bypass HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := r.ask(t); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]net.Conn{"silent": silent, "half a head": half} {
		if got := closed(t, c); strings.Contains(got, " 200 ") {
			t.Errorf("%s: answer %q", name, got)
		}
	}
	if got := closed(t, slow); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("half a body: answer %q", got)
	}
}

func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.write, l.ours = time.Second, 1
	r := start(t, largeAPI{version: strings.Repeat("x", 1<<20)}, l, me()) // more than a socket's buffer takes
	c := r.connect(t)
	if _, err := c.Write([]byte("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	r.askUntilAnswered(t) // the only slot is free again
	if got := len(closed(t, c)); got >= 1<<20 {
		t.Errorf("%d bytes arrived", got)
	}
}

// largeAPI has a status that fills socket buffers.
type largeAPI struct {
	stubAPI

	version string
}

func (l largeAPI) Status() supervisor.Status { return supervisor.Status{Version: l.version} }

// askUntilAnswered asks until there is a free slot.
func (r *running) askUntilAnswered(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; {
		_, err := r.ask(t)
		if err == nil {
			return
		}
		if time.Since(begin) > 30*time.Second { // far above every limit
			t.Fatalf("no slot becomes free: %v", err)
		}
	}
}

func TestConnectionsAboveTheLimitAreClosedAndReported(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.ours = 3
	r := start(t, stubAPI{}, l, me())
	var held []net.Conn
	for range l.ours {
		held = append(held, r.connect(t))
	}
	if got := closed(t, r.connect(t)); got != "" {
		t.Errorf("answer %q", got)
	}
	if p := <-r.problems; !strings.Contains(p, "closed a connection of uid "+strconv.Itoa(os.Geteuid())) || !strings.Contains(p, "3 are open already") {
		t.Errorf("problem %q", p)
	}
	_ = held[0].Close()
	r.askUntilAnswered(t)
}

func TestPeersThatMayNotAskCannotUseUpTheSlotsOfTheOthers(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.ours, l.other = 1, 2
	r := start(t, stubAPI{}, l, notMe())
	for range l.other {
		r.connect(t)
	}
	if got := closed(t, r.connect(t)); got != "" {
		t.Errorf("answer %q", got)
	}
	if p := <-r.problems; !strings.Contains(p, "2 are open already") {
		t.Errorf("problem %q: the limit of the others applies", p)
	}
}

func TestServeReturnsOnlyWhenItsRequestsHaveEnded(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.grace, l.read = time.Millisecond, time.Hour
	inside, release := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	r := start(t, stubAPI{before: func() {
		close(inside)
		<-release
		over.Store(true)
	}}, l, me())
	silent := r.connect(t)
	if _, err := r.connect(t).Write([]byte("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-inside
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	closed(t, silent) // the grace is over: connections are being closed
	close(release)
	<-stopped
	if !over.Load() {
		t.Error("Serve returned before the request had ended")
	}
	if _, err := os.Lstat(r.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestARequestThatRunsWhenServeEndsIsStillAnswered(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.grace = 20 * time.Second
	inside, release := make(chan struct{}), make(chan struct{})
	r := start(t, stubAPI{before: func() { close(inside); <-release }}, l, me())
	answered := make(chan error, 1)
	go func() {
		st, err := r.ask(t)
		if err == nil && st.Version != "v1" {
			err = errors.New("version " + st.Version)
		}
		answered <- err
	}()
	<-inside
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	for { // until it listens no more
		c, err := net.Dial("unix", r.socket)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-stopped
}

func TestABugInAHandlerIsReportedAndCostsOneConnection(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	r := start(t, stubAPI{before: func() {
		if calls.Add(1) == 1 {
			panic("boom")
		}
	}}, defaultLimits(), me())
	if _, err := r.ask(t); err == nil {
		t.Error("a request that was never answered has no error")
	}
	if p := <-r.problems; !strings.Contains(p, "boom") {
		t.Errorf("problem %q", p)
	}
	if _, err := r.ask(t); err != nil {
		t.Error(err)
	}
}

func TestManyClientsAtOnceAreAllAnswered(t *testing.T) {
	t.Parallel()
	r := start(t, stubAPI{}, defaultLimits(), me())
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for range 10 {
				if _, err := r.ask(t); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
}

func TestAHeadThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, stubAPI{}, defaultLimits(), me())
	c := r.connect(t)
	go func() {
		_, _ = io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	}()
	if got := closed(t, c); strings.Contains(got, " 200 ") {
		t.Errorf("answer %q", got)
	}
}
