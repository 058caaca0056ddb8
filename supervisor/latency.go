package supervisor

import (
	"sync"
	"time"
)

// Latency is kept for the status page: so many slots of so long each, so five minutes.
const (
	latencySlots = 60
	latencySlot  = 5 * time.Second
)

// LatencyPoint is what the calls of a plugin took in one slot of time.
type LatencyPoint struct {
	// At is the begin of the slot.
	At time.Time `json:"at"`
	// Calls that ended in it, and how many of them did not do their work.
	Calls int `json:"calls"`
	Bad   int `json:"bad,omitempty"`
	// MeanSeconds and MaxSeconds are of all of them.
	MeanSeconds float64 `json:"meanSeconds"`
	MaxSeconds  float64 `json:"maxSeconds"`
}

// latency remembers what the latest calls of one plugin took. The zero value remembers nothing yet. Safe for concurrent use.
type latency struct {
	mu    sync.Mutex
	slots [latencySlots]latencySum
}

type latencySum struct {
	number     int64 // of the slot, since 1970; tells an old one from a current one at the same place
	calls, bad int
	sum, most  time.Duration
}

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(latencySlot) }

// add takes a call in that ended now.
func (l *latency) add(now time.Time, took time.Duration, bad bool) {
	n := slotOf(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.slots[n%latencySlots]
	if s.number != n {
		*s = latencySum{number: n}
	}
	s.calls++
	if bad {
		s.bad++
	}
	s.sum += took
	s.most = max(s.most, took)
}

// points returns the slots with calls, oldest first.
func (l *latency) points(now time.Time) []LatencyPoint {
	last := slotOf(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []LatencyPoint{}
	for n := last - latencySlots + 1; n <= last; n++ {
		s := l.slots[n%latencySlots]
		if s.number != n || s.calls == 0 {
			continue
		}
		out = append(out, LatencyPoint{
			At: time.Unix(0, n*int64(latencySlot)), Calls: s.calls, Bad: s.bad, MeanSeconds: s.sum.Seconds() / float64(s.calls), MaxSeconds: s.most.Seconds(),
		})
	}
	return out
}
