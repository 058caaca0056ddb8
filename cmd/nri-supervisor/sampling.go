package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// sampleBurst is how many equal lines are written in one sampleWindow; what comes beyond is counted.
	sampleBurst  = 5
	sampleWindow = 10 * time.Second
	// sampleKinds bounds the different lines that are remembered at once; what comes beyond is written in full.
	sampleKinds = 1024
	// repeatedField is how many equal lines were left out, in the line that stands for them.
	repeatedField = "repeated"
)

// sampledLines are the messages of lines that somebody else than the supervisor and its operators causes, as often as it likes: a plugin, a runtime, a peer of a socket. The lines of what
// the supervisor does itself come at its own pace and are all written.
func sampledLines() []string {
	return []string{
		"plugin output", "late reply discarded", "container update not made", "connection to a plugin's socket refused", "admin request denied", "admin socket",
	}
}

// counting are the fields that say how many; the line that stands for several has their sum.
func counting() []string { return []string{"dropped", "lost", "more", "count"} }

// volatile are the fields in which lines differ that say the same.
func volatile() []string {
	return append(counting(), "pid", "fromPid", "took", "after", "from", "to")
}

// sampler leaves out lines that say the same again and again, and tells how many they were. Safe for concurrent use.
type sampler struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

// writer writes a line that stands for so many that were held, with the sums of their counting fields.
type writer func(held int, sums map[string]int64) error

// kind is one line and those like it, in one window.
type kind struct {
	written int
	held    int
	sums    map[string]int64 // of the counting fields of those held
	end     *time.Timer
	last    writer // of the latest of those held
}

func newSampler() *sampler { return &sampler{kinds: map[string]*kind{}} }

// admit reports whether the line is to be written now. If not, it is counted, and write is used when the window is over.
func (s *sampler) admit(key string, fields []zapcore.Field, write writer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[key]
	if k == nil {
		if len(s.kinds) >= sampleKinds {
			return true
		}
		k = &kind{}
		k.end = time.AfterFunc(sampleWindow, func() { s.over(key, k) })
		s.kinds[key] = k
	}
	if k.written < sampleBurst {
		k.written++
		return true
	}
	k.held++
	k.last = write
	for _, f := range fields {
		if slices.Contains(counting(), f.Key) {
			if k.sums == nil {
				k.sums = map[string]int64{}
			}
			k.sums[f.Key] += f.Integer
		}
	}
	return false
}

// over ends a window. While lines keep coming, the next one begins at once, and has no burst of its own.
func (s *sampler) over(key string, k *kind) {
	s.mu.Lock()
	held, sums, write := k.held, k.sums, k.last
	if s.kinds[key] == k {
		if held > 0 {
			k.held, k.sums, k.last = 0, nil, nil
			k.end.Reset(sampleWindow)
		} else {
			delete(s.kinds, key)
		}
	}
	s.mu.Unlock()
	if held > 0 {
		_ = write(held, sums) // as zap does with a log that cannot be written
	}
}

// flush tells of everything that is held.
func (s *sampler) flush() {
	s.mu.Lock()
	all := s.kinds
	s.kinds = map[string]*kind{}
	s.mu.Unlock()
	for key, k := range all {
		k.end.Stop()
		s.over(key, k)
	}
}

// sampledCore is a core whose repeated lines are sampled.
type sampledCore struct {
	zapcore.Core
	sampler *sampler
}

// With adds fields; they are told apart by the logger's name as a rule, and not looked at.
func (c sampledCore) With(fields []zapcore.Field) zapcore.Core {
	return sampledCore{c.Core.With(fields), c.sampler}
}

// Check adds the core to an entry that it may write.
func (c sampledCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write writes the line, or counts it.
func (c sampledCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	key, sampled := sampleKey(e, fields)
	if sampled && !c.sampler.admit(key, fields, func(held int, sums map[string]int64) error {
		e.Time = time.Now()
		all := slices.DeleteFunc(slices.Clone(fields), func(f zapcore.Field) bool { return slices.Contains(counting(), f.Key) })
		for _, name := range counting() {
			if n := sums[name]; n > 0 {
				all = append(all, zap.Int64(name, n))
			}
		}
		return c.Core.Write(e, append(all, zap.Int(repeatedField, held)))
	}) {
		return nil
	}
	return c.Core.Write(e, fields)
}

// sampleKey is what a line says.
func sampleKey(e zapcore.Entry, fields []zapcore.Field) (key string, sampled bool) {
	if !slices.Contains(sampledLines(), e.Message) {
		return "", false
	}
	said := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(said)
	}
	for _, name := range volatile() {
		delete(said.Fields, name)
	}
	return fmt.Sprint(e.Level, "\x00", e.LoggerName, "\x00", e.Message, "\x00", said.Fields), true
}
