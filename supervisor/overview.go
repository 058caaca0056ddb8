package supervisor

import (
	"slices"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// Bounds of an Overview: as much as a person looks at.
const (
	overviewMissed    = 200
	overviewEach      = 5 // of each plugin, whatever the others miss
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
	// MissedContainers are living containers without a plugin's work, the newest first: five of each plugin at least, and then the newest of all until they are 200. MissedTotal counts all.
	MissedContainers []MissedWork `json:"missedContainers"`
	MissedTotal      int          `json:"missedTotal"`
	// Decisions are the latest that are worth knowing, newest last.
	Decisions []journal.Decision `json:"decisions"`
}

// Overview returns the state of everything for people who look at it. Of what a plugin wrote last there is only the number of lines: it may hold what is not for everybody who reaches the page. Safe
// for concurrent use.
func (s *Supervisor) Overview() Overview {
	defer s.opts.Computing()()
	now := time.Now()
	out := Overview{Now: now, Status: s.Status(), Selected: s.store.SelectedCounts(), Latency: map[string][]LatencyPoint{}, MissedContainers: s.Missed()}
	for i := range out.Plugins {
		p := &out.Plugins[i]
		exits := make([]ExitRecord, len(p.Exits))
		for k, x := range p.Exits {
			if said, plain := x.withLastWords(), x.withoutOutput(); said != plain { // the last error may be that, or have it inside
				p.LastError, p.Stale = strings.ReplaceAll(p.LastError, said, plain), strings.ReplaceAll(p.Stale, said, plain)
			}
			x.Detail, x.Withheld, x.Output = x.withoutOutput(), len(x.Output), nil
			exits[k] = x
		}
		p.Exits = exits
	}
	for _, h := range s.plan().hosts {
		out.Latency[h.name] = h.latency.points(now)
	}
	out.MissedTotal = len(out.MissedContainers)
	out.MissedContainers = latestMissed(out.MissedContainers)
	out.Decisions = s.Decisions(journal.Filter{Notable: true, Last: overviewDecisions})
	return out
}

// latestMissed picks what a person looks at, the newest first, so that a plugin with few is not hidden behind one with many.
func latestMissed(all []MissedWork) []MissedWork {
	newest := func(a, b MissedWork) int { return b.At.Compare(a.At) }
	slices.SortStableFunc(all, newest)
	each := map[string]int{}
	var picked, rest []MissedWork
	for _, m := range all {
		if each[m.Plugin]++; each[m.Plugin] <= overviewEach {
			picked = append(picked, m)
		} else {
			rest = append(rest, m)
		}
	}
	picked = append(picked, rest[:min(len(rest), max(0, overviewMissed-len(picked)))]...)
	slices.SortStableFunc(picked, newest)
	return picked
}
