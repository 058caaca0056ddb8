package supervisor

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// carryNames looks for plugins that were renamed while no supervisor ran, and returns what was kept with their new names in it. A renamed plugin is one that the run before did not have, and that
// is in all but the name one that the run before had and that is gone, as with a reload.
func carryNames(l state.Loaded, cfg *policy.Config, db *state.DB) state.Loaded {
	_, before := LastGood(l)
	gone := slices.DeleteFunc(slices.Clone(before), func(g policy.GoodManifest) bool { return cfg.Plugin(g.Name) != nil || listsInvalid(cfg, g.Name) })
	if len(gone) == 0 {
		return l
	}
	l.Records, l.Manual, l.Values = slices.Clone(l.Records), maps.Clone(l.Manual), maps.Clone(l.Values)
	for _, p := range cfg.Plugins {
		if slices.ContainsFunc(before, func(g policy.GoodManifest) bool { return g.Name == p.Name }) {
			continue
		}
		is := p.Good()
		i := slices.IndexFunc(gone, is.SameButName)
		if i < 0 {
			continue
		}
		from := gone[i].Name
		gone = slices.Delete(gone, i, i+1)
		if value, err := json.Marshal(is); err == nil {
			l.Values[keyManifest+p.Name] = value
		}
		delete(l.Values, keyManifest+from)
		if db != nil {
			db.DeleteValue(keyManifest + from)
		}
		carryName(&l, from, p.Name, db)
	}
	return l
}

// carryName gives what was kept of one name to another.
func carryName(l *state.Loaded, from, to string, db *state.DB) {
	for i, r := range l.Records {
		if r, ok := renamedIn(r, from, to); ok {
			l.Records[i] = r
			if db != nil {
				db.Put(r)
			}
		}
	}
	if set, ok := l.Manual[from]; ok {
		if also := l.Manual[to]; also != "" {
			set = also + "," + set
		}
		l.Manual[to] = set
		delete(l.Manual, from)
		if db != nil {
			db.PutManual(to, set)
			db.DeleteManual(from)
		}
	}
	if q, ok := l.Values[keyQuarantine+from]; ok {
		l.Values[keyQuarantine+to] = q
		delete(l.Values, keyQuarantine+from)
		if db != nil {
			db.PutValue(keyQuarantine+to, q)
			db.DeleteValue(keyQuarantine + from)
		}
	}
}

// renamedIn returns the record with another name for a plugin. It reports false when the plugin is not in it.
func renamedIn(r state.Record, from, to string) (state.Record, bool) {
	pin := slices.IndexFunc(r.Pins, func(p state.Pin) bool { return p.Plugin == from })
	work, worked := r.Plugins[from]
	if pin >= 0 {
		r.Pins = slices.Clone(r.Pins)
		r.Pins[pin].Plugin = to
	}
	if worked {
		r.Plugins = maps.Clone(r.Plugins)
		delete(r.Plugins, from)
		r.Plugins[to] = work
	}
	return r, pin >= 0 || worked
}

// renamed gives another name to a plugin in what was found of the run before, as long as the runtime has not told what of it still exists.
func (h *history) renamed(from, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ref, r := range h.loaded {
		if r, ok := renamedIn(r, from, to); ok {
			h.loaded[ref] = r
		}
	}
	if i := slices.Index(h.names, from); i >= 0 {
		h.names[i] = to
	}
}

// knew reports whether the run before had the plugin; true also when it is not known what it had.
func (h *history) knew(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.names) == 0 || slices.ContainsFunc(h.names, func(n string) bool { return strings.EqualFold(n, name) })
}
