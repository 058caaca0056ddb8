package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

const (
	// clientLimit bounds one request from the connect to the end of the reply: longer than the server takes at most to write it.
	clientLimit = 15 * time.Second
	// answerLimit bounds the wait for the begin of the reply. The supervisor answers from memory, in milliseconds; who waits longer wants to know that something is stuck.
	answerLimit = 5 * time.Second
	// maxReply bounds a reply in bytes. The largest is the list of missing work, about 300 bytes a piece: room for 200,000 pieces.
	maxReply = 64 << 20
)

// Client asks a running supervisor. Each request connects anew, so that a client needs no closing and outlives a restart of the service. It is safe for concurrent use.
//
// The errors of its methods are *[RequestError], or the context's when that ended first.
type Client struct {
	socket string
	http   *http.Client  // for what is answered at once
	slow   *http.Client  // for what takes as long as it takes
	pid    *atomic.Int64 // of the process that listens; 0: not known
}

// Dial returns a client for the socket. It checks the path only: nothing is connected before the first request.
func Dial(socket string) (*Client, error) {
	path, err := filepath.Abs(socket)
	if err != nil || socket == "" {
		path = socket
	}
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	c := &Client{socket: path, pid: &atomic.Int64{}}
	dialer := &net.Dialer{}
	client := func(answer time.Duration) *http.Client {
		return &http.Client{
			Timeout: clientLimit,
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					conn, err := dialer.DialContext(ctx, "unix", path)
					if err != nil {
						return nil, connectError{err}
					}
					c.pid.Store(listenerOf(conn))
					return conn, nil
				},
				DisableKeepAlives: true, ResponseHeaderTimeout: answer,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	c.http, c.slow = client(answerLimit), client(0)
	return c, nil
}

// Socket returns the absolute path of the socket.
func (c *Client) Socket() string { return c.socket }

// Status returns the state of everything.
func (c *Client) Status(ctx context.Context) (supervisor.Status, error) {
	var out supervisor.Status
	err := c.do(ctx, http.MethodGet, "/v1/status", nil, &out)
	return out, err
}

// Missed lists the living containers that run without a plugin's work, ordered by namespace, pod, container and plugin.
func (c *Client) Missed(ctx context.Context) ([]supervisor.MissedWork, error) {
	out := []supervisor.MissedWork{}
	err := c.do(ctx, http.MethodGet, "/v1/missed", nil, &out)
	return out, err
}

// Act carries out one of [Actions] on a plugin. It returns when the supervisor has taken note, not when the effect is over.
func (c *Client) Act(ctx context.Context, plugin, action string) (ActionReply, error) {
	var out ActionReply
	if strings.Trim(plugin, ".") == "" { // no plugin's name, but a path of another meaning
		return out, &RequestError{Status: http.StatusNotFound, Message: fmt.Sprintf("no such plugin: %q", plugin)}
	}
	err := c.do(ctx, http.MethodPost, "/v1/plugins/"+url.PathEscape(plugin)+"/"+url.PathEscape(action), nil, &out)
	return out, err
}

// Reload makes the supervisor read its configuration again, and returns what came of it when that is known, after a minute at most.
func (c *Client) Reload(ctx context.Context) (supervisor.ReloadReport, error) {
	var out supervisor.ReloadReport
	if err := c.awake(ctx); err != nil {
		return out, err
	}
	patient := *c
	patient.http = &http.Client{Timeout: reloadLimit + clientLimit, Transport: c.slow.Transport, CheckRedirect: c.slow.CheckRedirect}
	err := patient.do(ctx, http.MethodPost, "/v1/reload", nil, &out)
	return out, err
}

// Bypass makes the supervisor a no-op for d, at most [MaxBypass]; 0 ends that.
func (c *Client) Bypass(ctx context.Context, d time.Duration) (BypassReply, error) {
	var out BypassReply
	err := c.do(ctx, http.MethodPost, "/v1/bypass", BypassRequest{For: d.String()}, &out)
	return out, err
}

// errNull is a reply that decodes and says nothing.
var errNull = errors.New("null")

// do sends one request and decodes the reply into out.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	return c.send(ctx, c.http, method, path, in, func(resp *http.Response) error {
		data, err := c.body(ctx, resp)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, out); err != nil {
			return c.notOurs(err)
		}
		if string(bytes.TrimSpace(data)) == "null" { // which leaves out as it was
			return c.notOurs(errNull)
		}
		return nil
	})
}

// body reads a whole reply.
func (c *Client) body(ctx context.Context, resp *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, c.explain(ctx, err)
	case len(data) > maxReply:
		return nil, &RequestError{Message: fmt.Sprintf("the reply of %q has more than %d MiB", c.socket, maxReply>>20)}
	}
	return data, nil
}

// send sends one request and gives a reply that is a success to read.
func (c *Client) send(ctx context.Context, client *http.Client, method, path string, in any, read func(*http.Response) error) (failed error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, body) // the host is for the protocol's sake: DialContext ignores it
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		over := time.Now().Add(beginLimit)
		req.Header.Set(deadlineHeader, over.UTC().Format(time.RFC3339Nano))
		defer func() {
			if e, ok := errors.AsType[*RequestError](failed); ok && e.unanswered {
				e.Hints = append([]string{mayCome(over)}, e.Hints...)
			}
		}()
	}
	resp, err := client.Do(req)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return read(resp)
	}
	data, err := c.body(ctx, resp)
	if err != nil {
		return err
	}
	return c.refused(resp.StatusCode, data)
}

// refused turns an error reply into an error.
func (c *Client) refused(code int, data []byte) error {
	var reply ErrorReply
	if err := json.Unmarshal(data, &reply); err != nil || reply.Error == "" {
		return c.notOurs(errors.New(http.StatusText(code)))
	}
	return &RequestError{Status: code, Message: reply.Error, Hints: reply.Hints}
}
