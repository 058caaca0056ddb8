package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// deadlineHeader is the header of a request that changes something: the instant, as time.RFC3339Nano has it, after which it must not be begun any more. It is the time of day, which goes on while
// either process is stopped. A request without one is carried out as long as its client is there.
const deadlineHeader = "Nri-Supervisor-Deadline"

// beginLimit is how long after it was sent a request that changes something may be begun: so much less than [answerLimit] that a client which has given up can rely on it.
const beginLimit = answerLimit - time.Second

// hangUpKey is the key of the question, in a request's context, whether the client has closed the connection.
type hangUpKey struct{}

// withHangUp puts that question into the context of a connection's requests.
func withHangUp(ctx context.Context, c net.Conn) context.Context {
	if sc, ok := c.(syscall.Conn); ok {
		return context.WithValue(ctx, hangUpKey{}, func() bool { return hungUp(sc) })
	}
	return ctx
}

// hungUp says whether the peer of a unix connection has closed it: POLLHUP of poll(2), which comes only when both directions are closed.
func hungUp(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true // it is closed here
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a descriptor is an int
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0
	})
	return gone || err != nil
}

// void returns an error for a request that nobody waits for any more, which is the case after the supervisor was stopped or stuck for a while: who gave up was told that it failed, and it must not
// be carried out behind their back. It is asked right before a change is made.
func (s *server) void(r *http.Request) error {
	why := ""
	if gone, ok := r.Context().Value(hangUpKey{}).(func() bool); ok && gone() {
		why = "its client is gone"
	}
	if text := r.Header.Get(deadlineHeader); text != "" {
		over, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return badRequest("write the instant as 2006-01-02T15:04:05Z", "the header %s is %q, which is no instant", deadlineHeader, text)
		}
		if late := time.Since(over.Round(0)); late > 0 {
			why = fmt.Sprintf("its deadline was over %s ago", late.Round(time.Millisecond))
		}
	}
	if why == "" {
		return nil
	}
	p := peerFrom(r.Context())
	s.opts.Problem(fmt.Sprintf("not carried out: %s %q of uid %d, pid %d: %s", r.Method, r.URL.Path, p.uid, p.pid, why))
	return httpError{http.StatusRequestTimeout, ErrorReply{
		Error: "the request came too late and was not carried out: " + why, Hints: []string{"nri-supervisor was stopped or stuck, or the clock was set: ask again"},
	}}
}

// mayCome is the hint about a request to change something that has no answer.
func mayCome(over time.Time) string {
	return "it is not carried out any more unless it was begun before " + over.UTC().Format(time.TimeOnly) + "Z, or the service is older than this command: look at nri-supervisor status"
}

// awake returns an error if the supervisor does not answer what it answers at once: before it is asked for what may take long.
func (c *Client) awake(ctx context.Context) error {
	_, err := c.Status(ctx)
	return err
}
