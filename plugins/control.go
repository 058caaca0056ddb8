package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/containerd/nri/pkg/version"
	"github.com/hashicorp/go-hclog"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// HealthChecker may be implemented by a plugin that can tell whether it works: nil is healthy. The supervisor replaces a
// plugin that is unhealthy, or does not answer, several times in a row. Without it, the plugin is healthy while its NRI
// connection is open.
type HealthChecker interface {
	Health(ctx context.Context) error
}

// errNotConnected is the health of a plugin whose NRI connection is not open.
var errNotConnected = errors.New("the NRI connection is closed")

// control implements the control service inside a plugin's process.
type control struct {
	impl    any
	version string
	logger  hclog.Logger
	level   *slog.LevelVar // nil: the author did not ask for it

	connected func() bool
	stopOnce  sync.Once
	stop      chan struct{} // closed when the supervisor asks the plugin to end
}

var _ wire.Control = (*control)(nil)

func (c *control) Describe(context.Context) (wire.Description, error) {
	return wire.Description{
		Version:    c.version,
		SDKVersion: moduleVersion(sdkModule),
		NRIVersion: version.GetFromBuildInfo(),
		Events:     eventNames(handledEvents(c.impl)),
	}, nil
}

func (c *control) Health(ctx context.Context) error {
	if !c.connected() {
		return &wire.UnhealthyError{Reason: errNotConnected.Error()}
	}
	if h, ok := c.impl.(HealthChecker); ok {
		if err := h.Health(ctx); err != nil {
			return &wire.UnhealthyError{Reason: err.Error()}
		}
	}
	return nil
}

func (c *control) SetLogLevel(_ context.Context, level string) error {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		return fmt.Errorf("set log level %q: unknown level, use trace, debug, info, warn or error", level)
	}
	c.logger.SetLevel(l)
	if c.level != nil {
		c.level.Set(slogLevel(l))
	}
	return nil
}

func (c *control) Stop(context.Context) error {
	c.stopOnce.Do(func() { close(c.stop) })
	return nil
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Trace:
		return slog.LevelDebug - 4
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error, hclog.Off:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

const sdkModule = "github.com/nri-supervisor/nri-supervisor"

// moduleVersion is the version of a module in this executable, empty if unknown. An empty path means the main module.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if path == "" || info.Main.Path == path {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == path {
			return d.Version
		}
	}
	return ""
}
