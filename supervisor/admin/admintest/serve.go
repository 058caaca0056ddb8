package admintest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// ShortDir is a private folder whose path is short enough for a unix socket, and that others cannot write whatever the umask is. It is removed when the test ends.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Serve serves on a socket until the returned function is called or the test ends. Clients can connect when it returns.
func Serve(t *testing.T, socket string, api admin.API, o admin.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, ended := make(chan struct{}), make(chan error, 1)
	o.Listening = func() { close(up) }
	go func() { ended <- admin.Serve(ctx, socket, api, o) }()
	select {
	case <-up:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Served is a socket on which the API is served until the test ends.
func Served(t *testing.T, api admin.API) (socket string) {
	t.Helper()
	socket = filepath.Join(ShortDir(t), "admin.sock")
	Serve(t, socket, api, admin.Options{})
	return socket
}
