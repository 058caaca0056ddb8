package state

import "time"

// Record is what is kept about one container, or about one pod.
type Record struct {
	// Pod and Container are the runtime's ids. Together they are the key:
	// container ids alone are not unique in every runtime. An empty Container means the pod itself.
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Namespace, PodName, ContainerName and PodUID are for people.
	Namespace     string `json:"namespace,omitempty"`
	PodName       string `json:"podName,omitempty"`
	ContainerName string `json:"containerName,omitempty"`
	PodUID        string `json:"podUID,omitempty"`
	// Pinned says that it was decided which plugins are selected: those in Pins and no other.
	Pinned bool  `json:"pinned,omitempty"`
	Pins   []Pin `json:"pins,omitempty"`
	// Unexplained is the reason why a plugin that is not in Plugins missed the container. Empty: the caller's default,
	// as in records of older versions.
	Unexplained string `json:"unexplained,omitempty"`
	// Plugins is what came of the part of each plugin that was selected, by plugin name.
	Plugins map[string]PluginRecord `json:"plugins,omitempty"`
}

// Pin is the selection of one plugin.
type Pin struct {
	Plugin string `json:"plugin"`
	// Failed says that the plugin's selector could not be evaluated.
	Failed bool `json:"failed,omitempty"`
}

// PluginRecord is what one plugin's part in a container came to.
type PluginRecord struct {
	// Outcome and Reason are labels of the caller's.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// At is when it was decided.
	At time.Time `json:"at"`
}

// Bounds of what is kept. What is beyond them is never written.
const (
	// DefaultMaxRecords is 36 times what the kubelet's default of 110 pods makes with
	// 4 containers each, and about 10 MiB.
	DefaultMaxRecords = 20_000
	// MaxManual bounds the states set by hand: a node has some 100 plugins.
	MaxManual = 1024
	// MaxRecordSize bounds one encoded record, in bytes. With 100 plugins
	// one takes about 8 KiB.
	MaxRecordSize = 64 << 10
	// MaxValues bounds the other values: for each plugin a manifest and its quarantines.
	MaxValues = 4096
	// MaxValueSize bounds one other value, in bytes: the largest is a manifest, whose configuration must fit into one message of 4 MiB. It stands twice in it at most.
	MaxValueSize = 9 << 20
	// maxKeySize bounds the ids in a key, in bytes. Ids of runtimes have 64
	// characters each; the file takes 32 KiB.
	maxKeySize = 1 << 10
)

// Options of a DB. The zero value is usable.
type Options struct {
	// MaxRecords bounds the records kept, in memory and on disk; the ones put
	// longest ago go first. 0 means DefaultMaxRecords.
	MaxRecords int
	// OnError is told of each failed attempt to write, and of each record that is
	// too large to be kept. It is called on the writing goroutine or in a
	// Put and must not call back into the DB. May be nil.
	OnError func(error)
}

// Loaded is what Open found.
type Loaded struct {
	// Records are the containers known, those put longest ago first.
	Records []Record
	// Manual are the states set by hand, by plugin name.
	Manual map[string]string
	// Values are the other values, by key; nil when there are none.
	Values map[string][]byte
	// FirstRun is true when there was no state of any kind before: no file,
	// readable or not. It is false when that cannot be told.
	FirstRun bool
	// Lost is true when there was a state before, and what it held could not be read, or not all of it: a record that is not there
	// proves nothing.
	Lost bool
	// Warning says what was wrong with the state found, and what was done about it,
	// for people. Empty when nothing was.
	Warning string
}

// Stats are counters since Open.
type Stats struct {
	// Errors is the number of failed attempts to write.
	Errors uint64
	// Dropped is the number of records given up: because of MaxRecords, or
	// because they were too large.
	Dropped uint64
	// Waiting is the number of writes not on disk yet.
	Waiting int
}
