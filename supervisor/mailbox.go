package supervisor

import "sync"

// mailbox is an unbounded queue with one reader. Senders never block: they include the goroutines that answer the runtime. What goes in is bounded by what can happen at once: one
// event of the runtime per node, the timers of one plugin, and people.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	wake   chan struct{}
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{wake: make(chan struct{}, 1)} }

// put adds an item. It reports false when the mailbox is closed: nobody will read it.
func (m *mailbox[T]) put(v T) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	m.items = append(m.items, v)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return true
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
