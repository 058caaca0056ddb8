package supervisor

import (
	"slices"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

const (
	// denialsPerSecond is how many refused updates of one plugin are told one by one in a second. All are counted, and what comes beyond is told in sums; a plugin that floods must not push the
	// others' lines out of the log.
	denialsPerSecond = 10
	// denialWindow is the time that a sum is over.
	denialWindow = time.Second
	// denialSums is how many different sums of one plugin are kept for one window.
	denialSums = 16
	// restOfDenials is the reason given in the sum of what has no sum of its own.
	restOfDenials = "several reasons, more than are told apart"
)

// denials limits how often a plugin's refused updates are told one by one. Safe for concurrent use; the zero value is ready for use.
type denials struct {
	mu    sync.Mutex
	since time.Time
	told  int
	sums  []UpdateDenied // of this window, in the order in which they began
}

// deny tells of refused updates: one by one, or when there are too many at the end of a second in sums of the same event and reason. Nothing is left out.
func (h *host) deny(e UpdateDenied) {
	e.Plugin, e.Team, e.Count = h.name, h.policy().Team, max(e.Count, 1)
	d := &h.denials
	now := time.Now()
	d.mu.Lock()
	var before []UpdateDenied
	if now.Sub(d.since) >= denialWindow {
		before, d.sums = d.sums, nil
		d.since, d.told = now, 0
	}
	if d.told < denialsPerSecond {
		d.told++
		d.mu.Unlock()
		h.tellDenials(before...)
		h.tellDenials(e)
		return
	}
	if d.sum(e, now) {
		time.AfterFunc(denialWindow-now.Sub(d.since), h.tellSums) // what it calls neither waits nor fails when the plugin is gone
	}
	d.mu.Unlock()
	h.tellDenials(before...)
}

// sum adds to the sum of the same event and reason, and reports whether it is the first of the window.
func (d *denials) sum(e UpdateDenied, now time.Time) (first bool) {
	i := slices.IndexFunc(d.sums, func(s UpdateDenied) bool { return s.NRIEvent == e.NRIEvent && s.Why == e.Why })
	if i < 0 && len(d.sums) < denialSums {
		e.More, e.From, e.To = true, now, now
		d.sums = append(d.sums, e)
		return len(d.sums) == 1
	}
	if i < 0 {
		i = denialSums - 1
		d.sums[i].Why = restOfDenials
		if d.sums[i].NRIEvent != e.NRIEvent {
			d.sums[i].NRIEvent = ""
		}
	}
	s := &d.sums[i]
	s.Count, s.To = s.Count+e.Count, now
	if s.ContainerID != e.ContainerID {
		s.ContainerID, s.Fields = "", nil
	}
	return false
}

// tellSums tells the sums that are there.
func (h *host) tellSums() {
	d := &h.denials
	d.mu.Lock()
	sums := d.sums
	d.sums = nil
	d.mu.Unlock()
	h.tellDenials(sums...)
}

func (h *host) tellDenials(list ...UpdateDenied) {
	for _, e := range list {
		d := h.updateDecision(e.NRIEvent, e.ContainerID, journal.ActionDenied, e.Why, e.Fields)
		e.ContainerID = d.ContainerID // bounded
		h.sup.emit(e)
		if e.Count > 1 || e.More {
			d.Count = uint64(e.Count) //nolint:gosec // at least 1
		}
		if e.More {
			d.Since, d.Time = e.From, e.To
		}
		h.sup.journal.Publish(d)
	}
}
