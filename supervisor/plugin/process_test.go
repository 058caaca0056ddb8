package plugin_test

import (
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// ---- the guard

func (w *world) guardOpens() {
	if w.guard.open {
		return
	}
	w.guard.open, w.guard.until = true, w.now.Add(5*time.Second)
	after := 5 * time.Second
	if w.guard.down {
		after = 0
	}
	if !w.guard.forced {
		w.after(0, func() { w.input(plugin.Opened{After: after}) })
	}
}

func (w *world) verdict(e plugin.Verdict) {
	switch e.Outcome.Verdict() {
	case breaker.VerdictBad:
		if w.guard.failures++; w.guard.failures >= 3 {
			w.guardOpens()
		}
	case breaker.VerdictGood:
		w.guard.failures = 0
	case breaker.VerdictExcluded:
	}
}

func (w *world) admit(e plugin.Admit) plugin.Input {
	switch {
	case w.guard.forced:
		return plugin.Refused{ID: e.ID, Reason: breaker.ReasonBreakerOpen, Manual: true}
	case w.guard.open && (w.guard.down || w.now.Before(w.guard.until)):
		return plugin.Refused{ID: e.ID, Reason: breaker.ReasonBreakerOpen}
	case !w.calm && w.IntN(20) == 0:
		return plugin.Refused{ID: e.ID, Reason: breaker.ReasonQuarantined}
	}
	w.guard.open = false
	return plugin.Admitted{ID: e.ID}
}

// ---- the process

func (w *world) launch(inc plugin.Incarnation) {
	p := &process{inc: inc, knows: map[plugin.Ref]bool{}, stopped: map[plugin.Ref]bool{}, limited: map[plugin.Ref]bool{}, excused: map[plugin.Ref]breaker.Reason{}, ghosts: map[plugin.Ref]bool{}}
	w.procs[inc] = p
	if w.m.Incarnation() == inc {
		w.proc = p
	} else { // it warms up beside the one in service
		for _, c := range w.calls {
			c.waited = true
		}
	}
	fails := !w.calm && w.IntN(4) == 0
	p.broken = !w.calm && w.IntN(8) == 0
	w.after(w.millis(5, 400), func() {
		if w.procs[inc] != p || p.launched { // its launch was cancelled
			return
		}
		if fails {
			w.gone(inc)
			return
		}
		p.launched = true
		w.input(plugin.Launched{Inc: inc, InPlace: w.inPlace})
	})
}

// end is the process ending after a while, as it was told to.
func (w *world) end(inc plugin.Incarnation, d time.Duration) {
	if p := w.procs[inc]; p != nil {
		p.leaving = true
	}
	w.after(d, func() { w.gone(inc) })
}

func (w *world) gone(inc plugin.Incarnation) {
	p := w.procs[inc]
	if p == nil {
		return
	}
	delete(w.procs, inc)
	if w.proc == p {
		w.proc = &process{}
	}
	if p.launched {
		w.input(plugin.Exited{Inc: inc})
	} else {
		w.input(plugin.LaunchFailed{Inc: inc})
	}
}

// synchronize takes the snapshot now, as the supervisor does: what is being created is told as a creation unless the plugin's turn in it is over.
func (w *world) synchronize(e plugin.Synchronize) {
	proc := w.procs[e.Inc]
	if proc == nil {
		w.fault("incarnation #%d, which is gone, is synchronized", e.Inc)
		return
	}
	w.unaware(proc)
	var known []plugin.Ref
	knows := map[plugin.Ref]bool{}
	tell := func(r plugin.Ref) { known, knows[r] = append(known, r), true }
	for _, p := range w.pods {
		if p.exists && p.turn {
			tell(plugin.Ref{Pod: p.id})
		}
		for _, id := range sortedKeys(p.ctrs) {
			if c := p.ctrs[id]; c.exists && (c.created || c.turn) && !c.stopped {
				tell(plugin.Ref{Pod: p.id, Container: id})
			}
		}
	}
	// What the plugin does not learn from this snapshot, it may learn as a creation.
	proc.knows, proc.limited, proc.excused, proc.ghosts = knows, map[plugin.Ref]bool{}, map[plugin.Ref]breaker.Reason{}, map[plugin.Ref]bool{}
	fails := proc.broken || !w.calm && w.IntN(15) == 0
	w.after(w.millis(1, 900), func() {
		if w.procs[e.Inc] != proc {
			return
		}
		if fails {
			w.input(plugin.SyncFailed{Inc: e.Inc, Sync: e.Sync})
			return
		}
		if e.Again && w.refuses {
			w.input(plugin.SyncFailed{Inc: e.Inc, Sync: e.Sync, Refused: true})
			return
		}
		w.input(plugin.Synced{Inc: e.Inc, Sync: e.Sync, Mask: w.mask, Known: known})
	})
}

func sortedKeys(m map[string]*ctr) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// send is the plugin hearing of an event.
func (w *world) send(e plugin.Send) {
	c := w.calls[e.ID]
	if c == nil {
		w.fault("call %d is sent after its answer", e.ID)
		return
	}
	proc := w.proc
	if proc.inc != e.Inc {
		w.fault("call %d is sent to #%d, in service is #%d", e.ID, e.Inc, proc.inc)
		return
	}
	w.hears(c)
	outcome, takes := breaker.OutcomeSuccess, w.millis(0, 60)
	if !w.calm {
		switch w.IntN(12) {
		case 0:
			outcome = breaker.OutcomeError
		case 1:
			outcome = breaker.OutcomeRejected
		case 2:
			takes = w.millis(100, 1500) // late
		case 3:
			if w.IntN(4) == 0 {
				proc.hung = true
			}
		}
	}
	if proc.hung {
		return
	}
	inc := e.Inc
	w.after(takes, func() {
		if w.procs[inc] == proc {
			w.input(plugin.Returned{Inc: inc, ID: e.ID, Outcome: outcome})
		}
	})
}

// hears checks that what the plugin is told fits to what it was told before.
func (w *world) hears(c *worldCall) {
	p := w.proc
	if c.Vanished {
		w.parting++
	}
	if c.Event == api.Event_STOP_CONTAINER || c.Event == api.Event_STOP_POD_SANDBOX {
		if p.stopped[c.Ref] {
			w.fault("%v is stopped twice", c.Ref)
		}
		p.stopped[c.Ref] = true
	}
	switch c.Event {
	case api.Event_CREATE_CONTAINER, api.Event_RUN_POD_SANDBOX:
		if p.knows[c.Ref] {
			w.fault("%v is created although the plugin knows it", c.Ref)
		}
		p.knows[c.Ref] = true
		p.limited[c.Ref] = true // until the answer says success
		return
	default:
	}
	begins := api.Event_CREATE_CONTAINER
	if c.Ref.Container == "" {
		begins = api.Event_RUN_POD_SANDBOX
	}
	if c.Event == api.Event_REMOVE_CONTAINER || c.Event == api.Event_REMOVE_POD_SANDBOX {
		defer delete(p.knows, c.Ref)
	}
	if !w.mask.IsSet(begins) {
		return
	}
	if !p.knows[c.Ref] && (c.Ref.Container != "" || !w.knowsPart(c.Ref.Pod)) {
		w.fault("%s of %v, which the plugin does not know", c.Event.PrettyName(), c.Ref)
	}
	if p.limited[c.Ref] && c.Ref.Container != "" && strings.Contains(c.Event.PrettyName(), "Start") {
		w.fault("%s of %v, whose creation failed", c.Event.PrettyName(), c.Ref)
	}
}

// knowsPart reports whether the plugin was told of a container of the pod, and so of the pod.
func (w *world) knowsPart(pod string) bool {
	for r := range w.proc.knows {
		if r.Pod == pod {
			return true
		}
	}
	return w.proc.excused[plugin.Ref{Pod: pod}] == podSeen
}

// podSeen marks a pod that the plugin heard of through a container that is gone by now.
const podSeen = breaker.Reason(255)

// answered is the runtime going on after an event.
func (w *world) answered(e plugin.Answer) {
	c := w.calls[e.ID]
	if c == nil {
		w.fault("answer to call %d, which nobody waits for", e.ID)
		return
	}
	delete(w.calls, e.ID)
	r := e.Result
	begins := c.Event == api.Event_CREATE_CONTAINER || c.Event == api.Event_RUN_POD_SANDBOX
	sent := r.Delivered && r.Outcome != breaker.OutcomeCanceled || w.proc.knows[c.Ref] && begins
	for _, p := range w.procs {
		if p != w.proc && begins && !sent { // a successor that is being told the state does not hear of it either
			p.excused[c.Ref] = breaker.ReasonNotReady
		}
	}
	switch {
	case w.proc.knows == nil:
	case begins && r.Delivered && r.Outcome == breaker.OutcomeSuccess:
		delete(w.proc.limited, c.Ref)
		w.proc.excused[plugin.Ref{Pod: c.Ref.Pod}] = podSeen
	case begins && sent:
		w.proc.excused[plugin.Ref{Pod: c.Ref.Pod}] = podSeen
	case begins:
		w.proc.excused[c.Ref] = r.Refused
	case !sent && strings.HasPrefix(c.Event.PrettyName(), "Remove") && !r.Withheld():
		w.proc.ghosts[c.Ref] = r.Refused != breaker.ReasonNotReady
	}
	if c.pod == nil {
		return
	}
	end := c.Deadline
	if c.waited && c.Until.After(end) {
		end = c.Until
	}
	if c.Blocking && w.now.After(end.Add(w.slow)) {
		w.fault("call %d is answered %s after its time", e.ID, w.now.Sub(end))
	}
	switch c.Event {
	case api.Event_RUN_POD_SANDBOX:
		c.pod.turn = true
	case api.Event_CREATE_CONTAINER:
		if x := c.pod.ctrs[c.op.ctr]; x != nil {
			x.turn, x.created = true, true
		}
	case api.Event_STOP_CONTAINER:
		if x := c.pod.ctrs[c.op.ctr]; x != nil {
			x.stopped = true
		}
	default:
	}
	if c.pod.pending == e.ID {
		c.pod.pending = 0
		p := c.pod
		w.after(w.millis(0, 30), func() { w.advance(p) })
	}
}
