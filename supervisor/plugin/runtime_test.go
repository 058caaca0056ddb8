package plugin_test

import (
	"slices"
	"strconv"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// ---- the runtime of the world

// addPod starts the life of a pod with n containers. A pod that stays ends with running containers, and one that has stopped if there are several.
func (w *world) addPod(n int, stays bool) *pod {
	w.nextPod++
	p := &pod{id: "p" + strconv.Itoa(w.nextPod), ctrs: map[string]*ctr{}}
	p.ops = append(p.ops, op{event: api.Event_RUN_POD_SANDBOX})
	for i := range n {
		id := "c" + strconv.Itoa(i+1)
		p.ops = append(p.ops, op{api.Event_CREATE_CONTAINER, id}, op{api.Event_POST_CREATE_CONTAINER, id}, op{api.Event_START_CONTAINER, id}, op{api.Event_POST_START_CONTAINER, id})
	}
	if stays && n > 1 {
		p.ops = append(p.ops, op{api.Event_STOP_CONTAINER, "c1"})
	}
	if !stays {
		for i := range n {
			id := "c" + strconv.Itoa(i+1)
			p.ops = append(p.ops, op{api.Event_UPDATE_CONTAINER, id}, op{api.Event_POST_UPDATE_CONTAINER, id}, op{api.Event_STOP_CONTAINER, id}, op{api.Event_REMOVE_CONTAINER, id})
		}
		p.ops = append(p.ops, op{event: api.Event_STOP_POD_SANDBOX}, op{event: api.Event_REMOVE_POD_SANDBOX})
	}
	w.pods = append(w.pods, p)
	w.advance(p)
	return p
}

// advance does the pod's next events up to one that the runtime waits for.
func (w *world) advance(p *pod) {
	for w.connected && len(p.ops) > 0 && p.pending == 0 && w.err == nil {
		o := p.ops[0]
		p.ops = p.ops[1:]
		w.observe(p, o)
		if w.mask.IsSet(o.event) {
			w.call(p, o)
		} else if x := p.ctrs[o.ctr]; x != nil && o.event == api.Event_CREATE_CONTAINER {
			x.turn, x.created = true, true
		} else if x != nil && o.event == api.Event_STOP_CONTAINER {
			x.stopped = true
		} else if o.event == api.Event_RUN_POD_SANDBOX {
			p.turn = true
		}
		switch o.event {
		case api.Event_REMOVE_CONTAINER:
			delete(p.ctrs, o.ctr)
			w.input(plugin.Removed{Ref: plugin.Ref{Pod: p.id, Container: o.ctr}})
		case api.Event_REMOVE_POD_SANDBOX:
			w.pods = slices.DeleteFunc(w.pods, func(x *pod) bool { return x == p })
			w.input(plugin.Removed{Ref: plugin.Ref{Pod: p.id}})
		default:
		}
	}
}

// observe is what the store learns before the plugin does. A removal leaves it first, so that no snapshot after it tells of what is gone.
func (w *world) observe(p *pod, o op) {
	switch o.event {
	case api.Event_RUN_POD_SANDBOX:
		p.exists = true
	case api.Event_CREATE_CONTAINER:
		p.ctrs[o.ctr] = &ctr{exists: true}
	case api.Event_REMOVE_CONTAINER:
		p.ctrs[o.ctr].exists = false
	case api.Event_REMOVE_POD_SANDBOX:
		p.exists = false
	default:
	}
}

func (w *world) call(p *pod, o op) {
	w.nextCall++
	r := plugin.Request{
		ID: w.nextCall, Event: o.event, Ref: plugin.Ref{Pod: p.id, Container: o.ctr}, PodKey: "uid-" + p.id,
		Blocking: !queued(o.event), Timeout: 200 * time.Millisecond, Overdue: 2 * time.Second,
	}
	if r.Blocking {
		r.Deadline = w.now.Add(w.millis(20, 250))
		if w.calm {
			r.Deadline = w.now.Add(r.Timeout)
		}
		r.Until = r.Deadline.Add(w.millis(-50, 1500))
		p.pending = r.ID
	}
	w.calls[r.ID] = &worldCall{Request: r, pod: p, op: o, waited: w.m.Warming()}
	w.input(plugin.Call{Request: r})
}

// flood queues many notifications of one pod at once.
func (w *world) flood() {
	for range plugin.QueueLimit + 10 {
		w.nextCall++
		r := plugin.Request{ID: w.nextCall, Event: api.Event_POST_UPDATE_POD_SANDBOX, Ref: plugin.Ref{Pod: "flood"}, Timeout: 200 * time.Millisecond, Overdue: 2 * time.Second}
		w.calls[r.ID] = &worldCall{Request: r}
		w.input(plugin.Call{Request: r})
	}
}

func (w *world) connect() {
	if w.connected {
		return
	}
	w.connected = true
	w.session++
	w.vanish()
	w.input(plugin.RuntimeUp{Session: w.session})
	for _, p := range slices.Clone(w.pods) {
		w.advance(p)
	}
}

// disconnect ends the session. The runtime drops what it waited for: those events are over for it.
func (w *world) disconnect() {
	if !w.connected {
		return
	}
	w.connected = false
	cancel := func() {
		for _, p := range slices.Clone(w.pods) {
			if p.pending != 0 {
				w.input(plugin.Cancel{ID: p.pending})
			}
		}
	}
	if w.IntN(2) == 0 {
		cancel()
		w.input(plugin.RuntimeDown{})
	} else {
		w.input(plugin.RuntimeDown{})
		cancel()
	}
}

// disturb does one thing that somebody or something might do.
func (w *world) disturb() {
	p := w.proc
	switch w.IntN(40) {
	case 0:
		if p.inc != 0 && p.launched {
			w.gone(p.inc)
		}
	case 1:
		if p.inc != 0 && p.launched && !p.leaving {
			w.input(plugin.ConnectionLost{Inc: p.inc})
		}
	case 2:
		if p.inc != 0 && p.launched {
			w.input(plugin.HealthFailed{Inc: p.inc})
		}
	case 3:
		w.disconnect()
		w.after(w.millis(0, 3000), w.connect)
	case 4:
		w.input(plugin.Restart{})
	case 5:
		w.disabled = true
		w.input(plugin.Disable{})
	case 6:
		w.disabled = false
		w.input(plugin.Enable{})
	case 7:
		w.guard.forced = true
		w.input(plugin.Opened{Manual: true})
	case 8:
		w.reset()
	case 9:
		if w.IntN(3) == 0 {
			w.flood()
		}
	case 10:
		w.session++
		if w.connected { // the runtime's state is told again, without an end in between
			w.input(plugin.RuntimeUp{Session: w.session})
		}
	case 11, 12: // inputs of the past
		if p.inc > 1 {
			old := p.inc - 1
			for _, in := range []plugin.Input{
				plugin.Exited{Inc: old},
				plugin.LaunchFailed{Inc: old},
				plugin.Launched{Inc: old},
				plugin.ConnectionLost{Inc: old},
				plugin.HealthFailed{Inc: old},
				plugin.HealthOK{Inc: old},
				plugin.Synced{Inc: old, Sync: 1},
				plugin.SyncFailed{Inc: old, Sync: 1},
				plugin.Returned{Inc: old, ID: w.nextCall},
				plugin.Timer{Kind: plugin.Retry, Inc: old},
				plugin.Timer{Kind: plugin.Stable, Inc: old},
				plugin.Timer{Kind: plugin.Resync, Inc: old},
			} {
				phase := w.m.Phase()
				w.input(in)
				if w.m.Phase() != phase {
					w.fault("%T of an older incarnation changed the phase", in)
				}
			}
		}
	case 13:
		if p.inc != 0 && p.launched {
			w.input(plugin.HealthOK{Inc: p.inc})
		}
	case 14: // a conflict
		if len(w.pods) > 0 {
			q := w.pods[w.IntN(len(w.pods))]
			for _, id := range sortedKeys(q.ctrs) {
				ref := plugin.Ref{Pod: q.id, Container: id}
				if w.proc.knows[ref] && q.ctrs[id].created {
					w.input(plugin.Dropped{Ref: ref})
					break
				}
			}
		}
	case 15, 16:
		w.input(plugin.Replace{})
	case 17:
		w.input(plugin.Reconfigure{Restart: w.IntN(3) == 0})
	default:
		w.addPod(w.IntN(4), w.IntN(5) == 0)
	}
}

func (w *world) reset() {
	was := w.guard.open || w.guard.forced
	w.guard = guard{down: w.guard.down}
	if was {
		w.input(plugin.Reset{})
	}
}

// live runs the world for n disturbances, then lets it calm down and compares what the plugin knows with what there is.
func (w *world) live(n int) error {
	w.input(plugin.Start{Disabled: w.IntN(8) == 0})
	w.disabled = w.m.Phase() == plugin.Disabled
	w.after(w.millis(0, 2000), w.connect)
	for range n {
		w.disturb()
		w.run(w.millis(0, 400))
		if w.IntN(30) == 0 {
			w.run(w.millis(0, 15_000))
		}
		if w.err != nil {
			return w.err
		}
	}
	w.settle()
	for range 3 {
		w.update()
		w.compare()
		w.lose()
	}
	w.compare()
	if w.err == nil {
		w.stop()
	}
	return w.err
}

// settle ends all faults and gives everything the time to recover.
func (w *world) settle() {
	w.calm = true
	for _, p := range w.procs {
		p.hung, p.broken = false, false
	}
	w.connect()
	w.reset()
	if w.disabled {
		w.input(plugin.Enable{})
	}
	w.run(10 * time.Minute)
	if phase := w.m.Phase(); phase != plugin.Ready && w.err == nil {
		w.fault("ten minutes after the last fault the plugin is %s", phase)
	}
	if left := w.w.unanswered(); len(left) > 0 && w.err == nil {
		w.fault("calls without an answer: %v", left)
	}
}

// update replaces the plugin while pods come and go, and at times while its breaker is open by hand.
func (w *world) update() {
	before, in := w.m.Incarnation(), plugin.Input(plugin.Replace{})
	if w.IntN(3) == 0 {
		w.guard.forced = true
		w.input(plugin.Opened{Manual: true})
		defer func() {
			w.reset()
			w.run(time.Minute)
		}()
	}
	w.addPod(2, false)
	w.refuses = w.IntN(2) == 0
	stays, may := false, false
	if w.IntN(2) == 0 {
		in, stays = plugin.Reconfigure{}, w.inPlace && !w.refuses
		may = stays && w.cfg.Share > 0 // where it is told the state slowly, a successor is tried instead
	}
	w.input(in)
	for range 4 {
		w.addPod(1+w.IntN(2), w.IntN(2) == 0)
		w.run(w.millis(0, 600))
	}
	w.run(time.Minute)
	if ((w.m.Incarnation() == before) != stays && !may || w.m.Phase() != plugin.Ready) && w.err == nil {
		w.fault("a minute after an update incarnation #%d is %s, before it was #%d", w.m.Incarnation(), w.m.Phase(), before)
	}
}

// compare checks the end of all faults: a new container gets the plugin's work, and the plugin knows what there is.
func (w *world) compare() {
	fresh := w.addPod(1, true)
	w.run(time.Minute)
	ref := plugin.Ref{Pod: fresh.id, Container: "c1"}
	if w.err == nil && (!w.proc.knows[ref] || w.proc.limited[ref]) {
		w.fault("a container that is created at rest does not get the plugin's work")
	}
	exists := map[plugin.Ref]bool{}
	for _, p := range w.pods {
		if p.exists {
			exists[plugin.Ref{Pod: p.id}] = true
		}
		for id, c := range p.ctrs {
			exists[plugin.Ref{Pod: p.id, Container: id}] = c.exists
			if reason, ok := w.proc.excused[plugin.Ref{Pod: p.id, Container: id}]; c.exists && !c.stopped && !w.proc.knows[plugin.Ref{Pod: p.id, Container: id}] && w.err == nil {
				if !ok || reason == breaker.ReasonBreakerOpen || reason == breaker.ReasonQueueOverflow || reason == breaker.ReasonNotReady && w.inPlace {
					w.fault("the plugin is never told of %s/%s (%v %s)", p.id, id, ok, reason)
				}
			}
		}
	}
	if !w.mask.IsSet(api.Event_REMOVE_CONTAINER) {
		return
	}
	for r := range w.proc.knows {
		if !exists[r] && !w.proc.ghosts[r] && w.err == nil {
			w.fault("the plugin believes in %v, which is gone", r)
		}
	}
}

func (w *world) stop() {
	w.input(plugin.Stop{})
	w.run(time.Minute)
	if phase := w.m.Phase(); phase != plugin.Stopped || len(w.procs) > 0 {
		w.fault("a minute after the stop the plugin is %s", phase)
	}
	w.input(plugin.Enable{})
	w.input(plugin.Restart{})
	w.input(plugin.Disable{})
	w.input(plugin.RuntimeUp{Session: w.session + 1})
	w.connected = true
	w.addPod(2, true)
	w.run(10 * time.Minute)
	if w.m.Phase() != plugin.Stopped {
		w.fault("a stopped plugin came back")
	}
	if left := w.w.unanswered(); len(left) > 0 {
		w.fault("calls without an answer: %v", left)
	}
}
