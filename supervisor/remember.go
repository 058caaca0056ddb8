package supervisor

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// Keys of values in the state, beside those of the last good configuration.
const (
	keyQuarantine = "quarantine/" // and a plugin's name: its pods under quarantine
	keyBypass     = "bypass"      // until when
)

// quarantines are the pods that a plugin does not get, and of which version of it that is true.
type quarantines struct {
	SHA256 string                   `json:"sha256,omitempty"`
	Pods   []breaker.QuarantinedPod `json:"pods"`
}

// keepQuarantine remembers the quarantines of the plugin, if they are others than before. It runs on the loop, after what can have changed them.
func (h *host) keepQuarantine() {
	db := h.sup.opts.State
	if db == nil {
		return
	}
	pods := h.guard.Snapshot().Quarantined
	if slices.Equal(pods, h.quarantined) {
		return
	}
	h.quarantined = pods
	h.keeping.Lock()
	defer h.keeping.Unlock()
	switch {
	case h.nameless: // another one has its name by now
	case len(pods) == 0:
		h.kept = nil
		db.DeleteValue(keyQuarantine + h.name)
	default:
		value, err := json.Marshal(quarantines{SHA256: h.sha256, Pods: pods})
		if err != nil {
			h.sup.emit(StateProblem{Err: "keep the quarantines of plugin " + h.name + ": " + err.Error()})
			return
		}
		h.kept = value
		db.PutValue(keyQuarantine+h.name, value)
	}
}

// restoreQuarantine begins with the quarantines of the run before, or of another name. They end with another version of the plugin, as they would have then. With the turn, or before there is anybody else.
func (h *host) restoreQuarantine(value []byte) {
	var q quarantines
	if len(value) == 0 || json.Unmarshal(value, &q) != nil {
		return
	}
	h.sha256, h.quarantined, h.kept = q.SHA256, q.Pods, value
	for _, p := range q.Pods {
		h.guard.Quarantine(p)
	}
}

// endQuarantine forgets the quarantines of a plugin that loses its name, and returns them as they were kept.
func (h *host) endQuarantine() []byte {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	h.nameless = true
	if h.sup.opts.State != nil {
		h.sup.opts.State.DeleteValue(keyQuarantine + h.name)
	}
	return h.kept
}

// inheritQuarantine begins with what endQuarantine returned of the same plugin under its former name. It comes before the plugin's first process.
func (h *host) inheritQuarantine(value []byte) {
	if len(value) == 0 {
		return
	}
	h.turn.Lock() // events reach it already
	defer h.turn.Unlock()
	h.restoreQuarantine(value)
	h.sup.opts.State.PutValue(keyQuarantine+h.name, value)
}

// dropQuarantines forgets the quarantines of plugins that are not there any more.
func (s *Supervisor) dropQuarantines(cfg *policy.Config) {
	if s.opts.State == nil {
		return
	}
	for key := range s.opts.Loaded.Values {
		name, ok := strings.CutPrefix(key, keyQuarantine)
		if ok && cfg.Plugin(name) == nil && !listsInvalid(cfg, name) {
			s.opts.State.DeleteValue(key)
		}
	}
}

// keepBypass remembers until when the supervisor is bypassed, and for how long from now; the zero time: it is not.
func (s *Supervisor) keepBypass(until time.Time, d time.Duration) {
	switch {
	case s.opts.State == nil:
	case until.IsZero():
		s.opts.State.DeleteValue(keyBypass)
	default:
		s.opts.State.PutValue(keyBypass, []byte(until.Format(time.RFC3339Nano)+" "+d.String()))
	}
}

// restoreBypass goes on with the bypass of the run before. It lasts no longer than it was asked for, whatever was done to the clock since then.
func (s *Supervisor) restoreBypass(value []byte) {
	end, length, bounded := strings.Cut(string(value), " ")
	until, err := time.Parse(time.RFC3339Nano, end)
	left := time.Until(until)
	if most, bad := time.ParseDuration(length); bounded && bad == nil {
		left = min(left, most)
	}
	if err == nil && left > 0 {
		s.bypass(left)
	}
}

// pinsOf turns the pins of a record into those of the store. Plugins that are not hosted any more have none.
func (p *plan) pinsOf(r state.Record) []store.Pin {
	out := make([]store.Pin, 0, len(r.Pins))
	for _, pin := range r.Pins {
		if p.byName[pin.Plugin] != nil {
			out = append(out, store.Pin{Plugin: pin.Plugin, Selected: !pin.Failed, MatchErr: pin.Failed})
		}
	}
	if r.Unexplained == reasonStateLost {
		return recomputed(out)
	}
	return out
}

// recomputed marks decisions that were taken again because nobody knows the first ones.
func recomputed(pins []store.Pin) []store.Pin {
	pins = slices.Clone(pins)
	for i := range pins {
		pins[i].Recomputed = true
	}
	return pins
}

func recordPins(pins []store.Pin) []state.Pin {
	out := make([]state.Pin, 0, len(pins))
	for _, p := range pins {
		out = append(out, state.Pin{Plugin: p.Plugin, Failed: !p.Selected})
	}
	return out
}

// decideForNewcomers takes the decisions about the plugins that the run before did not have, for what it has decided about.
func (s *Supervisor) decideForNewcomers() {
	s.decideFor(slices.DeleteFunc(slices.Clone(s.plan().hosts), func(h *host) bool { return s.history.knew(h.name) }))
}
