package plugin_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// watch checks what must hold whatever the inputs are. It sees every input and every effect, and knows nothing of the machine's own state but its phase.
type watch struct {
	cfg   plugin.Config
	legal bool            // the inputs keep the contract: no violation, and what depends on honest inputs holds too
	edges map[string]bool // those taken
	table map[string]bool // those permitted

	phase   plugin.Phase
	stopped bool // Stop was asked for and the plugin is in phase Stopped
	asked   bool // Stop was asked for
	alive   map[plugin.Incarnation]bool
	serving plugin.Incarnation // in service, or on the way there
	newest  plugin.Incarnation
	next    plugin.Incarnation // warms up beside it
	calls   map[plugin.CallID]*watched
	ticket  plugin.CallID // admitted or asked about, and not back
	flying  plugin.CallID
	arrived int
	order   map[string]int // per pod: the arrival of the last call that was sent
	waiting []*watched     // blocking calls that were neither asked about nor answered, oldest first
	told    map[plugin.Incarnation]map[plugin.Ref]bool
	syncAt  time.Time // end of the last synchronization
	syncInc plugin.Incarnation
	runtime bool // the runtime changed since
	faults  []string
}

// watched is a call.
type watched struct {
	plugin.Request
	arrival  int
	asked    bool
	sent     bool
	verdicts int
	backs    int
	answers  int
}

func newWatch(cfg plugin.Config, legal bool) *watch {
	return &watch{
		cfg: cfg, legal: legal, edges: map[string]bool{}, table: tableEdges(), calls: map[plugin.CallID]*watched{}, order: map[string]int{},
		told: map[plugin.Incarnation]map[plugin.Ref]bool{}, alive: map[plugin.Incarnation]bool{},
	}
}

// tableEdges returns "from -> to" for each edge of the table, read from its diagram.
func tableEdges() map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(plugin.Diagram()) {
		from, to, ok := strings.Cut(strings.TrimSpace(line), " --> ")
		if ok && from != "[*]" {
			to, _, _ = strings.Cut(to, ":")
			out[from+" -> "+to] = true
		}
	}
	return out
}

func (w *watch) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// step looks at one step of the machine and returns what is wrong with it.
func (w *watch) step(now time.Time, m *plugin.Machine, in plugin.Input, effects []plugin.Effect) error {
	was := w.phase
	w.before(in)
	for _, e := range effects {
		w.effect(now, e)
	}
	w.after(now, m, was, in, effects)
	if len(w.faults) == 0 {
		return nil
	}
	err := fmt.Errorf("input %s\neffects\n  %s\nfaults\n  %s", printInput(in), strings.Join(printEffects(effects), "\n  "), strings.Join(w.faults, "\n  "))
	w.faults = nil
	return err
}

func (w *watch) before(in plugin.Input) {
	switch in := in.(type) {
	case plugin.Call:
		w.arrived++
		c := &watched{Request: in.Request, arrival: w.arrived}
		w.calls[in.ID] = c
		if in.Blocking {
			w.waiting = append(w.waiting, c)
		}
	case plugin.Stop:
		w.asked = true
	case plugin.Exited:
		w.ended(in.Inc)
	case plugin.LaunchFailed:
		w.ended(in.Inc)
	case plugin.Refused:
		if w.ticket == in.ID && w.flying != in.ID {
			w.ticket = 0
		}
	case plugin.RuntimeUp, plugin.RuntimeDown, plugin.Reset, plugin.Reconfigure:
		w.runtime = true
	case plugin.SyncFailed:
		w.runtime = w.runtime || in.Refused
	case plugin.Synced:
		if w.alive[in.Inc] {
			w.told[in.Inc] = map[plugin.Ref]bool{}
			for _, r := range in.Known {
				w.told[in.Inc][r] = true
			}
		}
	default:
	}
}

func (w *watch) ended(inc plugin.Incarnation) {
	delete(w.alive, inc)
	delete(w.told, inc)
	switch inc {
	case w.serving:
		w.serving, w.flying = 0, 0
	case w.next:
		w.next = 0
	}
}

