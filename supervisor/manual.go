package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// The manual states that survive a restart. A plugin can be in both.
const (
	manualDisabled = "disabled"
	manualTripped  = "tripped"
)

// manual is what operators set by hand, by the name of a plugin. What was set for a name holds for whatever plugin has it, also when there was none meanwhile. Safe for concurrent use.
type manual struct {
	mu    sync.Mutex
	state map[string][]string // nobody is in it without a state
}

// restore begins with what was kept in the run before.
func (m *manual) restore(kept map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = make(map[string][]string, len(kept))
	for name, states := range kept {
		for state := range strings.SplitSeq(states, ",") {
			known := state == manualDisabled || state == manualTripped
			if known && !slices.Contains(m.state[name], state) {
				m.state[name] = append(m.state[name], state)
			}
		}
	}
}

// set adds or takes away one state of a plugin and returns what is to be kept: the states joined by commas, or nothing.
func (m *manual) set(name, state string, on bool) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := slices.DeleteFunc(slices.Clone(m.state[name]), func(s string) bool { return s == state })
	if on {
		now = append(now, state)
	}
	slices.Sort(now)
	if m.state == nil {
		m.state = map[string][]string{}
	}
	m.state[name] = now
	if len(now) == 0 {
		delete(m.state, name)
	}
	return strings.Join(now, ",")
}

// states returns the manual states of a plugin.
func (m *manual) states(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state[name])
}

// in reports whether a plugin is in the state.
func (m *manual) in(name, state string) bool { return slices.Contains(m.states(name), state) }

// keepManual remembers that a manual state of a plugin began or ended.
func (s *Supervisor) keepManual(name, state string, on bool) {
	keep := s.manual.set(name, state, on)
	if s.opts.State == nil {
		return
	}
	if keep == "" {
		s.opts.State.DeleteManual(name)
	} else {
		s.opts.State.PutManual(name, keep)
	}
	s.flushManual()
}

// flushManual waits until the disk has what an operator is about to be told, so that a crash does not undo it; a disk that does not answer costs a second and a log line.
func (s *Supervisor) flushManual() {
	ctx, cancel := context.WithTimeout(s.stopCtx, time.Second)
	defer cancel()
	if err := s.opts.State.Flush(ctx); err != nil {
		s.emit(StateProblem{Err: "manual state kept in memory only for now: " + err.Error()})
	}
}

// restoreManual puts the guard of a new plugin into the states that operators left it in; its loop follows with start.
func (h *host) restoreManual() {
	if h.sup.manual.in(h.name, manualTripped) {
		h.guard.Trip()
	}
	if h.sup.manual.in(h.name, manualDisabled) {
		h.guard.Disable()
	}
}

// start starts the plugin, unless it is disabled. Under actions.
func (h *host) start() { h.post(plugin.Start{Disabled: h.sup.manual.in(h.name, manualDisabled)}) }
