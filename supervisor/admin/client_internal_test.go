package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
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

func TestWhoListensAndIsStoppedIsNamed(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), "sleep", "1h")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pid := int64(child.Process.Pid)
	over := time.Now().Add(time.Minute)
	for processState(pid) != 'T' {
		if time.Now().After(over) {
			t.Fatalf("process %d has the state %q", pid, processState(pid))
		}
		runtime.Gosched()
	}
	c := &Client{pid: &atomic.Int64{}}
	c.pid.Store(pid)
	if hints, want := c.stuck(), fmt.Sprintf("kill -CONT %d ", pid); !strings.Contains(hints[0], want) || !strings.Contains(hints[1], "nri-supervisor doctor") {
		t.Errorf("hints %q, want %q", hints, want)
	}
	c.pid.Store(0)
	if hints := c.stuck(); !strings.Contains(hints[0], "is stuck or the node is overloaded") {
		t.Errorf("hints %q for a process that cannot be seen", hints)
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
	transport, ok := c.http.Transport.(*http.Transport)
	if !ok || transport.ResponseHeaderTimeout != answerLimit || c.http.Timeout != clientLimit {
		t.Fatalf("the client waits %+v", c.http)
	}
	transport.ResponseHeaderTimeout = 100 * time.Millisecond
	_, err = c.Status(t.Context())
	close(release)
	if got, want := c.pid.Load(), int64(os.Getpid()); got != want {
		t.Errorf("process %d listens, want %d", got, want)
	}
	var req *RequestError
	if !errors.As(err, &req) || !strings.Contains(req.Message, "no answer within 5s") || len(req.Hints) != 2 {
		t.Errorf("error %v", err)
	}
}
