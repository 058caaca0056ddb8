package supervisor

import "sync"

// mailbox is an unbounded queue with one reader at a time. Senders never block: they include the goroutines that answer the runtime. What goes in is bounded by what can happen at once: one
// event of the runtime per node, the timers of one plugin, and people.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	wake   chan struct{}
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{wake: make(chan struct{}, 1)} }

// put adds an item and wakes the reader. It reports false when the mailbox is closed: nobody will read it.
func (m *mailbox[T]) put(v T) bool {
	if !m.add(v) {
		return false
	}
	m.rouse()
	return true
}

// add adds an item without waking anybody: whoever reads next finds it. It reports false when the mailbox is closed.
func (m *mailbox[T]) add(v T) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.items = append(m.items, v)
	return true
}

// rouse wakes the reader.
func (m *mailbox[T]) rouse() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take swaps the queued items for buf, which becomes the new queue.
func (m *mailbox[T]) take(buf []T) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = buf[:0]
	return items
}

// close ends the mailbox and returns what nobody has read.
func (m *mailbox[T]) close() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	items := m.items
	m.items = nil
	return items
}
