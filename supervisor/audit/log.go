package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

const (
	// DefaultMaxSize is the size in bytes at which a file is rotated (design §5).
	DefaultMaxSize = 64 << 20
	// queue is how many decisions may wait for the disk: some seconds of a busy node, about 4 MiB.
	queue = 8192
	// batch is how many decisions are written at once: about 50 KiB.
	batch = 128
	// retry is how long the disk is left alone after it did not take something.
	retry = time.Second
)

// Options are how the log behaves. Path is required.
type Options struct {
	// Path is the file.
	Path string
	// MaxSize is the size in bytes at which it is rotated; 0 means DefaultMaxSize.
	MaxSize int64
	// MaxFiles is how many rotated files are kept beside it; 0 keeps none.
	MaxFiles int
	// OnProblem is told when writing begins to fail, and with nil when it works again. It is called on the writer's goroutine and must not block. Nil tells nobody.
	OnProblem func(err error, lost uint64)
}

// Stats are counts since Open.
type Stats struct {
	// Written are decisions that the kernel has, Lost those that it has not got.
	Written, Lost uint64
	// Failing says that the last write failed.
	Failing bool
}

// Log writes the audit. Make one with Open, end it with Close.
type Log struct {
	opts Options
	wake chan struct{} // there is something to write; holds one token
	quit chan struct{} // closed by Close
	done chan struct{} // the writer has ended

	mu     sync.Mutex
	queue  []journal.Decision
	stats  Stats
	untold uint64 // lost, and the file does not say so yet
	closed bool
}

// Open begins a log. It does not look at the disk: that is the writer's.
func Open(o Options) *Log {
	if o.MaxSize <= 0 {
		o.MaxSize = DefaultMaxSize
	}
	if o.OnProblem == nil {
		o.OnProblem = func(error, uint64) {}
	}
	l := &Log{opts: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Put queues those of the decisions of one event that an audit keeps. It never blocks.
func (l *Log) Put(ds []journal.Decision) {
	notable := false
	for i := range ds {
		notable = notable || ds[i].Notable()
	}
	if !notable {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ds {
		if !ds[i].Notable() && ds[i].Kind != journal.KindSelection {
			continue
		}
		if l.closed || len(l.queue) >= queue {
			l.stats.Lost++
			l.untold++
			continue
		}
		l.queue = append(l.queue, ds[i])
	}
	l.signal()
}

// Stats returns the counts.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Path returns the path of the file.
func (l *Log) Path() string { return l.opts.Path }

// Close writes what is queued and ends the log, or gives up with the context's error. What the disk does not take then is lost.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.quit)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes until Close.
func (l *Log) run() {
	defer close(l.done)
	w := &writer{log: l, file: file{path: l.opts.Path, maxSize: l.opts.MaxSize, maxFiles: l.opts.MaxFiles}}
	defer w.file.close()
	for {
		select {
		case <-l.wake:
			w.drain()
		case <-l.quit:
			w.drain()
			l.give(nil, 0) // counts what is left
			return
		}
		if w.failing {
			select { // what comes meanwhile waits in the queue
			case <-time.After(retry):
				l.signal()
			case <-l.quit:
			}
		}
	}
}

func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take takes what is queued, and how many were lost that the file does not know of.
func (l *Log) take() ([]journal.Decision, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ds, untold := l.queue, l.untold
	l.queue, l.untold = nil, 0
	return ds, untold
}

// give puts back what the disk did not take, before what came meanwhile. When the log is closed nobody will write it: it is lost.
func (l *Log) give(ds []journal.Decision, untold uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(ds, l.queue...)
	l.untold += untold
	keep := queue
	if l.closed {
		keep = 0
	}
	if over := len(l.queue) - keep; over > 0 {
		l.queue = l.queue[:keep]
		l.stats.Lost += uint64(over)
		l.untold += uint64(over)
	}
}

// writer turns decisions into lines.
type writer struct {
	log     *Log
	file    file
	failing bool
	buf     bytes.Buffer
}

// drain writes what is queued, as far as the disk takes it.
func (w *writer) drain() {
	ds, lost := w.log.take()
	if lost > 0 {
		err := w.lines([]journal.Decision{{Time: time.Now(), Kind: journal.KindLost, Count: lost}})
		w.told(err)
		if err != nil {
			w.log.give(ds, lost)
			return
		}
	}
	for len(ds) > 0 {
		n := min(len(ds), batch)
		err := w.lines(ds[:n])
		if err != nil {
			w.log.give(ds, 0)
		} else {
			w.log.mu.Lock()
			w.log.stats.Written += uint64(n)
			w.log.mu.Unlock()
		}
		w.told(err)
		if err != nil {
			return
		}
		ds = ds[n:]
	}
}

// lines writes decisions, all or none of them.
func (w *writer) lines(ds []journal.Decision) error {
	w.buf.Reset()
	enc := json.NewEncoder(&w.buf)
	enc.SetEscapeHTML(false)
	for i := range ds {
		if err := enc.Encode(&ds[i]); err != nil { // no field of a decision can fail
			return fmt.Errorf("encode a decision: %w", err)
		}
	}
	return w.file.write(w.buf.Bytes())
}

// told tells of a change between failing and working.
func (w *writer) told(err error) {
	if (err != nil) == w.failing {
		return
	}
	w.failing = err != nil
	w.log.mu.Lock()
	w.log.stats.Failing = w.failing
	lost := w.log.stats.Lost
	w.log.mu.Unlock()
	w.log.opts.OnProblem(err, lost)
}
