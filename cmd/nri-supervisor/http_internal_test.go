package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// seen is a supervisor that is well.
type seen struct{}

func (seen) Ready() (ok bool, why string) { return true, "" }
func (seen) Alive() (ok bool, why string) { return true, "" }
func (seen) Overview() supervisor.Overview {
	return supervisor.Overview{Status: wellBehaved(fakeNow())}
}

// TestAStrangersHostNameIsRefusedByThePageOnly: probes and Prometheus come by the name of a Service, too.
func TestAStrangersHostNameIsRefusedByThePageOnly(t *testing.T) {
	t.Parallel()
	cpus := unchanging()
	for path, want := range map[string]int{"/": 421, "/page.js": 421, "/status.json": 421, "/metrics": 200, "/healthz": 200, "/readyz": 200} {
		for _, tt := range []struct {
			host  string
			plain bool
			want  int
		}{
			{"rebind.example.com", true, want}, {"rebind.example.com", false, 200}, {"127.0.0.1:9464", true, 200},
		} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Host = tt.host
			w := httptest.NewRecorder()
			routes("127.0.0.1:9464", tt.plain, prometheus.NewRegistry(), seen{}, cpus).ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("host %q, without TLS %t, %s: %d, want %d", tt.host, tt.plain, path, w.Code, tt.want)
			}
		}
	}
}
