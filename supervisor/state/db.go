package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrClosed is returned by Flush after Close.
var ErrClosed = errors.New("state is closed")

// DB is the open state. Make one with Open, end it with Close.
type DB struct {
	dir     string
	onError func(error)

	mu      sync.Mutex
	seq     uint64 // of the last change
	records *table
	manual  *table
	values  *table
	refused uint64 // records that were too large
	errors  uint64
	waiters []chan<- error // Flush; each holds one
	closing bool
	failed  error // of the last attempt to write; nil after a good one

	wake chan struct{} // there is something to do; holds one token
	done chan struct{} // the writer has ended
}

// Open opens or creates the state in dir, which is created with mode 0700 if
// it is missing. A damaged file is set aside as state.db.bad-N, and a new one is begun
// with what could be read. A file that cannot be had at all (no permission, full
// disk, another supervisor) is tried again in the background, and the DB
// works in memory meanwhile. What was wrong is in Loaded.Warning.
//
// It may wait 2 s for another process to let go of the file.
func Open(dir string, o Options) (*DB, Loaded) {
	if o.MaxRecords <= 0 {
		o.MaxRecords = DefaultMaxRecords
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	d := &DB{
		dir: dir, onError: o.OnError,
		records: newTable(kindRecord, kindRecordDeleted, o.MaxRecords), manual: newTable(kindManual, kindManualDeleted, MaxManual),
		values: newTable(kindValue, kindValueDeleted, MaxValues),
		wake:   make(chan struct{}, 1), done: make(chan struct{}),
	}
	w := &writer{db: d, disk: disk{dir: dir}}
	found, err := w.disk.open(firstLock)
	loaded := d.take(found.changes)
	loaded.FirstRun, loaded.Lost, loaded.Warning = found.first, found.lost || loaded.Lost, join(found.warning, loaded.Warning)
	if err != nil {
		loaded.Warning = join(loaded.Warning, fmt.Sprintf("open state in %q: %v: working without a disk for now, trying again", dir, err))
	}
	d.signal() // there may be unreadable entries to delete, or a file to get hold of
	go w.run()
	return d, loaded
}

// Put keeps r, in place of an earlier record of the same pod and container. It does
// not wait for the disk.
func (d *DB) Put(r Record) {
	key := keyOf(r.Pod, r.Container)
	value, err := json.Marshal(r)
	switch {
	case err != nil:
		err = fmt.Errorf("keep record of container %q: %v", r.Container, err)
	case len(key) > maxKeySize:
		err = fmt.Errorf("keep record of container %.64q: its ids have %d bytes, the limit is %d", r.Container, len(key), maxKeySize)
	case len(value) > MaxRecordSize:
		err = fmt.Errorf("keep record of container %q: it has %d bytes, the limit is %d", r.Container, len(value), MaxRecordSize)
	}
	if err != nil {
		d.mu.Lock()
		d.refused++
		d.mu.Unlock()
		d.onError(err)
		return
	}
	d.change(d.records, key, value)
}

// Delete forgets a container. It does not wait for the disk.
func (d *DB) Delete(pod, container string) { d.change(d.records, keyOf(pod, container), nil) }

// PutManual keeps the state that was set by hand for a plugin. It does not
// wait for the disk.
func (d *DB) PutManual(plugin, state string) {
	if plugin == "" || len(plugin)+len(state) > maxKeySize {
		d.onError(fmt.Errorf("keep manual state of plugin %.64q: name and state have %d bytes, allowed are 1 to %d", plugin, len(plugin)+len(state), maxKeySize))
		return
	}
	d.change(d.manual, plugin, []byte(state))
}

// DeleteManual forgets the state that was set by hand for a plugin. It does
// not wait for the disk.
func (d *DB) DeleteManual(plugin string) { d.change(d.manual, plugin, nil) }

// PutValue keeps a value under a key of the caller's choice. It does not wait for the disk. An empty value is kept as such.
func (d *DB) PutValue(key string, value []byte) {
	if key == "" || len(key) > maxKeySize || len(value) > MaxValueSize {
		d.onError(fmt.Errorf("keep value %.64q: its key has %d bytes, allowed are 1 to %d; the value has %d, the limit is %d", key, len(key), maxKeySize, len(value), MaxValueSize))
		return
	}
	d.change(d.values, key, append([]byte{}, value...))
}

// DeleteValue forgets the value of a key. It does not wait for the disk.
func (d *DB) DeleteValue(key string) { d.change(d.values, key, nil) }

// change puts a value, or deletes it if nil. After Close it does nothing.
func (d *DB) change(t *table, key string, value []byte) {
	d.mu.Lock()
	changed := false
	if !d.closing {
		d.seq++
		if value == nil {
			changed = t.remove(key, d.seq)
		} else {
			changed = t.put(key, value, d.seq)
		}
	}
	d.mu.Unlock()
	if changed {
		d.signal()
	}
}

// Flush waits until everything put before is on disk. It returns the error of the next
// attempt to write if that fails, or that of ctx.
func (d *DB) Flush(ctx context.Context) error {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return ErrClosed
	}
	done := make(chan error, 1)
	d.waiters = append(d.waiters, done)
	d.mu.Unlock()
	d.signal()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("write state: %w", ctx.Err())
	}
}

