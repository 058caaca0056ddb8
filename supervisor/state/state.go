package state

import (
	"context"
	"errors"
	"time"
)

// Record is what is kept about one container.
type Record struct {
	// Pod and Container are the runtime's ids. Together they are the key:
	// container ids alone are not unique in every runtime.
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Namespace, PodName, ContainerName and PodUID are for people.
	Namespace     string `json:"namespace,omitempty"`
	PodName       string `json:"podName,omitempty"`
	ContainerName string `json:"containerName,omitempty"`
	PodUID        string `json:"podUID,omitempty"`
	// Plugins is the decision for each plugin that selected the container, by plugin name.
	Plugins map[string]PluginRecord `json:"plugins,omitempty"`
}

// PluginRecord is what one plugin's part in a container came to.
type PluginRecord struct {
	// Outcome and Reason are labels of the caller's.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// At is when it was decided.
	At time.Time `json:"at"`
}

// Options of a DB. The zero value is usable.
type Options struct {
	// MaxRecords bounds the records kept, here and on disk; the records that were written
	// longest ago go first. 0 means 20,000, about 40 nodes' worth of the
	// kubelet's default of 110 pods with 4 containers each.
	MaxRecords int
	// OnError is told of each failed attempt to write. It is called on the
	// writing goroutine and must not call back into the DB. May be nil.
	OnError func(error)
}

// Loaded is what Open found.
type Loaded struct {
	// Records are the containers known, the longest known first.
	Records []Record
	// Manual are the states set by hand, by plugin name.
	Manual map[string]string
	// FirstRun is true when there was no state of any kind before: no
	// file, readable or not.
	FirstRun bool
	// Warning says what was wrong with the state found and what was done about it, for
	// people. Empty when nothing was.
	Warning string
}

// DB is the open state. Make one with Open, end it with Close.
type DB struct{}

// Open opens or creates the state in dir, which is created with mode 0700 if
// it is missing. Whatever is wrong with a file found there, it is set aside as
// state.db.bad-N and a new one is begun. The DB returned is always usable; if
// nothing can be written at all it keeps everything in memory and goes on trying.
func Open(dir string, o Options) (*DB, Loaded) {
	return &DB{}, Loaded{}
}

// Put keeps r, in place of an earlier record of the same pod and container.
func (d *DB) Put(r Record) {}

// Delete forgets a container.
func (d *DB) Delete(pod, container string) {}

// PutManual keeps the state that was set by hand for a plugin.
func (d *DB) PutManual(plugin, state string) {}

// DeleteManual forgets the state that was set by hand for a plugin.
func (d *DB) DeleteManual(plugin string) {}

// Flush waits until everything put before is on disk, or says why it is not.
func (d *DB) Flush(ctx context.Context) error { return errors.New("not implemented") }

// Close writes what waits, as long as ctx allows, and closes the file.
func (d *DB) Close(ctx context.Context) error { return errors.New("not implemented") }

// Stats are counters since Open.
type Stats struct {
	// Errors is the number of failed attempts to write.
	Errors uint64
	// Dropped is the number of records given up because of MaxRecords.
	Dropped uint64
	// Waiting is the number of writes not on disk yet.
	Waiting int
}

// Stats returns the counters.
func (d *DB) Stats() Stats { return Stats{} }
