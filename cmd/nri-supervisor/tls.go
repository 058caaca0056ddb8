package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// certLook is how often the files of a certificate are looked at while somebody connects: a rotated one is used within this time.
const certLook = 5 * time.Second

// certificates are the files of a TLSSpec, read again when they change. Safe for concurrent use.
type certificates struct {
	spec policy.TLSSpec
	log  *zap.Logger

	mu     sync.Mutex
	config *tls.Config // the last good one
	files  [3]fileStamp
	looked time.Time
	failed string // what was told last
}

// fileStamp tells whether a file has changed.
type fileStamp struct {
	changed time.Time
	size    int64
}

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}

// newCertificates reads the files; nil without any.
func newCertificates(spec policy.TLSSpec, log *zap.Logger) (*certificates, error) {
	if spec.CertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is no mistake
	}
	c := &certificates{spec: spec, log: log, looked: time.Now(), files: stamps(spec)}
	var err error
	c.config, err = loadTLS(spec)
	return c, err
}

func stamps(s policy.TLSSpec) [3]fileStamp {
	return [3]fileStamp{stampOf(s.CertFile), stampOf(s.KeyFile), stampOf(s.ClientCAFile)}
}

// loadTLS reads the files. A client's certificate is checked when there is one; who needs one is the handler's business.
func loadTLS(s policy.TLSSpec) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %q with key %q: %w", s.CertFile, s.KeyFile, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if s.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(s.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client CA %q: no certificate in it", s.ClientCAFile)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// current returns the configuration for a new connection. While the files cannot be used, it is the last good one.
func (c *certificates) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certLook {
		return c.config, nil
	}
	c.looked = time.Now()
	now := stamps(c.spec)
	if now == c.files && c.failed == "" {
		return c.config, nil
	}
	fresh, err := loadTLS(c.spec)
	if err != nil {
		if c.failed != err.Error() {
			c.failed = err.Error()
			c.log.Error("metrics certificate cannot be used, the last good one stays", zap.Error(err))
		}
		return c.config, nil
	}
	c.config, c.files, c.failed = fresh, now, ""
	c.log.Info("metrics certificate read again")
	return c.config, nil
}

// server is the configuration of the listener. The signature of a handshake takes milliseconds.
func (c *certificates) server(cpus *processors) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		defer cpus.compute()() // and somewhat longer
		return c.current(hello)
	}}
}

// guard refuses clients without a certificate where one is asked for. The probes are exempt: a kubelet has none to show.
func (c *certificates) guard(next http.Handler) http.Handler {
	if c == nil || c.spec.ClientCAFile == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; p != "/healthz" && p != "/readyz" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			http.Error(w, "a client certificate is needed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readOnly refuses every method that could change something.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}