func (w *watch) effect(now time.Time, e plugin.Effect) {
	switch e := e.(type) {
	case plugin.Launch:
		switch {
		case w.serving == 0:
			w.serving = e.Inc
		case w.next != 0:
			w.fault("three incarnations: #%d is launched while #%d lives and #%d warms up", e.Inc, w.serving, w.next)
		default:
			w.next = e.Inc
		}
		if e.Inc <= w.newest {
			w.fault("incarnation #%d after #%d", e.Inc, w.newest)
		}
		w.alive[e.Inc], w.newest = true, e.Inc
	case plugin.Synchronize:
		if w.flying != 0 && e.Inc == w.serving {
			w.fault("a synchronization while call %d is in the plugin", w.flying)
		}
		if e.Inc != w.serving && e.Inc != w.next {
			w.fault("synchronize #%d, while #%d is in service and #%d warms up", e.Inc, w.serving, w.next)
		}
		if since := now.Sub(w.syncAt); w.legal && w.syncInc == e.Inc && !w.runtime && since < plugin.ResyncInterval {
			w.fault("synchronized again after %s", since)
		}
		if e.Inc == w.serving {
			w.runtime = false
		}
	case plugin.StopProcess:
		w.ends(e.Inc, "stop")
	case plugin.KillProcess:
		w.ends(e.Inc, "kill")
	case plugin.Swapped:
		if e.Old != w.serving || e.New != w.next || w.flying != 0 || w.phase != plugin.Ready {
			w.fault("#%d takes over from #%d in phase %s; in service is #%d, #%d warms up, call %d is in the plugin", e.New, e.Old, w.phase, w.serving, w.next, w.flying)
		}
		w.serving, w.next = e.New, 0
	case plugin.Admit:
		w.admit(e)
	case plugin.Send:
		w.send(e)
	case plugin.Verdict:
		w.call(e.ID, "verdict").verdicts++
	case plugin.Back:
		c := w.call(e.ID, "back")
		c.backs++
		if w.ticket == e.ID {
			w.ticket = 0
		}
		if w.flying == e.ID {
			w.flying = 0
		}
		if c.verdicts != 1 {
			w.fault("call %d is back with %d verdicts", e.ID, c.verdicts)
		}
	case plugin.Answer:
		w.answer(e)
	case plugin.Arm:
		if limit := max(w.cfg.MaxBackoff, w.cfg.CrashLoopRetry); e.Timer.Kind == plugin.Retry && e.After > limit {
			w.fault("a backoff of %s, capped at %s", e.After, limit)
		}
		if e.After < 0 {
			w.fault("a timer in the past: %s", e.After)
		}
	case plugin.PhaseChanged:
		edge := e.From.String() + " -> " + e.To.String()
		w.edges[edge] = true
		if e.From != w.phase || !w.table[edge] {
			w.fault("change of phase %s, which was %s", edge, w.phase)
		}
		w.phase = e.To
	case plugin.Violation:
		if w.legal {
			w.fault("a violation: %s", e.What)
		}
	case plugin.GuardHung, plugin.GuardExited, plugin.GuardStarted, plugin.GuardHealth, plugin.Stale, plugin.ReplaceFailed:
	}
}

func (w *watch) ends(inc plugin.Incarnation, what string) {
	if !w.alive[inc] {
		w.fault("%s of #%d, which does not live", what, inc)
	}
	if inc == w.next {
		w.next = 0
	}
}

// call returns the call; an unknown one is a fault.
func (w *watch) call(id plugin.CallID, what string) *watched {
	c := w.calls[id]
	if c == nil {
		w.fault("%s of the unknown call %d", what, id)
		c = &watched{}
	}
	return c
}

func (w *watch) admit(e plugin.Admit) {
	c := w.call(e.ID, "admission")
	if w.ticket != 0 {
		w.fault("asks about call %d while %d has its ticket", e.ID, w.ticket)
	}
	if c.asked {
		w.fault("asks twice about call %d", e.ID)
	}
	c.asked, w.ticket = true, e.ID
	w.unwait(c)
	if !c.Blocking && w.phase == plugin.Ready && len(w.waiting) > 0 {
		if first := w.waiting[0]; first.Ref.Pod != c.Ref.Pod || first.arrival < c.arrival {
			w.fault("notification %d of %s overtakes blocking call %d of %s", c.ID, c.Ref.Pod, first.ID, first.Ref.Pod)
		}
	}
}

func (w *watch) unwait(c *watched) {
	for i, x := range w.waiting {
		if x == c {
			w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
			return
		}
	}
}

