package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	der, key := a.sign("ca", true)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

func (a *authority) sign(name string, ca bool) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: ca,
	}
	parent, signer := a.cert, a.key
	if ca {
		c.KeyUsage, parent, signer = x509.KeyUsageCertSign, c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// pair returns a certificate and its key in PEM.
func (a *authority) pair(name string) (cert, key []byte) {
	der, k := a.sign(name, false)
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// write replaces the files of a certificate.
func write3(t *testing.T, s policy.TLSSpec, cert, key, ca []byte) {
	t.Helper()
	for path, data := range map[string][]byte{s.CertFile: cert, s.KeyFile: key, s.ClientCAFile: ca} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMetricsAreServedWithTLSToClientsWithACertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t)
	spec := policy.TLSSpec{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: filepath.Join(dir, "ca")}
	cert, key := ca.pair("first")
	write3(t, spec, cert, key, ca.pem())
	var logged bytes.Buffer
	log := jsonLog(t, &logged)
	certs, err := newCertificates(spec, log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		Handler:           readOnly(certs.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))),
		ReadHeaderTimeout: time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- serveOn(srv, l, certs, unchanging()) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})

	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	ask := func(method, path string, clientCerts ...tls.Certificate) (int, string) {
		c := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: clientCerts, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
		}}
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+l.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	client := func(a *authority) tls.Certificate {
		cert, key := a.pair("client")
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	good, stranger := client(ca), client(newAuthority(t))
	for _, c := range []struct {
		what, method, path string
		certs              []tls.Certificate
		want               int
	}{
		{"a client with a certificate", "GET", "/metrics", []tls.Certificate{good}, 200},
		{"a client without", "GET", "/metrics", nil, 403},
		{"a client of another authority", "GET", "/metrics", []tls.Certificate{stranger}, 0},
		{"a probe", "GET", "/healthz", nil, 200},
		{"a probe of readiness", "GET", "/readyz", nil, 200},
		{"a write", "POST", "/metrics", []tls.Certificate{good}, 405},
		{"a deletion", "DELETE", "/", []tls.Certificate{good}, 405},
	} {
		if c.want == 0 {
			c.certs[0].Leaf = nil
		}
		if got, name := ask(c.method, c.path, c.certs...); got != c.want && (c.want != 0 || got != 403) { // a client may keep an unwanted certificate to itself
			t.Errorf("%s: status %d, %s", c.what, got, name)
		}
	}
	if resp, err := http.Get("http://" + l.Addr().String() + "/metrics"); err == nil {
		if resp.StatusCode == http.StatusOK {
			t.Error("metrics are served without TLS")
		}
		_ = resp.Body.Close()
	}

	look := func() {
		certs.mu.Lock()
		certs.looked = time.Time{}
		certs.mu.Unlock()
	}
	cert, key = ca.pair("second")
	write3(t, spec, cert, key, ca.pem())
	look()
	if got, name := ask("GET", "/metrics", good); got != 200 || name != "second" {
		t.Errorf("after the rotation: %d, certificate %q", got, name)
	}
	write3(t, spec, []byte("rubbish"), key, ca.pem())
	for range 2 {
		look()
		if got, name := ask("GET", "/metrics", good); got != 200 || name != "second" {
			t.Errorf("with a broken file: %d, certificate %q", got, name)
		}
	}
	if n := strings.Count(logged.String(), "cannot be used"); n != 1 {
		t.Errorf("the broken file is told %d times", n)
	}
}

func TestACertificateThatCannotBeReadAtTheStartIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t)
	cert, key := ca.pair("x")
	spec := policy.TLSSpec{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: filepath.Join(dir, "ca")}
	if _, err := newCertificates(spec, nil); err == nil {
		t.Error("missing files are no error")
	}
	write3(t, spec, cert, key, []byte("rubbish"))
	if _, err := newCertificates(spec, nil); err == nil || !strings.Contains(err.Error(), "client CA") {
		t.Errorf("error %v", err)
	}
	if c, err := newCertificates(policy.TLSSpec{}, nil); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
}
