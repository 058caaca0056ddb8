package plugins

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

// newLogger logs as the JSON lines that go-plugin hosts understand, at the level that the supervisor asked for but not
// below least.
func newLogger(w io.Writer, least hclog.Level) hclog.Logger {
	level := hclog.LevelFromString(os.Getenv(wire.EnvLogLevel))
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	level = max(level, least)
	return hclog.New(&hclog.LoggerOptions{Level: level, Output: w, JSONFormat: true})
}

// stubLogger gives the NRI stub's messages to the SDK's logger. What the stub tells as information, one line per step of
// its start, is of interest only when debugging.
type stubLogger struct{ l hclog.Logger }

func (s stubLogger) Debugf(_ context.Context, format string, args ...any) {
	s.l.Trace(fmt.Sprintf(format, args...))
}

func (s stubLogger) Infof(_ context.Context, format string, args ...any) {
	s.l.Debug(fmt.Sprintf(format, args...))
}

func (s stubLogger) Warnf(_ context.Context, format string, args ...any) {
	s.l.Warn(fmt.Sprintf(format, args...))
}

func (s stubLogger) Errorf(_ context.Context, format string, args ...any) {
	s.l.Error(fmt.Sprintf(format, args...))
}
