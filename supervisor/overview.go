package supervisor

import (
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// Bounds of an Overview: as much as a person looks at.
const (
	overviewMissed    = 200
	overviewDecisions = 50
)

// Overview is everything that the status page shows.
type Overview struct {
	Now time.Time `json:"now"`
	Status
	// Selected counts the living containers that each plugin selected.
	Selected map[string]int `json:"selected"`
	// Latency is what the calls of each plugin took in the last minutes.
	Latency map[string][]LatencyPoint `json:"latency"`
	// Missed are the living containers without a plugin's work, at most 200 of them; MissedTotal counts all.
	MissedContainers []MissedWork `json:"missedContainers"`
	MissedTotal      int          `json:"missedTotal"`
	// Decisions are the latest that are worth knowing, newest last.
	Decisions []journal.Decision `json:"decisions"`
}

// Overview returns the state of everything for people who look at it. What a plugin wrote last is left out: it may hold what is not for everybody who reaches the page. Safe
// for concurrent use.
func (s *Supervisor) Overview() Overview {
	now := time.Now()
	out := Overview{Now: now, Status: s.Status(), Selected: s.store.SelectedCounts(), Latency: map[string][]LatencyPoint{}, MissedContainers: s.Missed()}
	for i := range out.Plugins {
		p := &out.Plugins[i]
		exits := make([]ExitRecord, len(p.Exits))
		for k, x := range p.Exits {
			if said, plain := x.withLastWords(), x.withoutOutput(); said != plain { // the last error may be that, or have it inside
				p.LastError, p.Stale = strings.ReplaceAll(p.LastError, said, plain), strings.ReplaceAll(p.Stale, said, plain)
			}
			x.Detail, x.Output = x.withoutOutput(), nil
			exits[k] = x
		}
		p.Exits = exits
	}
	for _, h := range s.plan().hosts {
		out.Latency[h.name] = h.latency.points(now)
	}
	out.MissedTotal = len(out.MissedContainers)
	out.MissedContainers = out.MissedContainers[:min(overviewMissed, out.MissedTotal)]
	out.Decisions = s.Decisions(journal.Filter{Notable: true, Last: overviewDecisions})
	return out
}
