package admin

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAPeerThatMayNotAskIsToldSoAndReported(t *testing.T) {
	t.Parallel()
	asked := atomic.Bool{}
	r := start(t, stubAPI{before: func() { asked.Store(true) }}, defaultLimits(), notMe())
	c, err := Dial(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	uid := "uid " + strconv.Itoa(os.Geteuid()) + " may not use the admin socket"
	_, statusErr := c.Status(t.Context())
	_, missedErr := c.Missed(t.Context())
	_, actErr := c.Act(t.Context(), "a", "disable")
	_, bypassErr := c.Bypass(t.Context(), time.Minute)
	for what, err := range map[string]error{"status": statusErr, "missed": missedErr, "act": actErr, "bypass": bypassErr} {
		var req *RequestError
		if !errors.As(err, &req) || req.Status != http.StatusForbidden || req.Message != uid || strings.Join(req.Hints, "") != "run this as root" {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if asked.Load() {
		t.Error("the supervisor was asked")
	}
	for _, want := range []Denial{
		{UID: me(), PID: os.Getpid(), Method: "GET", Path: "/v1/status"},
		{UID: me(), PID: os.Getpid(), Method: "GET", Path: "/v1/missed"},
		{UID: me(), PID: os.Getpid(), Method: "POST", Path: "/v1/plugins/a/disable"},
		{UID: me(), PID: os.Getpid(), Method: "POST", Path: "/v1/bypass"},
	} {
		if got := <-r.denied; got != want {
			t.Errorf("denied %+v, want %+v", got, want)
		}
	}
}

func TestARequestWithoutAPeerMayDoNothing(t *testing.T) {
	t.Parallel()
	if p := peerFrom(t.Context()); p.role != RoleNone {
		t.Error("nobody is allowed")
	}
	if ctx := withPeer(t.Context(), nil); peerFrom(ctx).role != RoleNone {
		t.Error("a connection of another kind is allowed")
	}
}

func TestEachOfTheUIDsThatAreAdmittedMayAsk(t *testing.T) {
	t.Parallel()
	for _, admits := range [][]uint32{{me()}, {notMe(), me()}} {
		if _, err := start(t, stubAPI{}, defaultLimits(), admits...).ask(t); err != nil {
			t.Error(err)
		}
	}
}

func TestThePeerOfAConnectionIsTheProcessThatConnected(t *testing.T) {
	t.Parallel()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fds[1]) }()
	f := os.NewFile(uintptr(fds[0]), "pair")
	c, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		t.Fatal(err)
	}
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		t.Fatalf("a %T", c)
	}
	if p, err := peerOf(unixConn); err != nil || p.uid != me() || int(p.pid) != os.Getpid() || p.role != RoleNone {
		t.Errorf("peer %+v, %v", p, err)
	}
	_ = c.Close()
	if _, err := peerOf(unixConn); err == nil {
		t.Error("a closed connection has a peer")
	}
}

func TestOnlyRootAndWeAreTrustedWithTheFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner, euid int
		want        bool
	}{{0, 0, true}, {0, 1000, true}, {1000, 1000, true}, {1000, 0, false}, {1001, 1000, false}} {
		if got := trustedOwner(c.owner, c.euid); got != c.want {
			t.Errorf("trustedOwner(%d, %d) = %v", c.owner, c.euid, got)
		}
	}
}
