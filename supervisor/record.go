package supervisor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// recordQueue is how many events may wait for a client that records: a burst of pods fits.
const recordQueue = 512

// RecordFilter picks the events that are recorded. What is empty picks everything.
type RecordFilter struct {
	// Namespace and Pod are names.
	Namespace, Pod string
	// Values leaves the values of variables and what looks like a secret in the events.
	Values bool
}

func (f RecordFilter) picks(pod *api.PodSandbox) bool {
	return (f.Namespace == "" || f.Namespace == pod.GetNamespace()) && (f.Pod == "" || f.Pod == pod.GetName())
}

// recorder is one client that records.
type recorder struct {
	filter RecordFilter
	events chan *recording.Event
	lost   atomic.Uint64
}

// recorders are those who record now. Safe for concurrent use; the zero value is ready for use.
type recorders struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*recorder] // replaced, never written into; nil when nobody records
}

func (r *recorders) change(f func([]*recorder) []*recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var now []*recorder
	if old := r.list.Load(); old != nil {
		now = slices.Clone(*old)
	}
	if now = f(now); len(now) == 0 {
		r.list.Store(nil)
		return
	}
	r.list.Store(&now)
}

// take gives an event to those who record. It never blocks, and costs one load when nobody does. The messages are shared and must not be changed.
func (r *recorders) take(e api.Event, pod *api.PodSandbox, ctr *api.Container, resources *api.LinuxResources) {
	list := r.list.Load()
	if list == nil {
		return
	}
	ev := &recording.Event{Name: e.PrettyName(), Time: time.Now(), Pod: pod, Container: ctr, Resources: resources}
	for _, rec := range *list {
		if !rec.filter.picks(pod) {
			continue
		}
		select {
		case rec.events <- ev:
		default:
			rec.lost.Add(1)
		}
	}
}

// Record calls each for the state that is known now, as the event Synchronize, and then for each event of the runtime, until ctx ends or each returns an error. lost is how many events were lost
// before this one because each was slow. It is a manual action of uid. Safe for concurrent use.
func (s *Supervisor) Record(ctx context.Context, f RecordFilter, uid uint32, each func(ev *recording.Event, lost uint64) error) error {
	action := "record"
	if f.Values {
		action = "record with values"
	}
	s.emit(ManualAction{Action: action, UID: uid})
	s.noteManual("", action, &uid, 0)
	rec := &recorder{filter: f, events: make(chan *recording.Event, recordQueue)}
	s.recorders.change(func(l []*recorder) []*recorder { return append(l, rec) })
	defer s.recorders.change(func(l []*recorder) []*recorder {
		return slices.DeleteFunc(l, func(r *recorder) bool { return r == rec })
	})
	give := func(ev *recording.Event) error {
		if !f.Values {
			ev = recording.Redact(ev)
		}
		return each(ev, rec.lost.Swap(0))
	}
	told := s.opts.Computing()
	defer told()
	state := &recording.Event{Name: "Synchronize", Time: time.Now()}
	pods, ctrs := s.store.All()
	for e := range pods {
		if f.picks(e.Pod) {
			state.Pods = append(state.Pods, e.Pod)
		}
	}
	for e := range ctrs {
		if f.picks(e.Pod) {
			state.Containers = append(state.Containers, e.Container)
		}
	}
	if err := give(state); err != nil {
		return err
	}
	told()
	for {
		select {
		case ev := <-rec.events:
			if err := give(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
