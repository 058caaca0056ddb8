package plugin_test

import (
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// ---- what the runtime of the world loses

// vanish is the runtime having lost pods and containers while it was away. The machine is told of each of them, whether the plugin knows it or not.
func (w *world) vanish() {
	clear(w.vanished)
	for _, p := range slices.Clone(w.pods) {
		whole := w.IntN(4) == 0
		for _, id := range sortedKeys(p.ctrs) {
			if whole || w.IntN(8) == 0 && len(p.ops) == 0 {
				delete(p.ctrs, id)
				w.vanishes(plugin.Ref{Pod: p.id, Container: id}, api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER)
			}
		}
		if whole {
			p.exists, p.ops, p.pending = false, nil, 0
			w.pods = slices.DeleteFunc(w.pods, func(x *pod) bool { return x == p })
			w.vanishes(plugin.Ref{Pod: p.id}, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX)
		}
	}
}

func (w *world) vanishes(r plugin.Ref, events ...api.Event) {
	for _, e := range events {
		if !w.mask.IsSet(e) {
			continue
		}
		w.nextCall++
		c := plugin.Request{ID: w.nextCall, Event: e, Ref: r, PodKey: "uid-" + r.Pod, Timeout: 200 * time.Millisecond, Overdue: 2 * time.Second, Vanished: true}
		w.calls[c.ID] = &worldCall{Request: c}
		w.input(plugin.Call{Request: c})
		w.vanished[r] = true
	}
}

// unaware checks that an incarnation that is told the state has heard of the end of all that vanished, unless the guard kept that from it or it took too long.
func (w *world) unaware(p *process) {
	if p != w.proc || !w.mask.IsSet(api.Event_REMOVE_CONTAINER) {
		return
	}
	for r := range p.knows {
		if _, refused := p.ghosts[r]; w.vanished[r] && !refused && r.Container != "" {
			w.fault("%v vanished, and the plugin is synchronized without having heard of it", r)
		}
	}
}

// lose lets the runtime lose some of what is there. Nothing else happens, so the same incarnation of a plugin that may be told again comes back.
func (w *world) lose() {
	before := w.m.Incarnation()
	w.addPod(3, true)
	w.run(time.Minute)
	w.disconnect()
	w.run(w.millis(0, 30_000))
	w.connect()
	w.run(time.Minute)
	if (w.inPlace && w.m.Incarnation() != before || w.m.Phase() != plugin.Ready) && w.err == nil {
		w.fault("a minute after the runtime came back incarnation #%d is %s, before it was #%d", w.m.Incarnation(), w.m.Phase(), before)
	}
}
