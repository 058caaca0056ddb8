package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// logPatience is how long the explanations of one plugin wait for a log that takes nothing: its lines are then counted as dropped.
const logPatience = 2 * time.Second

// explainer records the work that is missing from containers that a plugin found running: after a first start that is each plugin's work on each container that it selects. One plugin after the other
// is explained, beside the events, and each container is remembered once, with what all of them missed. The zero value is ready for use.
type explainer struct {
	turn sync.Mutex // held while a plugin is explained

	mu    sync.Mutex
	jobs  int                    // plugins that are explained, or will be
	dirty map[store.Ref]struct{} // containers whose record is older than what is known
}

// explainUnexplained records the work of a plugin that is missing from containers of its snapshot, in the background. It runs when the plugin's subscription is known.
func (s *Supervisor) explainUnexplained(h *host, refs []plugin.Ref) {
	if !h.subscribes(api.Event_CREATE_CONTAINER) || len(refs) == 0 {
		return
	}
	x := &s.explainer
	x.mu.Lock()
	x.jobs++
	x.mu.Unlock()
	h.work.Go(func() {
		defer s.opts.Computing()()
		x.turn.Lock()
		defer x.turn.Unlock()
		patience, cancel := context.WithTimeout(s.stopContext(), logPatience)
		defer cancel()
		for _, r := range refs {
			if s.stopContext().Err() != nil {
				break // the next start finds the same
			}
			if ref := store.Ref(r); !ref.IsPod() && s.explainOne(h, ref, patience.Done()) {
				x.mark(ref)
			}
		}
		s.history.decided(s, x.done()...)
	})
}

// explainOne reports whether the plugin's work is missing from the container and that was news.
func (s *Supervisor) explainOne(h *host, ref store.Ref, patience <-chan struct{}) bool {
	reason := s.history.why(ref)
	if reason == "" || s.hasWork(ref, h.name) {
		return false
	}
	n, ok := s.store.Names(ref)
	if !ok {
		return false
	}
	s.store.SetWork(ref, store.Work{Plugin: h.name, Reason: reason, At: time.Now(), Missed: true})
	h.met.fallback(actionIgnore, reason)
	s.events.emitBetween(patience, Missed{
		Plugin: h.name, Team: h.policy().Team, Namespace: n.Namespace, Pod: n.Pod, Container: n.Container, ContainerID: ref.Container, Reason: reason,
	})
	h.noteMissed(ref, n, reason)
	return true
}

// mark says that the container's record is to be written.
func (x *explainer) mark(ref store.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dirty == nil {
		x.dirty = map[store.Ref]struct{}{}
	}
	x.dirty[ref] = struct{}{}
}

// done ends the turn of a plugin. The last one returns what is to be written.
func (x *explainer) done() (write []store.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.jobs--; x.jobs > 0 {
		return nil
	}
	for ref := range x.dirty {
		write = append(write, ref)
	}
	x.dirty = nil
	return write
}
