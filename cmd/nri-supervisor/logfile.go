package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// logFileName is the log in the state directory, for when the output goes nowhere and there is no journal.
	logFileName = "nri-supervisor.log"
	// logFileLimit is the size at which it is begun anew; what was before is kept once, with this suffix.
	logFileLimit, logFileOld = 16 << 20, ".1"
)

// journalReachable reports whether this host has a journal.
func journalReachable() bool { return journal.Enabled() }

// journalLogger is newLogger for the journal: the same JSON lines, each with its priority.
func journalLogger(level zap.AtomicLevel) (*zap.Logger, *sampler) {
	return sampled(&journalCore{LevelEnabler: level, encoder: zapcore.NewJSONEncoder(encoderConfig())})
}

// journalCore writes to the journal.
type journalCore struct {
	zapcore.LevelEnabler
	encoder zapcore.Encoder
}

// With adds fields.
func (c *journalCore) With(fields []zapcore.Field) zapcore.Core {
	e := c.encoder.Clone()
	for _, f := range fields {
		f.AddTo(e)
	}
	return &journalCore{c.LevelEnabler, e}
}

// Check adds the core to an entry that it writes.
func (c *journalCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write writes one line.
func (c *journalCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	buf, err := c.encoder.EncodeEntry(e, fields)
	if err != nil {
		return err
	}
	defer buf.Free()
	priority := journal.PriInfo
	switch e.Level {
	case zapcore.DebugLevel:
		priority = journal.PriDebug
	case zapcore.InfoLevel, zapcore.InvalidLevel:
	case zapcore.WarnLevel:
		priority = journal.PriWarning
	case zapcore.ErrorLevel, zapcore.DPanicLevel, zapcore.PanicLevel, zapcore.FatalLevel:
		priority = journal.PriErr
	}
	return journal.Send(buf.String(), priority, map[string]string{"SYSLOG_IDENTIFIER": "nri-supervisor"})
}

// Sync does nothing: each line is sent at once.
func (*journalCore) Sync() error { return nil }

// logFile is a file of bounded size. Safe for concurrent use.
type logFile struct {
	path string

	mu   sync.Mutex // guards the rest
	file *os.File
	size int64
}

var _ io.Writer = (*logFile)(nil)

// openLogFile opens the log to append to it.
func openLogFile(path string) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("log file: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends. A log that cannot be written keeps nobody from working.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > logFileLimit {
		_ = l.file.Close()
		_ = os.Rename(l.path, l.path+logFileOld) // else it goes on in the old one
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}
