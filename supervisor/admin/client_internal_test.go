package admin

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMissingPermissionAndAFullQueueHaveTheirHints(t *testing.T) {
	t.Parallel()
	c, err := Dial("/nowhere/admin.sock")
	if err != nil {
		t.Fatal(err)
	}
	for errno, want := range map[syscall.Errno]string{
		syscall.EACCES: "run this as root", syscall.EAGAIN: "nri-supervisor is stuck or the node is overloaded: see its log, and try again",
	} {
		err := c.explain(t.Context(), connectError{&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", errno)}})
		var req *RequestError
		if !errors.As(err, &req) || strings.Join(req.Hints, "") != want || !errors.Is(err, errno) {
			t.Errorf("%v: error %+v", errno, err)
		}
	}
}

func TestAClientDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := start(t, stubAPI{before: func() { <-release }}, defaultLimits(), me())
	c, err := Dial(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	c.http.Timeout = 100 * time.Millisecond
	_, err = c.Status(t.Context())
	close(release)
	var req *RequestError
	if !errors.As(err, &req) || !strings.Contains(req.Message, "no answer within") || len(req.Hints) != 1 {
		t.Errorf("error %v", err)
	}
}
