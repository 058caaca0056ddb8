package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// RequestError says why a request was not answered with success, and what to do.
type RequestError struct {
	// Status is the HTTP status code of the reply; 0 when there was none.
	Status int
	// Message says what is wrong, in one line.
	Message string
	// Hints say what to try, one line each; nil when there is nothing to say.
	Hints []string

	err        error
	unanswered bool // the request may have reached the supervisor, and no answer came back
}

// Error returns the message without the hints.
func (e *RequestError) Error() string { return e.Message }

// Unwrap returns the error of the connection; nil when the request was answered.
func (e *RequestError) Unwrap() error { return e.err }

// Timeout reports whether somebody listens and did not answer in time.
func (e *RequestError) Timeout() bool {
	nerr, ok := errors.AsType[net.Error](e.err)
	return ok && nerr.Timeout()
}

// connectError marks an error of connecting, as opposed to one of the connection.
type connectError struct{ error }

// Unwrap returns the cause.
func (e connectError) Unwrap() error { return e.error }

// explain says what an error of the connection means for whoever typed the command.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if inURL, ok := errors.AsType[*url.Error](err); ok { // http.Client's wrapper names a method and a made-up host
		err = inURL.Err
	}
	if connect, ok := errors.AsType[connectError](err); ok {
		return c.explainConnect(connect.error)
	}
	if nerr, ok := errors.AsType[net.Error](err); ok && nerr.Timeout() {
		limit := cmp.Or(c.http.Timeout, clientLimit)
		if strings.Contains(err.Error(), "timeout awaiting response headers") { // net/http has no type for it
			limit = answerLimit
		}
		return &RequestError{Message: fmt.Sprintf("ask %q: no answer within %s", c.socket, limit), err: err, unanswered: true, Hints: c.stuck()}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return &RequestError{
			Message: fmt.Sprintf("ask %q: the service closed the connection without an answer", c.socket), err: err, unanswered: true,
			Hints: []string{"nri-supervisor is just stopping, or too many clients are connected: try again"},
		}
	}
	return c.notOurs(err)
}

// stuck says what to do about a supervisor that listens and does not answer.
func (c *Client) stuck() []string {
	return []string{c.Stuck(), "nri-supervisor doctor says what else is wrong on the node; systemctl restart nri-supervisor replaces it, and pods keep running"}
}

// Stuck says of a supervisor that listens and does not answer, by the state of its process, why that is and what to do first. It is about the one that the latest request reached.
func (c *Client) Stuck() string {
	pid := c.pid.Load()
	switch processState(pid) {
	case 'T', 't':
		return fmt.Sprintf("its process %d is stopped: kill -CONT %d lets it go on; find out who stopped it", pid, pid)
	case 'D':
		return fmt.Sprintf("its process %d waits for a disk or a device: see the kernel's log", pid)
	default:
		return "nri-supervisor is stuck or the node is overloaded: see its log, and the pressure files in /proc/pressure"
	}
}

// explainConnect tells apart the ways in which connecting fails.
func (c *Client) explainConnect(err error) error {
	e := &RequestError{Message: fmt.Sprintf("connect to %q: %v", c.socket, errnoOf(err)), err: err}
	info, statErr := os.Stat(c.socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Message = fmt.Sprintf("connect to %q: there is no such socket", c.socket)
		e.Hints = []string{"nri-supervisor does not run on this host, or its admin socket is elsewhere: set --socket"}
	case errors.Is(err, fs.ErrPermission):
		e.Hints = []string{"run this as root"}
	case statErr == nil && info.Mode().Type() != fs.ModeSocket: // connecting to a file is "refused", too
		e.Message = fmt.Sprintf("connect to %q: it is not a socket", c.socket)
		e.Hints = []string{"set --socket to the admin socket of nri-supervisor"}
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = fmt.Sprintf("connect to %q: nobody answers", c.socket)
		e.Hints = []string{"nri-supervisor died and left its socket behind: see its log, then start it again: systemctl start nri-supervisor"}
	case errors.Is(err, syscall.EAGAIN): // the queue of the listener is full
		e.Message = fmt.Sprintf("connect to %q: too many clients are waiting", c.socket)
		e.Hints = []string{"nri-supervisor is stuck or the node is overloaded: see its log, and try again"}
	}
	return e
}

// notOurs says that somebody answers who does not speak our protocol.
func (c *Client) notOurs(err error) error {
	return &RequestError{
		Message: fmt.Sprintf("ask %q: not an answer of nri-supervisor: %v", c.socket, err), err: err,
		Hints: []string{"set --socket to the admin socket of nri-supervisor", "the command line and the service may be of different versions"},
	}
}
