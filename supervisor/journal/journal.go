package journal

import (
	"context"
	"sync"
	"time"
)

const (
	// DefaultSize is how many decisions the ring holds: about 400 bytes each, and some minutes of a busy node.
	DefaultSize = 4096
	// chunk is how many decisions are copied under one lock, so that a reader never keeps an event waiting: a few tens of microseconds.
	chunk = 128
)

// Journal is a ring of the latest decisions. Make one with New.
type Journal struct {
	size int

	mu   sync.Mutex
	ring []Decision // grows to size; decision n is at (n-1) % size
	last uint64     // Seq of the latest decision
	subs []*Subscription
	tees []func([]Decision)
}

// New returns a journal that holds size decisions; below 1 means DefaultSize.
func New(size int) *Journal {
	if size < 1 {
		size = DefaultSize
	}
	return &Journal{size: size}
}

// Tee adds a function that gets what is published. It runs on the publisher's goroutine under the journal's lock: it must be quick, must not block, must not call the journal, and
// must not keep the slice. It is for one-time setup, before anything is published.
func (j *Journal) Tee(f func([]Decision)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tees = append(j.tees, f)
}

// Publish numbers the decisions, in place, and adds them. The slice is the caller's again afterwards; what the decisions point to must not be changed any more.
func (j *Journal) Publish(ds ...Decision) {
	if len(ds) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range ds {
		j.last++
		ds[i].Seq = j.last
		if len(j.ring) < j.size {
			j.ring = append(j.ring, ds[i])
		} else {
			j.ring[(j.last-1)%uint64(j.size)] = ds[i] //nolint:gosec // size is above 0
		}
	}
	for _, f := range j.tees {
		f(ds)
	}
	for _, s := range j.subs {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Last returns the Seq of the latest decision; 0 when there is none.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Decisions returns those of the ring that the filter picks, oldest first.
func (j *Journal) Decisions(f Filter) []Decision {
	var out []Decision
	var buf [chunk]Decision
	end := j.Last()
	for next := f.After + 1; next <= end; {
		n, from := j.read(buf[:], next)
		for i := range n {
			if buf[i].Seq <= end && f.Match(&buf[i]) {
				out = append(out, buf[i])
			}
		}
		next = from + uint64(n) //nolint:gosec // at most chunk
	}
	if f.Last > 0 && len(out) > f.Last {
		out = append([]Decision(nil), out[len(out)-f.Last:]...)
	}
	return out
}

// read copies decisions from Seq next on, or from the oldest that is left. from is the Seq of the first.
func (j *Journal) read(buf []Decision, next uint64) (n int, from uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from = max(next, j.last-uint64(len(j.ring))+1)
	for from+uint64(n) <= j.last && n < len(buf) { //nolint:gosec // at most chunk
		buf[n] = j.ring[(from+uint64(n)-1)%uint64(j.size)] //nolint:gosec // as above
		n++
	}
	return n, from
}

// Subscription follows a journal. Close it in the end. One goroutine uses it.
type Subscription struct {
	j      *Journal
	filter Filter
	next   uint64
	wake   chan struct{}
	past   []Decision
}

// Subscribe begins with the next decision, or with the filter's Last of the past ones.
func (j *Journal) Subscribe(f Filter) *Subscription {
	s := &Subscription{j: j, filter: f, wake: make(chan struct{}, 1)}
	j.mu.Lock()
	s.next = j.last + 1
	j.subs = append(j.subs, s)
	j.mu.Unlock()
	if f.Last > 0 {
		s.past = j.Decisions(f)
		if n := len(s.past); n > 0 {
			s.next = max(s.next, s.past[n-1].Seq+1)
		}
	}
	return s
}

// Next waits for decisions that the filter picks and returns them, oldest first; before them a KindLost if some were overwritten before they were read. It ends with the context's error.
func (s *Subscription) Next(ctx context.Context) ([]Decision, error) {
	if len(s.past) > 0 {
		out := s.past
		s.past = nil
		return out, nil
	}
	var buf [chunk]Decision
	for {
		n, from := s.j.read(buf[:], s.next)
		var out []Decision
		if from > s.next {
			out = append(out, Decision{Time: time.Now(), Kind: KindLost, Count: from - s.next})
		}
		s.next = from + uint64(n) //nolint:gosec // at most chunk
		for i := range n {
			if s.filter.Match(&buf[i]) {
				out = append(out, buf[i])
			}
		}
		switch {
		case len(out) > 0:
			return out, nil
		case n > 0:
			continue
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	for i, other := range s.j.subs {
		if other == s {
			s.j.subs = append(s.j.subs[:i:i], s.j.subs[i+1:]...)
			return
		}
	}
}
