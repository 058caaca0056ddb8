package admin_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

func TestClientSaysWhatToDoWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	dir := admintest.ShortDir(t)
	stale, file := filepath.Join(dir, "stale"), filepath.Join(dir, "file")
	staleSocket(t, stale)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, socket, want, hint string
		is                       error
	}{
		{"no socket", filepath.Join(dir, "none"), "there is no such socket", "nri-supervisor does not run on this host, or its admin socket is elsewhere: set --socket", fs.ErrNotExist},
		{"a stale socket", stale, "nobody answers", "nri-supervisor died and left its socket behind: see its log, then start it again: systemctl start nri-supervisor", syscall.ECONNREFUSED},
		{"a file", file, "it is not a socket", "set --socket to the admin socket of nri-supervisor", syscall.ECONNREFUSED},
		{"a folder", dir, "it is not a socket", "set --socket to the admin socket of nri-supervisor", syscall.ECONNREFUSED},
		{"below a file", filepath.Join(file, "x"), "not a directory", "", syscall.ENOTDIR},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := dial(t, c.socket).Status(t.Context())
			var req *admin.RequestError
			if !errors.As(err, &req) {
				t.Fatalf("error %v", err)
			}
			if want := "connect to \"" + c.socket + "\": " + c.want; req.Error() != want || strings.Join(req.Hints, "") != c.hint || req.Status != 0 {
				t.Errorf("error %+v, want %q with hint %q", req, want, c.hint)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("error %v is not %v", err, c.is)
			}
		})
	}
}

func TestClientTellsOtherServicesFromOurs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, answer, want string }{
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n", "not an answer of nri-supervisor: "},
		{"another HTTP service", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "not an answer of nri-supervisor: "},
		{"another kind of refusal", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", "not an answer of nri-supervisor: Bad Gateway"},
		{"JSON of somebody else", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", "not an answer of nri-supervisor: Not Found"},
		{"a redirect", "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", "not an answer of nri-supervisor: Found"},
		{"nothing", "", "the service closed the connection without an answer"},
		{"half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n{", "the service closed the connection without an answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := dial(t, answering(t, c.answer)).Status(t.Context())
			var req *admin.RequestError
			if !errors.As(err, &req) || !strings.Contains(req.Error(), c.want) || len(req.Hints) == 0 || strings.Contains(req.Error(), "http://") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// answering is a socket on which each connection gets the answer after its request.
func answering(t *testing.T, answer string) (socket string) {
	t.Helper()
	socket = filepath.Join(admintest.ShortDir(t), "other.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return socket
}

func TestClientEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(t, admintest.Served(t, &admintest.Fake{})).Status(ctx); err != context.Canceled { //nolint:errorlint // itself, and not as the cause of a fault of the service
		t.Errorf("error %v", err)
	}
}