// Close writes what waits and closes the file. It returns the error of that
// last attempt, or that of ctx when the disk takes longer; then the file is
// closed later. Puts that come after it are ignored. Closing twice is fine.
func (d *DB) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closing = true
	d.mu.Unlock()
	d.signal()
	select {
	case <-d.done:
	case <-ctx.Done():
		return fmt.Errorf("close state: %d writes are not on disk: %w", d.Stats().Waiting, ctx.Err())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if waiting := d.waitingLocked(); waiting > 0 {
		return fmt.Errorf("close state: %d writes are not on disk: %w", waiting, d.failed)
	}
	return nil
}

// Stats returns the counters.
func (d *DB) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Stats{
		Errors:  d.errors,
		Dropped: d.refused + d.records.dropped + d.manual.dropped + d.values.dropped,
		Waiting: d.waitingLocked(),
	}
}

func (d *DB) waitingLocked() int {
	return len(d.records.waiting) + len(d.manual.waiting) + len(d.values.waiting)
}

// signal tells the writer that there is something to do.
func (d *DB) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take puts what a file held into memory, and tells what that is. What is in
// memory already is newer. What cannot be read is deleted.
func (d *DB) take(changes []change) Loaded {
	d.mu.Lock()
	defer d.mu.Unlock()
	disk := map[byte]*table{
		kindRecord: newTable(kindRecord, kindRecordDeleted, len(changes)+1),
		kindManual: newTable(kindManual, kindManualDeleted, len(changes)+1),
		kindValue:  newTable(kindValue, kindValueDeleted, len(changes)+1),
	}
	disk[kindRecordDeleted], disk[kindManualDeleted] = disk[kindRecord], disk[kindManual]
	disk[kindValueDeleted] = disk[kindValue]
	for i, c := range changes {
		if t := disk[c.kind]; c.value == nil {
			t.remove(c.key, uint64(i))
		} else {
			t.put(c.key, c.value, uint64(i))
		}
	}

	l := Loaded{Manual: map[string]string{}}
	unreadable := 0
	for _, c := range disk[kindRecord].all() {
		var r Record
		d.seq++
		d.records.adopt(c, d.seq)
		if err := json.Unmarshal(c.value, &r); err != nil || keyOf(r.Pod, r.Container) != c.key {
			d.records.remove(c.key, d.seq)
			unreadable++
			continue
		}
		l.Records = append(l.Records, r)
	}
	// Of too many, the ones put longest ago are gone again.
	l.Records = slices.DeleteFunc(l.Records, func(r Record) bool { return !d.records.alive(keyOf(r.Pod, r.Container)) })
	for _, c := range disk[kindManual].all() {
		d.seq++
		d.manual.adopt(c, d.seq)
		l.Manual[c.key] = string(c.value)
	}
	for _, c := range disk[kindValue].all() {
		d.seq++
		d.values.adopt(c, d.seq)
		if l.Values == nil {
			l.Values = map[string][]byte{}
		}
		l.Values[c.key] = c.value
	}
	if l.Lost = unreadable > 0; l.Lost {
		l.Warning = fmt.Sprintf("%s holds %d entries that cannot be read: they are deleted", filePath(d.dir), unreadable)
	}
	return l
}
