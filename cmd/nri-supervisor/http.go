package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// health is what the probes ask.
type health interface {
	Ready() (ok bool, why string)
	Alive() (ok bool, why string)
}

// observed is what the probes and the status page ask.
type observed interface {
	health
	statuspage.Source
}

// serveHTTP serves /metrics, /healthz, /readyz and the status page in the background. An empty address listens nowhere.
func serveHTTP(ctx context.Context, parts *sync.WaitGroup, spec policy.MetricsSpec, reg *prometheus.Registry, s observed, cpus *processors, log *zap.Logger) error {
	address := spec.Address
	if address == "" {
		return nil
	}
	certs, err := newCertificates(spec.TLS, log)
	if err != nil {
		return hintError{fmt.Errorf("metrics: %w", err), []string{"mend metrics.tls, or delete it for a listener without TLS"}}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return hintError{fmt.Errorf("metrics: %w", err), []string{"set metrics.address to a free address, or to \"\" for no listener"}}
	}
	log.Info("listening", zap.String("address", l.Addr().String()))
	srv := &http.Server{
		Handler: readOnly(certs.guard(routes(address, certs == nil, reg, s, cpus))), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	parts.Go(func() {
		if err := serveOn(srv, l, certs, cpus); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics listener ended", zap.Error(err))
		}
	})
	parts.Go(func() {
		<-ctx.Done()
		_ = srv.Close()
	})
	return nil
}

// routes are what is served at the metrics address. plain: without TLS, so that any name may lead a browser here.
func routes(address string, plain bool, reg *prometheus.Registry, s observed, cpus *processors) http.Handler {
	mux := http.NewServeMux()
	scrape := promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		defer cpus.compute()()
		scrape.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", probe(s.Alive))
	mux.HandleFunc("GET /readyz", probe(s.Ready))
	node, err := nodeName()
	if err != nil {
		node = "this node"
	}
	page := statuspage.Handler(s, node)
	if plain {
		page = statuspage.AtItsAddress(address, page)
	}
	mux.Handle("/", page)
	return mux
}

// serveOn serves with TLS when there are certificates.
func serveOn(srv *http.Server, l net.Listener, certs *certificates, cpus *processors) error {
	if certs == nil {
		return srv.Serve(l)
	}
	srv.TLSConfig = certs.server(cpus)
	srv.ErrorLog, _ = zap.NewStdLogAt(certs.log, zap.DebugLevel) // what strangers get wrong is no news; the level is a valid one
	return srv.ServeTLS(l, "", "")
}

// probe answers 200 "ok", or 503 with the reason.
func probe(check func() (bool, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		ok, why := check()
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, why)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}
