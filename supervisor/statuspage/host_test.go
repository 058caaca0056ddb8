package statuspage_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// TestThePageAnswersToNoNameThatAStrangerCanMakeResolveToTheNode: his web site could read it in the browser of somebody who reaches the node.
func TestThePageAnswersToNoNameThatAStrangerCanMakeResolveToTheNode(t *testing.T) {
	t.Parallel()
	page := statuspage.Handler(&fixed{overview: connected(healthy("a"))}, "n1")
	for _, tt := range []struct {
		listen, host string
		ok           bool
	}{
		{"127.0.0.1:9464", "127.0.0.1:9464", true},
		{"127.0.0.1:9464", "127.0.0.1", true},
		{"127.0.0.1:9464", "localhost:9464", true},
		{"127.0.0.1:9464", "LocalHost", true},
		{"127.0.0.1:9464", "[::1]:9464", true},
		{"127.0.0.1:9464", "[::1]", true},
		{":9464", "10.0.0.7:9464", true}, // a pod's address
		{"node-1.example.com:9464", "node-1.example.com:9464", true},
		{"node-1.example.com:9464", "NODE-1.example.com", true},
		{"node-1.example.com:9464", "node-2.example.com:9464", false},
		{"127.0.0.1:9464", "rebind.example.com:9464", false},
		{"127.0.0.1:9464", "127.0.0.1.example.com:9464", false},
		{"127.0.0.1:9464", "localhost.example.com", false},
		{":9464", "", false},
		{":9464", ":9464", false},
		{":9464", "[", false},
	} {
		for _, path := range []string{"/", "/status.json"} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Host = tt.host
			w := httptest.NewRecorder()
			statuspage.AtItsAddress(tt.listen, page).ServeHTTP(w, r)
			if got := w.Code == http.StatusOK; got != tt.ok || !got && (w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), "use an IP address, localhost, or the host of metrics.address")) {
				t.Errorf("at %q, host %q, %s: %d %q", tt.listen, tt.host, path, w.Code, w.Body)
			}
		}
	}
}
