package supervisor

import (
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

const (
	// denialsPerSecond is how many refused updates of one plugin are told in a second. All are counted; a plugin that floods must not push the others' lines out of the log.
	denialsPerSecond = 10
)

// denials limits how often a plugin's refused updates are told. Safe for concurrent use; the zero value is ready for use.
type denials struct {
	mu    sync.Mutex
	since time.Time
	told  int
}

// may reports whether one more may be told now.
func (d *denials) may(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.since) >= time.Second {
		d.since, d.told = now, 0
	}
	d.told++
	return d.told <= denialsPerSecond
}

// deny tells of a refused update, unless too many have been told.
func (h *host) deny(e UpdateDenied) {
	if h.denials.may(time.Now()) {
		h.sup.emit(e)
		h.noteUpdate(e.ContainerID, journal.ActionDenied, e.Why, nil)
	}
}
