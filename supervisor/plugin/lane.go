package plugin

import (
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// knowledge is what the plugin has been told of a pod or container in this epoch. Absent: nothing.
type knowledge uint8

const (
	seen     knowledge = iota + 1 // in the snapshot, or created with the plugin's work
	released                      // the plugin was asked at its creation but its work was not used: it is told only what lets it free what it holds
)

// flight is the call that runs in the plugin.
type flight struct {
	Request
	abandoned bool // its caller has been answered
	cut       bool // its share was shorter than its timeout
	timeout   int64
}

// lane is the part of the state that is about deliveries.
type lane struct {
	mask     api.EventMask
	ctrs     map[Ref]knowledge
	pods     map[string]knowledge
	inflight *flight
	asking   *Request  // the guard was asked about it and has not answered
	waiting  []Request // blocking calls, oldest first
	queue    []Request // notifications, oldest first
}

func (l *lane) init() {
	l.mask = api.ValidEvents
	l.ctrs = map[Ref]knowledge{}
	l.pods = map[string]knowledge{}
}

// beginEpoch forgets what the plugin knew: the snapshot being taken now tells it anew.
func (l *lane) beginEpoch() {
	clear(l.ctrs)
	clear(l.pods)
}

func (l *lane) known(mask api.EventMask, refs []Ref) {
	l.mask = mask
	for _, r := range refs {
		l.see(r)
	}
}

func (l *lane) see(r Ref) {
	l.pods[r.Pod] = seen
	if r.Container != "" {
		l.ctrs[r] = seen
	}
}

func (l *lane) release(r Ref) {
	if r.Container != "" {
		l.ctrs[r] = released
	}
	if _, ok := l.pods[r.Pod]; !ok {
		l.pods[r.Pod] = released
	}
}

func (l *lane) forget(r Ref) {
	if r.Container != "" {
		delete(l.ctrs, r)
		return
	}
	delete(l.pods, r.Pod)
	for c := range l.ctrs {
		if c.Pod == r.Pod {
			delete(l.ctrs, c)
		}
	}
}

// withheld reports whether the plugin must not hear of the event because it does not know what it is about.
func (l *lane) withheld(r Request) bool {
	switch r.Event {
	case api.Event_CREATE_CONTAINER, api.Event_RUN_POD_SANDBOX, api.Event_VALIDATE_CONTAINER_ADJUSTMENT:
		return false
	default:
	}
	var k knowledge
	if r.Ref.Container != "" {
		if !l.mask.IsSet(api.Event_CREATE_CONTAINER) {
			return false
		}
		k = l.ctrs[r.Ref]
	} else {
		if !l.mask.IsSet(api.Event_RUN_POD_SANDBOX) {
			return false
		}
		k = l.pods[r.Ref.Pod]
	}
	switch k {
	case seen:
		return false
	case released:
		return !frees(r.Event)
	default:
		return true
	}
}

// frees reports whether the event lets a plugin free what it holds for a pod or container.
func frees(e api.Event) bool {
	switch e {
	case api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX:
		return true
	default:
		return false
	}
}

// begins reports whether the event tells the plugin of something new.
func begins(e api.Event) bool {
	return e == api.Event_CREATE_CONTAINER || e == api.Event_RUN_POD_SANDBOX
}

// delivered notes what the plugin knows after a call that was sent ended with o.
func (l *lane) delivered(r Request, o breaker.Outcome) {
	switch {
	case begins(r.Event) && o == breaker.OutcomeSuccess:
		l.see(r.Ref)
	case begins(r.Event):
		l.release(r.Ref)
	case r.Event == api.Event_REMOVE_CONTAINER || r.Event == api.Event_REMOVE_POD_SANDBOX:
		l.forget(r.Ref)
	}
}

// lost ends everything that was in the plugin when its process went, and returns the pod whose call was in flight.
func (l *lane) lost(m *Machine) (podKey string) {
	if f := l.inflight; f != nil {
		l.inflight = nil
		podKey = f.PodKey
		if f.abandoned {
			m.emit(Back{ID: f.ID})
		} else {
			m.emit(Verdict{ID: f.ID, Outcome: breaker.OutcomeUnavailable})
			m.emit(Back{ID: f.ID})
			m.emit(Answer{ID: f.ID, Result: Result{Delivered: true, Outcome: breaker.OutcomeUnavailable}})
		}
	}
	l.beginEpoch()
	return podKey
}

// next takes the call that is to be sent next: the oldest blocking call, but that pod's queued notifications first; else the oldest notification.
func (l *lane) next() (Request, bool) {
	if len(l.waiting) > 0 {
		w := l.waiting[0]
		if i := slices.IndexFunc(l.queue, func(q Request) bool { return q.Ref.Pod == w.Ref.Pod }); i >= 0 {
			q := l.queue[i]
			l.queue = slices.Delete(l.queue, i, i+1)
			return q, true
		}
		l.waiting = slices.Delete(l.waiting, 0, 1)
		return w, true
	}
	if len(l.queue) > 0 {
		q := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		return q, true
	}
	return Request{}, false
}
