package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// nriQueue is how many lines of NRI's packages may wait for the log. They come in bursts of about twenty, when a set of plugins is merged for the first time.
const nriQueue = 512

// nriLog takes what NRI's packages say at debug level: what matters to an operator is an event of ours. They say it while the runtime waits for an answer, so nothing here
// waits for the log: lines that do not fit into the queue are dropped. Safe for concurrent use.
type nriLog struct {
	log   *zap.Logger
	lines chan string
	quit  chan struct{}
	done  chan struct{}
}

// newNRILog starts a log; end it with stop.
func newNRILog(log *zap.Logger) *nriLog {
	l := &nriLog{log: log, lines: make(chan string, nriQueue), quit: make(chan struct{}), done: make(chan struct{})}
	go l.write()
	return l
}

func (l *nriLog) write() {
	defer close(l.done)
	for {
		select {
		case line := <-l.lines:
			l.log.Debug(line)
		case <-l.quit:
			return
		}
	}
}

// stop ends the log. It waits for a line that is being written, but not for a log that nobody reads.
func (l *nriLog) stop() {
	close(l.quit)
	select {
	case <-l.done:
	case <-time.After(time.Second):
	}
}

func (l *nriLog) debug(format string, args []any) {
	if !l.log.Core().Enabled(zapcore.DebugLevel) {
		return
	}
	select {
	case l.lines <- strings.TrimSpace(fmt.Sprintf(format, args...)):
	default:
	}
}

// Debugf logs.
func (l *nriLog) Debugf(_ context.Context, format string, args ...any) { l.debug(format, args) }

// Infof logs.
func (l *nriLog) Infof(_ context.Context, format string, args ...any) { l.debug(format, args) }

// Warnf logs.
func (l *nriLog) Warnf(_ context.Context, format string, args ...any) { l.debug(format, args) }

// Errorf logs.
func (l *nriLog) Errorf(_ context.Context, format string, args ...any) { l.debug(format, args) }
