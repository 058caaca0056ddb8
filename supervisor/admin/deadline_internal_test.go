package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// changed is a supervisor that counts what it was made to do.
type changed struct {
	stubAPI

	times *atomic.Int32
}

func (c changed) Act(string, string, uint32) error { c.times.Add(1); return nil }
func (c changed) Bypass(time.Duration, uint32)     { c.times.Add(1) }
func (c changed) SetLevel(string, uint32) error    { c.times.Add(1); return nil }
func (changed) Level() string                      { return "info" }
func (c changed) ReloadBy(context.Context, uint32) (supervisor.ReloadReport, error) {
	c.times.Add(1)
	return supervisor.ReloadReport{}, nil
}

// changes are the requests that change something.
func changes() map[string]string {
	return map[string]string{"/v1/plugins/a/disable": "", "/v1/reload": "", "/v1/bypass": `{"for":"10m"}`, "/v1/log-level": `{"level":"debug"}`}
}

func TestAChangeThatComesTooLateIsRefusedAndTold(t *testing.T) {
	t.Parallel()
	for path, body := range changes() {
		for _, c := range []struct {
			name, deadline string
			code           int
			want           string
		}{
			{"over", time.Now().Add(-time.Minute).Format(time.RFC3339Nano), http.StatusRequestTimeout, "came too late and was not carried out: its deadline was over "},
			{"ahead", time.Now().Add(time.Hour).Format(time.RFC3339Nano), http.StatusOK, ""},
			{"none", "", http.StatusOK, ""},
			{"no instant", "soon", http.StatusBadRequest, `is "soon", which is no instant`},
		} {
			t.Run(path+" "+c.name, func(t *testing.T) {
				t.Parallel()
				api := changed{times: &atomic.Int32{}}
				problems := make(chan string, 1)
				s := newServer(api, Options{Log: api, Problem: func(p string) { problems <- p }}, defaultLimits())
				code, reply := deliver(t, s, path, body, c.deadline)
				if code != c.code || !strings.Contains(reply.Error, c.want) {
					t.Errorf("status %d, reply %+v; want %d", code, reply, c.code)
				}
				if did := api.times.Load() == 1; did != (c.code == http.StatusOK) {
					t.Errorf("status %d, and it was carried out: %t", code, did)
				}
				if c.code == http.StatusRequestTimeout {
					if p := <-problems; !strings.Contains(p, "not carried out: POST \""+path) {
						t.Errorf("problem %q", p)
					}
				}
			})
		}
	}
}

// deliver sends one request to the server's handler, over a socket.
func deliver(t *testing.T, s *server, path, body, deadline string) (int, ErrorReply) {
	t.Helper()
	l := listening(t, s, func() {})
	conn, err := net.Dial("unix", l)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if deadline != "" {
		req.Header.Set(deadlineHeader, deadline)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply ErrorReply
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, reply
}

// listening serves until the test ends; before is called before a connection is looked at.
func listening(t *testing.T, s *server, before func()) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "admin.sock")
	s.role = func(uint32, []uint32) Role {
		before()
		return RoleAdmin
	}
	up, ended := make(chan struct{}), make(chan error, 1)
	s.opts.Listening = func() { close(up) }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- s.serve(ctx, socket) }()
	select {
	case <-up:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// TestAChangeWhoseClientIsGoneIsNotCarriedOut: the supervisor stands still while a request comes and its client gives up, and then goes on.
func TestAChangeWhoseClientIsGoneIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	for path, body := range changes() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			api := changed{times: &atomic.Int32{}}
			problems, stopped := make(chan string, 1), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(stopped) })
			s := newServer(api, Options{Log: api, Problem: func(p string) { problems <- p }}, defaultLimits())
			conn, err := net.Dial("unix", listening(t, s, func() { <-stopped }))
			t.Cleanup(goOn)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			goOn()
			if p := <-problems; !strings.Contains(p, "not carried out: POST \""+path) || !strings.Contains(p, "its client is gone") {
				t.Errorf("problem %q", p)
			}
			if n := api.times.Load(); n != 0 {
				t.Errorf("it was carried out %d times", n)
			}
		})
	}
}

func TestAClientThatOnlyHasNothingMoreToSayIsStillThere(t *testing.T) {
	t.Parallel()
	api := changed{times: &atomic.Int32{}}
	s := newServer(api, Options{Problem: func(p string) { t.Error(p) }}, defaultLimits())
	conn, err := net.Dial("unix", listening(t, s, func() {}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/plugins/a/trip HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if half, ok := conn.(*net.UnixConn); !ok || half.CloseWrite() != nil {
		t.Fatal("the connection cannot be closed by half")
	}
	if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 ") || api.times.Load() != 1 {
		t.Errorf("answer %q, %v", got, err)
	}
}

func TestAnErrorWithoutAnAnswerSaysWhatMayStillCome(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := start(t, stubAPI{before: func() { <-release }}, defaultLimits(), me())
	defer close(release)
	c, err := Dial(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []*http.Client{c.http, c.slow} {
		transport, ok := client.Transport.(*http.Transport)
		if !ok {
			t.Fatalf("transport %T", client.Transport)
		}
		transport.ResponseHeaderTimeout = min(transport.ResponseHeaderTimeout, 100*time.Millisecond)
	}
	_, err = c.Bypass(t.Context(), time.Minute) // which looks at the status, and hangs there
	var req *RequestError
	if !errors.As(err, &req) || !req.Timeout() || !strings.Contains(req.Message, "no answer within 5s") || !strings.Contains(req.Hints[0], "unless it was begun before ") || !strings.Contains(req.Hints[0], "nri-supervisor status") {
		t.Errorf("a bypass: error %v, %+v", err, req)
	}
	for name, ask := range map[string]func() error{
		"reload":  func() error { _, err := c.Reload(t.Context()); return err },
		"explain": func() error { _, err := c.Explain(t.Context(), "ns", "pod", ""); return err },
		"record":  func() error { return c.Record(t.Context(), supervisor.RecordFilter{}, nil) },
	} {
		err := ask()
		if !errors.As(err, &req) || !req.Timeout() || !strings.Contains(req.Message, "no answer within 5s") || strings.Contains(req.Hints[0], "begun") {
			t.Errorf("%s, which was not asked for: error %v", name, err)
		}
	}
}

func TestTheLimitThatAnErrorNamesIsTheOneOfTheRequest(t *testing.T) {
	t.Parallel()
	c, err := Dial("/nowhere/admin.sock")
	if err != nil {
		t.Fatal(err)
	}
	patient := *c
	patient.http = &http.Client{Timeout: 90 * time.Second}
	for client, want := range map[*Client]string{c: "no answer within 15s", &patient: "no answer within 1m30s"} {
		if err := client.explain(t.Context(), os.ErrDeadlineExceeded); !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNullIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := &Client{socket: "x"}
	c.http = &http.Client{Transport: saying("null\n")}
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "not an answer of nri-supervisor: null") {
		t.Errorf("error %v", err)
	}
	if _, err := c.Decisions(t.Context(), journal.Filter{}); err == nil || !strings.Contains(err.Error(), "not an answer of nri-supervisor: null") {
		t.Errorf("decisions: error %v", err)
	}
}

// saying answers each request with a text.
type saying string

// RoundTrip answers.
func (s saying) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}
