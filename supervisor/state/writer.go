package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// pauseAfterGood is the least time between two attempts: a burst of containers
	// costs few fsyncs, and a crash loses no more than that.
	pauseAfterGood = 50 * time.Millisecond
	// pauseAfterBad is the time after a failed attempt. It doubles with each, up to
	// maxPause: a full disk is not helped by a busy one.
	pauseAfterBad = 1 * time.Second
	maxPause      = 60 * time.Second
	// rewriteAbove is the size, in bytes, from which on a file is rewritten when
	// half of it or more is of no use any more.
	rewriteAbove = 1 << 20
	// frameCost is about what a frame takes beyond key and value, in bytes.
	frameCost = frameHead + 3
)

// writer is the goroutine that writes. It alone touches the disk.
type writer struct {
	db   *DB
	disk disk
}

func (w *writer) run() {
	defer close(w.db.done)
	defer w.disk.close()

	pause := time.NewTimer(0)
	defer pause.Stop()
	paused, bad := true, time.Duration(0)
	for {
		select {
		case <-w.db.wake:
		case <-pause.C:
			paused = false
		}
		todo := w.todo(paused)
		if !todo.attempt {
			continue
		}
		err := w.attempt()
		w.report(todo, err)
		if todo.closing {
			return
		}
		if err == nil {
			bad = 0
			pause.Reset(pauseAfterGood)
		} else {
			bad = min(max(2*bad, pauseAfterBad), maxPause)
			pause.Reset(bad)
		}
		paused = true
	}
}

// todo is what the writer finds when it wakes up.
type todo struct {
	attempt bool
	closing bool
	waiters []chan<- error // each holds one
}

// todo decides whether to write now. Who waits is not kept waiting by a pause.
func (w *writer) todo(paused bool) todo {
	d := w.db
	d.mu.Lock()
	defer d.mu.Unlock()
	t := todo{closing: d.closing, waiters: d.waiters}
	d.waiters = nil
	t.attempt = t.closing || len(t.waiters) > 0 || !paused && (d.waitingLocked() > 0 || w.disk.stale)
	return t
}

// report tells everybody what came out of an attempt.
func (w *writer) report(t todo, err error) {
	d := w.db
	d.mu.Lock()
	d.failed = err
	if err != nil {
		d.errors++
	}
	d.mu.Unlock()
	for _, waiter := range t.waiters {
		waiter <- err
	}
	if err != nil {
		d.onError(err)
	}
}

// attempt writes everything that waits.
func (w *writer) attempt() error {
	if w.disk.file != nil && w.disk.homeless() {
		w.db.onError(fmt.Errorf("state directory %q was taken away: it is made anew, with what is in memory", w.disk.dir))
		w.disk.close()
	}
	if w.disk.file == nil {
		found, err := w.disk.open(0)
		loaded := w.db.take(found.changes)
		if warning := join(found.warning, loaded.Warning); warning != "" {
			w.db.onError(errors.New(warning))
		}
		if err != nil {
			return fmt.Errorf("open state in %q: %w", w.disk.dir, err)
		}
	}
	if w.disk.stale || w.disk.changed() || w.wasteful() {
		if err := w.rewrite(); err != nil {
			return fmt.Errorf("rewrite state in %q: %w", w.disk.dir, err)
		}
		return nil
	}

	d := w.db
	d.mu.Lock()
	changes := slices.Concat(d.records.collect(), d.manual.collect(), d.values.collect())
	d.mu.Unlock()
	slices.SortFunc(changes, bySeq)
	if err := w.disk.add(changes); err != nil {
		return fmt.Errorf("write state in %q: %w", w.disk.dir, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range changes {
		switch c.kind {
		case kindRecord, kindRecordDeleted:
			d.records.written(c)
		case kindValue, kindValueDeleted:
			d.values.written(c)
		default:
			d.manual.written(c)
		}
	}
	return nil
}

func (w *writer) rewrite() error {
	d := w.db
	d.mu.Lock()
	seq := d.seq
	changes := slices.Concat(d.records.all(), d.manual.all(), d.values.all())
	d.mu.Unlock()
	if err := w.disk.rewrite(changes); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records.rewritten(seq)
	d.manual.rewritten(seq)
	d.values.rewritten(seq)
	return nil
}

// wasteful tells whether the file is much larger than what is in it.
func (w *writer) wasteful() bool {
	d := w.db
	d.mu.Lock()
	defer d.mu.Unlock()
	live := d.records.bytes + d.manual.bytes + d.values.bytes + frameCost*(d.records.order.Len()+d.manual.order.Len()+d.values.order.Len())
	return w.disk.end > rewriteAbove && w.disk.end > 2*int64(live)
}

func bySeq(a, b change) int { return cmp.Compare(a.seq, b.seq) }

// join puts sentences behind each other.
func join(sentences ...string) string {
	return strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), "; ")
}
