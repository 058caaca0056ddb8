package supervisor

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Rival is a plugin that had set before what another one set, so that the other's reply was dropped.
type Rival struct {
	Plugin string `json:"plugin"`
	Team   string `json:"team"`
	// Count is how often since the supervisor was started, At the last time.
	Count int       `json:"count"`
	At    time.Time `json:"at"`
	// Fields are what both had set the last time.
	Fields []string `json:"fields"`
}

// maxRivals bounds what is remembered of one plugin, maxRivalFields of one conflict: as much as a person reads.
const (
	maxRivals      = 20
	maxRivalFields = 10
)

// rivals remembers with whom a plugin is in conflict. Safe for concurrent use; the zero value is ready.
type rivals struct {
	mu   sync.Mutex
	list []Rival
}

// add takes note of a conflict. The one that is longest ago makes room.
func (r *rivals) add(plugin, team string, fields []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.list, func(x Rival) bool { return x.Plugin == plugin })
	if i < 0 && len(r.list) == maxRivals {
		slices.SortFunc(r.list, func(a, b Rival) int { return b.At.Compare(a.At) })
		r.list = r.list[:maxRivals-1]
	}
	if i < 0 {
		i = len(r.list)
		r.list = append(r.list, Rival{Plugin: plugin})
	}
	x := &r.list[i]
	x.Team, x.Count, x.At, x.Fields = team, x.Count+1, time.Now(), slices.Clone(fields[:min(len(fields), maxRivalFields)])
}

// all returns them, the ones with the most conflicts first.
func (r *rivals) all() []Rival {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.list)
	slices.SortFunc(out, func(a, b Rival) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Plugin, b.Plugin)) })
	return out
}
