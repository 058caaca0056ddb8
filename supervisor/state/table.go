package state

import "container/list"

// table is one kind of entries in memory: all that there are, what is not on
// disk yet, and what has to be deleted there. It is not safe for concurrent use.
type table struct {
	kind, deleted byte // of frames
	limit         int
	entries       map[string]*entry
	order         *list.List      // keys of live entries, put longest ago first
	waiting       map[string]bool // keys that differ from what is on disk
	bytes         int             // of live keys and values
	dropped       uint64
}

// entry is one value, or the memory of one that is still on disk.
type entry struct {
	value  []byte        // nil = deleted
	seq    uint64        // of the last change
	place  *list.Element // in order; nil when deleted
	onDisk bool          // the file may hold a value for the key
}

func newTable(kind, deleted byte, limit int) *table {
	return &table{kind: kind, deleted: deleted, limit: limit, entries: map[string]*entry{}, order: list.New(), waiting: map[string]bool{}}
}

// adopt takes over an entry that was found on disk. What is here already is newer.
func (t *table) adopt(c change, seq uint64) {
	if t.entries[c.key] != nil {
		return // it waits to be written, since the file was not open before
	}
	t.put(c.key, c.value, seq)
	if e := t.entries[c.key]; e != nil {
		e.onDisk = true
		delete(t.waiting, c.key)
	}
}

// put sets a value, and reports whether that changed anything.
func (t *table) put(key string, value []byte, seq uint64) bool {
	e := t.entries[key]
	switch {
	case e == nil:
		e = &entry{}
		t.entries[key] = e
	case e.value != nil && string(e.value) == string(value):
		return false
	}
	if e.place == nil {
		e.place = t.order.PushBack(key)
		t.bytes += len(key)
	} else {
		t.order.MoveToBack(e.place)
	}
	t.bytes += len(value) - len(e.value)
	e.value, e.seq = value, seq
	t.waiting[key] = true
	t.shrink(seq)
	return true
}

// remove deletes a value, and reports whether there was one.
func (t *table) remove(key string, seq uint64) bool {
	e := t.entries[key]
	if e == nil || e.value == nil {
		return false
	}
	t.bytes -= len(key) + len(e.value)
	t.order.Remove(e.place)
	e.place, e.value, e.seq = nil, nil, seq
	if !e.onDisk {
		// Nobody ever saw it: it must not pile up while the disk is full.
		delete(t.entries, key)
		delete(t.waiting, key)
		return true
	}
	t.waiting[key] = true
	return true
}

// alive tells whether there is a value.
func (t *table) alive(key string) bool { return t.entries[key] != nil && t.entries[key].value != nil }

// shrink gives up the entries put longest ago that are too many.
func (t *table) shrink(seq uint64) {
	for t.order.Len() > t.limit {
		key, _ := t.order.Front().Value.(string)
		t.remove(key, seq)
		t.dropped++
	}
}

// collect gives all changes that wait. They count as possibly on disk from now on.
func (t *table) collect() []change {
	changes := make([]change, 0, len(t.waiting))
	for key := range t.waiting {
		changes = append(changes, t.change(key))
	}
	return changes
}

// all gives all that is alive, for a new file.
func (t *table) all() []change {
	changes := make([]change, 0, t.order.Len())
	for p := t.order.Front(); p != nil; p = p.Next() {
		key, _ := p.Value.(string)
		changes = append(changes, t.change(key))
	}
	return changes
}

func (t *table) change(key string) change {
	e := t.entries[key]
	e.onDisk = true
	c := change{kind: t.kind, key: key, value: e.value, seq: e.seq}
	if e.value == nil {
		c.kind = t.deleted
	}
	return c
}

// written marks a change as being on disk. What changed since stays waiting.
func (t *table) written(c change) {
	e := t.entries[c.key]
	if e == nil || e.seq != c.seq {
		return
	}
	delete(t.waiting, c.key)
	if e.value == nil {
		delete(t.entries, c.key)
	}
}

// rewritten says that a new file holds what was alive up to seq, and nothing else.
func (t *table) rewritten(seq uint64) {
	for key, e := range t.entries {
		if e.seq > seq {
			continue
		}
		delete(t.waiting, key)
		if e.value == nil {
			delete(t.entries, key)
		}
	}
}
