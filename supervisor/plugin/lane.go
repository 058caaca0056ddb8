package plugin

import (
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// knowledge is what the plugin has been told of a pod or container in this epoch. Absent: nothing.
type knowledge uint8

const (
	told     knowledge = iota + 1 // in the snapshot
	created                       // as a creation, with the plugin's work
	released                      // the plugin was asked at its creation but its work was not used: it is told only what lets it free what it holds
)

// flight is the call that runs in the plugin.
type flight struct {
	Request
	sent     time.Time
	limit    time.Duration // what it was given, from sent
	cut      bool          // that was notably shorter than the plugin's timeout
	answered bool          // its caller has been answered
	overtime bool          // the limit is over: the plugin is busy
}

// item is a call that waits, or a note to forget a ref when everything before it is done (then ID is 0).
type item struct {
	Request
	seq uint64 // order of arrival
}

// ask is the call that the guard was asked about.
type ask struct {
	Request
	canceled bool
}

// lane is the part of the state that is about deliveries.
type lane struct {
	mask     api.EventMask
	ctrs     map[Ref]knowledge
	pods     map[string]knowledge
	inflight *flight
	asking   *ask
	waiting  []item // blocking calls, oldest first
	queue    []item // notifications, oldest first
	arrivals uint64
	stopped  map[Ref]bool // told to have stopped
	gone     []ending     // about what vanished with the runtime, oldest first; told before the next synchronization
}

func (l *lane) init() {
	l.mask = api.ValidEvents
	l.ctrs = map[Ref]knowledge{}
	l.pods = map[string]knowledge{}
	l.stopped = map[Ref]bool{}
}

// item numbers a request in the order of arrival.
func (l *lane) item(r Request) item {
	l.arrivals++
	return item{Request: r, seq: l.arrivals}
}

// beginEpoch forgets what the plugin knew: the snapshot being taken now tells it anew.
func (l *lane) beginEpoch() {
	clear(l.ctrs)
	clear(l.pods)
	clear(l.stopped)
}

func (l *lane) known(mask api.EventMask, refs []Ref) {
	l.mask = mask
	for _, r := range refs {
		l.see(r, told)
	}
}

func (l *lane) see(r Ref, k knowledge) {
	l.pods[r.Pod] = k
	if r.Container != "" {
		l.ctrs[r] = k
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

// dropped: the work that the plugin did at the creation of r is not used. A container that it knows from a snapshot, or not at all, stays as it is.
func (l *lane) dropped(r Ref) {
	if l.ctrs[r] == created {
		l.ctrs[r] = released
	}
}

func (l *lane) forget(r Ref) {
	delete(l.stopped, r)
	if r.Container != "" {
		delete(l.ctrs, r)
		return
	}
	delete(l.pods, r.Pod)
	for c := range l.ctrs {
		if c.Pod == r.Pod {
			delete(l.stopped, c)
			delete(l.ctrs, c)
		}
	}
}

// withheld reports whether the plugin must not hear of the event because it does not know what it is about.
func (l *lane) withheld(r Request) bool {
	if begins(r.Event) || r.Event == api.Event_VALIDATE_CONTAINER_ADJUSTMENT {
		return false
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
	case told, created:
		return false
	case released:
		return !frees(r.Event)
	default:
		return true
	}
}

// frees reports whether the event lets a plugin free what it holds for a pod or container.
func frees(e api.Event) bool {
	return stops(e) || ends(e)
}

// begins reports whether the event tells the plugin of something new.
func begins(e api.Event) bool {
	return e == api.Event_CREATE_CONTAINER || e == api.Event_RUN_POD_SANDBOX
}

// ends reports whether nothing is told of a pod or container after the event.
func ends(e api.Event) bool {
	return e == api.Event_REMOVE_CONTAINER || e == api.Event_REMOVE_POD_SANDBOX
}

// delivered notes what the plugin knows after a call that was sent ended with o.
func (l *lane) delivered(r Request, o breaker.Outcome) {
	switch {
	case begins(r.Event) && o == breaker.OutcomeSuccess:
		l.see(r.Ref, created)
	case begins(r.Event):
		l.release(r.Ref)
	case ends(r.Event):
		l.forget(r.Ref)
	default:
		l.heard(r)
	}
}

// heard notes what a plugin that does not subscribe to beginnings has seen all the same.
func (l *lane) heard(r Request) {
	if r.Event == api.Event_VALIDATE_CONTAINER_ADJUSTMENT {
		return
	}
	if r.Ref.Container != "" && !l.mask.IsSet(api.Event_CREATE_CONTAINER) && l.ctrs[r.Ref] == 0 {
		l.ctrs[r.Ref] = told
	}
	if !l.mask.IsSet(api.Event_RUN_POD_SANDBOX) && l.pods[r.Ref.Pod] == 0 {
		l.pods[r.Ref.Pod] = told
	}
	if stops(r.Event) {
		l.stopped[r.Ref] = true
	}
}

// notSent notes what a call that was not sent means for what the plugin knows: after a removal nothing more is told, whatever became of it.
func (l *lane) notSent(r Request) {
	if ends(r.Event) {
		l.forget(r.Ref)
	}
}

// concerns reports whether a call is still under way that is about the pod of r.
func (l *lane) concerns(r Ref) bool {
	same := func(i item) bool { return i.Ref.Pod == r.Pod }
	return l.inflight != nil && l.inflight.Ref.Pod == r.Pod || l.asking != nil && l.asking.Ref.Pod == r.Pod ||
		slices.ContainsFunc(l.queue, same) || slices.ContainsFunc(l.waiting, same)
}

// takeWaiting removes the waiting call with this id.
func (l *lane) takeWaiting(id CallID) (Request, bool) {
	i := slices.IndexFunc(l.waiting, func(w item) bool { return w.ID == id })
	if i < 0 {
		return Request{}, false
	}
	r := l.waiting[i].Request
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return r, true
}

// next takes the call that is to be sent next: the oldest blocking call, but what was queued for that pod before it first; else the oldest notification.
func (l *lane) next() (Request, bool) {
	from, i := &l.queue, 0
	if len(l.waiting) > 0 {
		w := l.waiting[0]
		i = slices.IndexFunc(l.queue, func(q item) bool { return q.Ref.Pod == w.Ref.Pod && q.seq < w.seq })
		if i < 0 {
			from, i = &l.waiting, 0
		}
	}
	if len(*from) == 0 {
		return Request{}, false
	}
	r := (*from)[i].Request
	*from = slices.Delete(*from, i, i+1)
	return r, true
}
