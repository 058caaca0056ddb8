package supervisor

import (
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// packedAside is how many pods and containers are packed on a processor beside the one of the events: 10 ms of encoding. A node that creates a hundred containers a second has fewer.
const packedAside = 2000

// restBetween is how long Rest pauses when it has encoded for a third of a millisecond. Go's scheduler looks for what has come on sockets when nothing else is to run.
const restBetween = time.Millisecond

// Rest lets go of what is kept at hand for events that have not come for a while: what is known of pods and containers is then kept encoded. It returns how many bytes that made. Call it
// every second or two. Safe for concurrent use.
func (s *Supervisor) Rest() int {
	if s.store.Warm() > packedAside {
		defer s.opts.Computing()()
		return s.store.Pack(nil)
	}
	return s.store.Pack(func() { time.Sleep(restBetween) }) //nolint:forbidigo // a millisecond for which nobody waits, and that ends by itself
}

// forgetContainer drops a container that is gone.
func (s *Supervisor) forgetContainer(ref store.Ref) {
	s.store.RemoveContainer(ref)
	s.history.forget(ref)
}

// forgetPod drops a pod that is gone, with what is left of its containers.
func (s *Supervisor) forgetPod(id string) {
	if _, ctrs, ok := s.store.RemovePod(id); ok {
		s.history.forget(store.Ref{Pod: id})
		for _, c := range ctrs {
			s.history.forget(c.Ref)
		}
	}
}

// ends reports whether the event is the last of its pod or container.
func ends(e api.Event) bool {
	return e == api.Event_REMOVE_CONTAINER || e == api.Event_REMOVE_POD_SANDBOX
}

// forget drops what a last event is about, before the event is relayed: a snapshot that is taken meanwhile must not contain what no later event will end.
func (v *visit) forget(sel []selected) {
	for _, s := range sel {
		if v.sup.toldMissed(s.h, v.ref) {
			v.quiet = append(v.quiet, s.h)
		}
	}
	if v.ref.IsPod() {
		v.sup.forgetPod(v.ref.Pod)
	} else {
		v.sup.forgetContainer(v.ref)
	}
}

// forgotten lets the plugins' machines drop what they remember of the pod or container, also those that do not subscribe to its removal.
func (v *visit) forgotten(sel []selected) {
	for _, s := range sel {
		s.h.post(plugin.Removed{Ref: plugin.Ref(v.ref)})
	}
}

// stranger returns what drops a pod that only the end of something made known: no later event would end it.
func (s *Supervisor) stranger(ref store.Ref) (drop func()) {
	if _, known := s.store.Pod(ref.Pod); known || ref.Pod == "" {
		return func() {}
	}
	return func() { s.forgetPod(ref.Pod) }
}

// endsSomething reports whether the event is about the end of a pod or container.
func endsSomething(e api.Event) bool {
	return ends(e) || e == api.Event_STOP_CONTAINER || e == api.Event_STOP_POD_SANDBOX
}
