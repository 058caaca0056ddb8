package admin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// fake is a supervisor that notes what it is asked for.
type fake struct {
	admin.API // what no test asks for
	journal   *journal.Journal

	status supervisor.Status
	missed []supervisor.MissedWork
	err    error // of Act

	mu    sync.Mutex
	did   []string
	until *time.Time
}

func (f *fake) Status() supervisor.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.status
	st.Plugins = slices.Clone(st.Plugins)
	st.Bypass = f.until
	return st
}

func (f *fake) Decisions(q journal.Filter) []journal.Decision { return f.journal.Decisions(q) }

func (f *fake) FollowDecisions(q journal.Filter) *journal.Subscription { return f.journal.Subscribe(q) }

func (f *fake) Missed() []supervisor.MissedWork { return f.missed }

func (f *fake) Act(plugin, action string, uid uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf("%s %q uid %d", action, plugin, uid))
	return f.err
}

func (f *fake) ReloadBy(_ context.Context, uid uint32) (supervisor.ReloadReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf("reload by uid %d", uid))
	return supervisor.ReloadReport{Result: "partial", Changes: []supervisor.PluginChange{{Plugin: "a", Change: "added", How: "started"}}}, f.err
}

func (f *fake) Bypass(d time.Duration, uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf("bypass %s uid %d", d, uid))
	f.until = nil
	if d > 0 {
		t := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC).Add(d)
		f.until = &t
	}
}

func (f *fake) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.did
	f.did = nil
	return out
}

// shortDir is a private folder whose path is short enough for a unix socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve serves on a socket until the returned function is called or the test ends.
func serve(t *testing.T, socket string, api admin.API) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- admin.Serve(ctx, socket, api, admin.Options{Listening: func() { close(up) }}) }()
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

// served is a socket on which the API is served until the test ends.
func served(t *testing.T, api admin.API) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "admin.sock")
	serve(t, socket, api)
	return socket
}

func dial(t *testing.T, socket string) *admin.Client {
	t.Helper()
	c, err := admin.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// overSocket is a plain HTTP client, as curl --unix-socket is one.
func overSocket(socket string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
