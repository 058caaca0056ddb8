package plugin

import (
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// VanishedLimit is how long a plugin is told of what vanished with a runtime before it is synchronized all the same: what it has not been told by then it sees from the snapshot, and
// new containers must not wait for a slow plugin to hear of hundreds of old ones. A plugin that needs 10 ms for a call hears of 250 containers in that time.
const VanishedLimit = 10 * time.Second

// ending is a call that is kept for a plugin until it is synchronized again.
type ending struct {
	Request
	real bool // the runtime sent the event before it was lost
}

// noteVanished takes a call about something that the runtime does not list any more. An incarnation that has never been told anything has nothing to hear of it.
func (m *Machine) noteVanished(r Request) {
	l := &m.life
	if l.phase != Ready && l.phase != Syncing || !l.configured && !l.syncing {
		m.emit(Answer{ID: r.ID})
		return
	}
	m.lane.gone = append(m.lane.gone, ending{Request: r})
}

// keepEnds keeps the queued notifications that let the plugin free something: the runtime that sent them is gone, what they say stays true.
func (m *Machine) keepEnds() {
	l := &m.lane
	l.queue = slices.DeleteFunc(l.queue, func(q item) bool {
		keep := q.ID != 0 && ends(q.Event)
		if keep {
			q.Vanished = true
			l.gone = append(l.gone, ending{Request: q.Request, real: true})
		}
		return keep
	})
}

// tellVanished gives the plugin the next of what vanished and it has seen. It reports whether it waits for the answer: the plugin is synchronized when it has heard of all.
func (m *Machine) tellVanished() bool {
	l := &m.lane
	if len(l.gone) > 0 && l.asking != nil {
		return true
	}
	for len(l.gone) > 0 {
		e := l.gone[0]
		l.gone = l.gone[1:]
		r := e.Request
		switch {
		case e.real && l.withheld(r), !e.real && !l.owed(r):
			m.emit(Answer{ID: r.ID})
		case !m.now.Before(m.life.tellUntil):
			m.refuse(r, breaker.ReasonNotReady)
		default:
			l.asking = &ask{Request: r}
			m.emit(Admit{ID: r.ID, PodKey: r.PodKey})
			return true
		}
	}
	l.gone = nil
	return false
}

// dropVanished: the incarnation that had seen it ends.
func (m *Machine) dropVanished() {
	for _, r := range m.lane.gone {
		m.emit(Answer{ID: r.ID})
	}
	m.lane.gone = nil
}

// owed reports whether the plugin has been told of what vanished, and not yet of this end of it.
func (l *lane) owed(r Request) bool {
	known := l.pods[r.Ref.Pod]
	if r.Ref.Container != "" {
		known = l.ctrs[r.Ref]
	}
	return known != 0 && (!stops(r.Event) || !l.stopped[r.Ref])
}

// stops reports whether the event says that a pod or container has stopped.
func stops(e api.Event) bool {
	return e == api.Event_STOP_CONTAINER || e == api.Event_STOP_POD_SANDBOX
}
