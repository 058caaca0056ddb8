package main

import (
	"context"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/tracing"
)

// problemEvery is how often lost spans are told of.
const problemEvery = time.Minute

// openTracing makes the supervisor trace events, if the configuration says so. What it returns delivers the last spans, within a second.
func openTracing(spec policy.TracingSpec, o *supervisor.Options, log *zap.Logger) (closeIt func(), err error) {
	if spec.Endpoint == "" {
		return func() {}, nil
	}
	node, err := os.Hostname()
	if err != nil {
		node = ""
	}
	var last time.Time // the export is one goroutine
	t, err := tracing.Open(context.Background(), tracing.Options{
		Endpoint: spec.Endpoint, Ratio: spec.Ratio, Version: version, Node: node,
		OnProblem: func(err error) {
			if now := time.Now(); now.Sub(last) >= problemEvery {
				last = now
				log.Warn("tracing", zap.Error(err))
			}
		},
	})
	if err != nil {
		return nil, err
	}
	o.Tracer, o.ServerOptions = t, t.ServerOptions()
	return func() {
		ctx, cancel := closing()
		defer cancel()
		if err := t.Close(ctx); err != nil {
			briefly(func() { log.Warn("tracing", zap.Error(err)) })
		}
	}, nil
}
