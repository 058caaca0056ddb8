package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// ErrUnknownPlugin is wrapped by the errors of manual actions on a plugin that does not exist.
var ErrUnknownPlugin = errors.New("no such plugin")

// Act carries out a manual action on a plugin: restart, enable, disable, trip, reset or unquarantine. uid is who asked, for the record. Safe for concurrent use.
func (s *Supervisor) Act(name, action string, uid uint32) error {
	s.actions.Lock() // the guard and the loop hear of two operators in one order, and no plugin gets another name meanwhile
	defer s.actions.Unlock()
	h := s.plan().byName[name]
	if h == nil {
		return fmt.Errorf("%w: %q; known are %s", ErrUnknownPlugin, name, strings.Join(s.names(), ", "))
	}
	switch action {
	case "restart":
		if h.guard.State() == breaker.StateDisabled {
			return fmt.Errorf("restart plugin %q: it is disabled; enable it instead", name)
		}
		h.post(plugin.Restart{})
	case "disable":
		h.guard.Disable()
		h.post(plugin.Disable{})
		s.keepManual(name, manualDisabled, true)
	case "enable":
		h.guard.Enable()
		h.post(plugin.Enable{})
		s.keepManual(name, manualDisabled, false)
	case "trip":
		h.guard.Trip()
		s.keepManual(name, manualTripped, true)
	case "reset":
		h.guard.Reset()
		h.failures.forget() // a breaker that is closed tells nothing
		s.keepManual(name, manualTripped, false)
	case "unquarantine":
		h.guard.Unquarantine("")
		h.box.put(message{fn: h.keepQuarantine})
	default:
		return fmt.Errorf("unknown action %q: use restart, enable, disable, trip, reset or unquarantine", action)
	}
	s.emit(ManualAction{Plugin: name, Action: action, UID: uid})
	s.noteManual(name, action, &uid, 0)
	return nil
}

func (s *Supervisor) names() []string {
	hosts := s.plan().hosts
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		out = append(out, h.name)
	}
	return out
}

// Bypass makes the whole supervisor a no-op for a while; 0 ends it. Safe for concurrent use.
func (s *Supervisor) Bypass(d time.Duration, uid uint32) {
	s.bypass(d)
	action := "bypass"
	if d <= 0 {
		action = "bypass off"
	}
	s.emit(ManualAction{Action: action, UID: uid, For: max(d, 0)})
	s.noteManual("", action, &uid, d)
}

// bypass begins or ends a bypass.
func (s *Supervisor) bypass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bypassTimer != nil {
		s.bypassTimer.Stop()
		s.bypassTimer = nil
	}
	if d <= 0 {
		s.keepBypass(time.Time{}, 0)
		if s.bypassUntil.Swap(0) != 0 {
			s.afterBypassLocked()
		}
	} else {
		end := time.Now().Add(d)
		until := end.UnixNano()
		s.bypassUntil.Store(until)
		s.keepBypass(end, d)
		s.bypassTimer = time.AfterFunc(d, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.bypassUntil.CompareAndSwap(until, 0) {
				s.emit(ManualAction{Action: "bypass over"})
				s.noteManual("", "bypass over", nil, 0)
				s.keepBypass(time.Time{}, 0)
				s.afterBypassLocked()
			}
		})
	}
}

// afterBypassLocked tells the plugins the state again: they have missed whatever happened meanwhile.
func (s *Supervisor) afterBypassLocked() {
	if s.conn.connected { // else the next registration does
		s.tellStateLocked()
	}
}

func (s *Supervisor) bypassed() bool { return s.bypassUntil.Load() != 0 }

// stillRunning names the plugins that did not end.
func (s *Supervisor) stillRunning() error {
	var left []string
	for _, h := range s.plan().hosts {
		if v := h.view.Load(); v.pid != 0 {
			left = append(left, fmt.Sprintf("%s (pid %d, %s)", h.name, v.pid, v.state))
		}
	}
	return fmt.Errorf("stop plugins: not ended after %s: %s", shutdownLimit, strings.Join(left, ", "))
}