func (w *watch) send(e plugin.Send) {
	c := w.call(e.ID, "send")
	if e.Inc != w.serving {
		w.fault("send to #%d, while #%d is in service", e.Inc, w.serving)
	}
	if w.flying != 0 {
		w.fault("call %d is sent while %d is in the plugin", e.ID, w.flying)
	}
	if removal := c.Event == api.Event_REMOVE_CONTAINER || c.Event == api.Event_REMOVE_POD_SANDBOX; w.phase != plugin.Ready && (w.phase != plugin.Syncing || !c.Vanished && !removal) {
		w.fault("call %d is sent in phase %s", e.ID, w.phase)
	}
	if c.sent || c.answers > 0 || w.ticket != e.ID {
		w.fault("call %d is sent twice, after its answer or without a ticket", e.ID)
	}
	if e.Timeout > c.Timeout || e.Timeout <= 0 && w.legal {
		w.fault("call %d gets %s of %s", e.ID, e.Timeout, c.Timeout)
	}
	if last := w.order[c.Ref.Pod]; c.arrival <= last {
		w.fault("call %d of %s is sent out of order", e.ID, c.Ref.Pod)
	}
	w.order[c.Ref.Pod], w.flying, c.sent = c.arrival, e.ID, true
	if c.Event == api.Event_CREATE_CONTAINER || c.Event == api.Event_RUN_POD_SANDBOX {
		if w.legal && w.told[e.Inc][c.Ref] {
			w.fault("%v is told twice in an epoch", c.Ref)
		}
		if w.told[e.Inc] != nil {
			w.told[e.Inc][c.Ref] = true
		}
	}
}

func (w *watch) answer(e plugin.Answer) {
	c := w.call(e.ID, "answer")
	c.answers++
	w.unwait(c)
	if c.answers > 1 {
		w.fault("call %d is answered %d times", e.ID, c.answers)
	}
	if c.sent && c.verdicts != 1 {
		w.fault("call %d is answered with %d verdicts", e.ID, c.verdicts)
	}
	if c.sent && !e.Result.Delivered {
		w.fault("call %d was sent and is answered %s", e.ID, printResult(e.Result))
	}
}

func (w *watch) after(now time.Time, m *plugin.Machine, was plugin.Phase, in plugin.Input, effects []plugin.Effect) {
	switch in := in.(type) {
	case plugin.Synced:
		if w.phase == plugin.Ready {
			for _, e := range effects {
				if _, ok := e.(plugin.GuardStarted); ok {
					w.syncAt, w.syncInc = now, in.Inc
				}
			}
		}
	case plugin.Replace:
		for _, e := range effects {
			if s, ok := e.(plugin.StopProcess); ok && s.Inc == w.serving && s.Inc == w.syncInc && (was == plugin.Ready || was == plugin.Syncing) {
				w.fault("#%d, which has been in service, is stopped before its successor is known to be better", s.Inc)
			}
		}
	default:
	}
	if m.Phase() != w.phase {
		w.fault("phase %s was not reported, last was %s", m.Phase(), w.phase)
	}
	if w.stopped && (w.phase != plugin.Stopped || len(w.alive) > 0) {
		w.fault("a stopped plugin is in phase %s", w.phase)
	}
	w.stopped = w.asked && w.phase == plugin.Stopped
	switch w.phase {
	case plugin.Starting, plugin.Syncing, plugin.Ready, plugin.Draining:
		if w.serving == 0 && (w.phase != plugin.Draining || len(w.alive) == 0) { // a successor that was given up may end last
			w.fault("no process in phase %s", w.phase)
		}
	case plugin.Stopped, plugin.Backoff, plugin.CrashLoop, plugin.Disabled:
		if w.serving != 0 || w.next != 0 {
			w.fault("a process in phase %s", w.phase)
		}
		for id, c := range w.calls {
			if c.answers == 0 && id != w.ticket {
				w.fault("call %d waits in phase %s", id, w.phase)
			}
		}
	}
	if w.flying == 0 { // finished calls are of no more interest
		for id, c := range w.calls {
			if c.answers > 0 && id != w.ticket && (!c.asked || c.backs == 1 || !c.sent) {
				delete(w.calls, id)
			}
		}
	}
}

// unanswered returns the calls that nobody has answered.
func (w *watch) unanswered() []plugin.CallID {
	var out []plugin.CallID
	for id, c := range w.calls {
		if c.answers == 0 {
			out = append(out, id)
		}
	}
	return out
}
