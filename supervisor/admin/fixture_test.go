package admin_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

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

// aReload is what comes of a reload.
func aReload() supervisor.ReloadReport {
	return supervisor.ReloadReport{Result: "partial", Changes: []supervisor.PluginChange{{Plugin: "a", Change: "added", How: "started"}}}
}
