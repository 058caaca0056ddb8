package supervisor

import (
	"cmp"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// Reasons for missing work that no call explains.
const (
	reasonSupervisorDown = "supervisor_down" // the container was created while the supervisor was away
	reasonBeforeInstall  = "before_install"  // it was created before the supervisor, or the plugin, was installed
	reasonStateLost      = "state_lost"      // nobody knows: what was remembered of it is lost
)

// history is what is remembered across restarts: for each pod and container which plugins were selected, and what became of their work. It finds the containers that were created while nobody looked.
type history struct {
	db *state.DB

	// saving is held from reading an entry to handing it on: else of two plugins that are recorded at once an older view could replace a newer one. Taken before the locks of
	// store and db, neither of which waits for anything.
	saving sync.Mutex

	putting  sync.WaitGroup // the goroutine that hands on what was decided, as long as there is some
	queueing sync.Mutex     // guards the two below
	queue    []store.Ref    // what it hands on next
	busy     bool           // there is that goroutine

	mu          sync.Mutex
	loaded      map[store.Ref]state.Record // of the run before; nil once the runtime has told what exists
	names       []string                   // of the plugins of the run before
	first       bool                       // there was no run before, and the runtime has not told yet what exists
	lost        bool                       // what the run before remembered is lost, or some of it, and the runtime has not told yet what exists
	leavers     []leaver                   // who had opted out of what, in the run before
	unexplained map[store.Ref]string       // containers found in a snapshot → why a plugin without a record for them missed them
}

// leaver is a plugin that wants to hear no more of a pod or container.
type leaver struct {
	plugin string
	ref    store.Ref
}

// restoreOptOuts takes back the selections of plugins that had opted out before the restart.
func (s *Supervisor) restoreOptOuts() {
	s.history.mu.Lock()
	leavers := s.history.leavers
	s.history.leavers = nil
	s.history.mu.Unlock()
	for _, l := range leavers {
		s.leave(l.plugin, l.ref)
	}
}

func newHistory(l state.Loaded, db *state.DB) *history {
	h := &history{db: db, loaded: make(map[store.Ref]state.Record, len(l.Records)), first: l.FirstRun, lost: l.Lost, unexplained: map[store.Ref]string{}}
	_, before := LastGood(l)
	for _, g := range before {
		h.names = append(h.names, g.Name)
	}
	for _, r := range l.Records {
		h.loaded[store.Ref{Pod: r.Pod, Container: r.Container}] = r
	}
	return h
}

// synchronized takes note of containers that the runtime told of and that nobody saw being created.
// It reports whether the runtime told for the first time.
func (h *history) synchronized(s *Supervisor, d store.Diff) (begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begins = h.loaded != nil
	for _, p := range d.NewPods {
		ref := store.Ref{Pod: p.GetId()}
		rec := h.loaded[ref]
		for name := range rec.Plugins {
			h.leavers = append(h.leavers, leaver{name, ref})
		}
		if rec.Pinned { // a record of an older version has none
			s.store.SetPins(ref, s.plan().pinsOf(rec))
		}
		delete(h.loaded, ref)
	}
	for _, c := range d.NewContainers {
		ref := s.store.Resolve(nil, c)
		rec, known := h.loaded[ref]
		delete(h.loaded, ref)
		for name, p := range rec.Plugins {
			if p.Outcome == outcomeOptedOut {
				h.leavers = append(h.leavers, leaver{name, ref})
			}
		}
		switch {
		case known: // what a plugin has no record of, it was not there for, unless nobody was
			h.unexplained[ref] = cmp.Or(rec.Unexplained, reasonBeforeInstall)
			if rec.Pinned {
				s.store.SetPins(ref, s.plan().pinsOf(rec))
			}
			for name, p := range rec.Plugins {
				if s.plan().byName[name] != nil {
					s.store.SetWork(ref, store.Work{Plugin: name, Outcome: p.Outcome, Reason: p.Reason, At: p.At, Missed: p.Reason != ""})
				}
			}
		case h.first:
			h.unexplained[ref] = reasonBeforeInstall
		case h.lost:
			h.unexplained[ref] = reasonStateLost
		default:
			h.unexplained[ref] = reasonSupervisorDown
		}
	}
	if h.db != nil {
		for ref := range h.loaded { // gone while we were away
			h.db.Delete(ref.Pod, ref.Container)
		}
	}
	h.loaded, h.first, h.lost = nil, false, false
	return begins
}

// before notes that a container is older than a plugin that is new.
func (h *history) before(ref store.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unexplained[ref] == "" {
		h.unexplained[ref] = reasonBeforeInstall
	}
}

func (s *Supervisor) hasWork(ref store.Ref, name string) bool {
	for _, w := range s.store.Work(ref) {
		if w.Plugin == name {
			return true
		}
	}
	return false
}

// decided remembers what was decided about pods or containers, and what became of the plugins' work on them. That is done aside: the runtime need not wait for it.
func (h *history) decided(s *Supervisor, refs ...store.Ref) {
	if h.db == nil || len(refs) == 0 {
		return
	}
	h.queueing.Lock()
	defer h.queueing.Unlock()
	h.queue = append(h.queue, refs...)
	if !h.busy {
		h.busy = true
		h.putting.Go(func() { h.put(s) })
	}
}

// handedOnBetween is how many decisions are handed on between events without a processor of their own: a millisecond.
const handedOnBetween = 100

// put hands on what was decided until there is no more.
func (h *history) put(s *Supervisor) {
	for {
		h.queueing.Lock()
		refs := h.queue
		h.queue = nil
		h.busy = len(refs) > 0
		h.queueing.Unlock()
		if len(refs) == 0 {
			return
		}
		done := func() {}
		if len(refs) > handedOnBetween {
			done = s.opts.Computing()
		}
		for _, ref := range refs {
			h.saving.Lock()
			if e, ok := s.store.Get(ref); ok {
				h.putLocked(s, e)
			}
			h.saving.Unlock()
		}
		done()
	}
}

// settle returns when everything that was decided before is handed on.
func (h *history) settle() { h.putting.Wait() }

func (h *history) putLocked(s *Supervisor, e store.Entry) {
	r := state.Record{
		Pod: e.Ref.Pod, Container: e.Ref.Container, Namespace: e.Pod.GetNamespace(), PodName: e.Pod.GetName(), PodUID: e.Pod.GetUid(),
		ContainerName: e.Container.GetName(), Pinned: e.Pinned, Pins: recordPins(e.Pins), Unexplained: h.why(e.Ref),
	}
	work := e.Work
	if e.Ref.IsPod() {
		for _, name := range s.store.Left(e.Ref.Pod) {
			work = append(work, store.Work{Plugin: name, Outcome: outcomeOptedOut, At: time.Now()})
		}
	}
	if len(work) > 0 {
		r.Plugins = make(map[string]state.PluginRecord, len(work))
		for _, w := range work {
			r.Plugins[w.Plugin] = state.PluginRecord{Outcome: w.Outcome, Reason: w.Reason, At: w.At}
		}
	}
	h.db.Put(r)
}

// why says why a plugin without a record missed the container; empty: there is no such plugin.
func (h *history) why(ref store.Ref) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unexplained[ref]
}

// forget drops a pod or container that is gone.
func (h *history) forget(ref store.Ref) {
	h.mu.Lock()
	delete(h.unexplained, ref)
	h.mu.Unlock()
	if h.db == nil {
		return
	}
	h.saving.Lock() // what is about to be recorded of it must not come after this
	defer h.saving.Unlock()
	h.db.Delete(ref.Pod, ref.Container)
}
