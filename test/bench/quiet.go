package main

import (
	"context"
	"io"

	ttrpclog "github.com/containerd/log"
	nrilog "github.com/containerd/nri/pkg/log"
)

// silent drops NRI's log.
type silent struct{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}

// quiet drops what NRI and ttrpc log in this process.
func quiet() {
	nrilog.Set(silent{})
	ttrpclog.L.Logger.SetOutput(io.Discard)
}
