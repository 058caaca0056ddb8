package plugin_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// world is a simple twin of everything around a machine: a runtime with pods and containers, one plugin's processes, a guard, a clock. It keeps the contract of the inputs, breaks
// everything else on purpose, and remembers what the plugin was really told, to compare it with the truth at the end.
type world struct {
	*rand.Rand
	cfg     plugin.Config
	m       *plugin.Machine
	w       *watch
	now     time.Time
	due     events
	seq     int
	steps   int
	err     error
	history []moment // the last of them

	calm      bool // no more faults
	inPlace   bool
	slow      time.Duration // the guard answers up to this much later; 0 = at once
	mask      api.EventMask
	nextCall  plugin.CallID
	nextPod   int
	session   uint64
	connected bool
	pods      []*pod
	calls     map[plugin.CallID]*worldCall
	proc      process
	guard     guard
	disabled  bool
}

// moment is one step, kept for the report of a fault.
type moment struct {
	at      time.Time
	in      plugin.Input
	effects []plugin.Effect
}

func (m moment) String() string {
	s := fmt.Sprintf("%8.3f %s", m.at.Sub(time.Unix(1_000_000, 0)).Seconds(), printAnyInput(m.in))
	for _, l := range printEffects(m.effects) {
		s += "\n             " + l
	}
	return s
}

// event is something that happens at a time.
type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// pod is a pod sandbox as the runtime sees it, with its containers. Its events come one after the other.
type pod struct {
	id      string
	ops     []op // to come
	turn    bool // RunPodSandbox is answered
	exists  bool
	ctrs    map[string]*ctr
	pending plugin.CallID // the blocking call that is waited for
}

type ctr struct {
	exists  bool // it is in the store
	turn    bool // its creation is answered
	created bool
	stopped bool
}

type op struct {
	event api.Event
	ctr   string
}

type worldCall struct {
	plugin.Request
	pod *pod
	op  op
}

// process is the incarnation, and what it was told since its last synchronization.
type process struct {
	inc      plugin.Incarnation
	launched bool
	leaving  bool
	hung     bool // it will not return from a call
	broken   bool // its synchronization fails
	knows    map[plugin.Ref]bool
	limited  map[plugin.Ref]bool           // asked about at creation, work not used: only removals and stops may follow
	excused  map[plugin.Ref]breaker.Reason // not told in this epoch, and why that is right
	ghosts   map[plugin.Ref]bool           // the removal was refused by the guard for a reason that withholds it
}

// guard is a simple breaker.
type guard struct {
	failures int
	open     bool
	until    time.Time
	forced   bool
	down     bool
}

func newWorld(seed uint64) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_000_000, 0), calls: map[plugin.CallID]*worldCall{},
		cfg: plugin.Config{
			Backoff: time.Second, MaxBackoff: 20 * time.Second, StableAfter: 30 * time.Second,
			CrashLoopExits: 4, CrashLoopWithin: time.Minute, CrashLoopRetry: 2 * time.Minute,
		},
		mask: api.ValidEvents,
	}
	w.inPlace = w.IntN(2) == 0
	if w.IntN(4) == 0 {
		w.slow = 5 * time.Millisecond
	}
	switch w.IntN(4) {
	case 0: // like an injector of devices: it hears of creations only
		w.mask = 0
		w.mask.Set(api.Event_CREATE_CONTAINER, api.Event_START_CONTAINER)
	case 1:
		w.mask.Clear(api.Event_RUN_POD_SANDBOX)
	}
	w.m, w.w = plugin.New(w.cfg), newWatch(w.cfg, true)
	return w
}

// after lets something happen later. What is due at the same time happens in the order in which it was arranged, as in a mailbox.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.due, event{at: w.now.Add(max(d, 0)), seq: w.seq, do: do})
}

func (w *world) millis(least, most int) time.Duration {
	return time.Duration(least+w.IntN(most-least+1)) * time.Millisecond
}

// run lets the world go on for d.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.due) > 0 && !w.due[0].at.After(end) && w.err == nil {
		e := heap.Pop(&w.due).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

func (w *world) note(m moment) {
	if len(w.history) >= 200 {
		w.history = slices.Delete(w.history, 0, 100)
	}
	w.history = append(w.history, m)
}

// fault keeps the first thing that is wrong, and what led to it.
func (w *world) fault(format string, args ...any) {
	if w.err != nil {
		return
	}
	var b strings.Builder
	for _, m := range w.history {
		fmt.Fprintln(&b, m)
	}
	w.err = fmt.Errorf(format+"\nhistory:\n%s", append(args, b.String())...)
}

// input gives the machine an input, and carries out the effects.
func (w *world) input(in plugin.Input) {
	queue := []plugin.Input{in}
	for len(queue) > 0 && w.err == nil {
		in, queue = queue[0], queue[1:]
		w.steps++
		effects := slices.Clone(w.m.Step(w.now, in))
		w.note(moment{w.now, in, effects})
		if err := w.w.step(w.now, w.m, in, effects); err != nil {
			w.fault("%v", err)
			return
		}
		for _, e := range effects {
			queue = append(queue, w.carryOut(e)...)
		}
	}
}

func printAnyInput(in plugin.Input) string {
	if c, ok := in.(plugin.Call); ok {
		return fmt.Sprintf("call %d %s %v", c.ID, c.Event.PrettyName(), c.Ref)
	}
	return printInput(in)
}

// carryOut does what the machine asks for. It returns inputs that follow at once.
func (w *world) carryOut(e plugin.Effect) []plugin.Input {
	switch e := e.(type) {
	case plugin.Launch:
		w.launch(e.Inc)
	case plugin.Synchronize:
		w.synchronize(e)
	case plugin.StopProcess:
		w.end(e.Inc, w.millis(1, 200))
	case plugin.KillProcess:
		w.end(e.Inc, w.millis(1, 5))
	case plugin.Admit:
		if w.slow == 0 {
			return []plugin.Input{w.admit(e)}
		}
		in := w.admit(e)
		w.after(w.millis(0, int(w.slow/time.Millisecond)), func() { w.input(in) })
	case plugin.Send:
		w.send(e)
	case plugin.Answer:
		w.answered(e)
	case plugin.Arm:
		w.after(e.After, func() { w.input(e.Timer) })
	case plugin.Verdict:
		w.verdict(e)
	case plugin.GuardHung:
		w.guardOpens()
	case plugin.GuardExited:
		w.guard.down = true
		w.guardOpens()
	case plugin.GuardStarted:
		w.guard.down, w.guard.open, w.guard.failures = false, false, 0
	case plugin.GuardHealth, plugin.Back, plugin.PhaseChanged, plugin.Stale, plugin.Violation:
	}
	return nil
}

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
	w.proc = process{inc: inc, knows: map[plugin.Ref]bool{}, limited: map[plugin.Ref]bool{}, excused: map[plugin.Ref]breaker.Reason{}, ghosts: map[plugin.Ref]bool{}}
	fails := !w.calm && w.IntN(4) == 0
	w.proc.broken = !w.calm && w.IntN(8) == 0
	w.after(w.millis(5, 400), func() {
		if w.proc.inc != inc || w.proc.launched { // its launch was cancelled
			return
		}
		if fails {
			w.gone(inc)
			return
		}
		w.proc.launched = true
		w.input(plugin.Launched{Inc: inc, InPlace: w.inPlace})
	})
}

// end is the process ending after a while, as it was told to.
func (w *world) end(inc plugin.Incarnation, d time.Duration) {
	w.proc.leaving = true
	w.after(d, func() { w.gone(inc) })
}

func (w *world) gone(inc plugin.Incarnation) {
	if w.proc.inc != inc {
		return
	}
	launched := w.proc.launched
	w.proc = process{}
	if launched {
		w.input(plugin.Exited{Inc: inc})
	} else {
		w.input(plugin.LaunchFailed{Inc: inc})
	}
}

// synchronize takes the snapshot now, as the supervisor does: what is being created is told as a creation unless the plugin's turn in it is over.
func (w *world) synchronize(e plugin.Synchronize) {
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
	w.proc.knows, w.proc.limited, w.proc.excused, w.proc.ghosts = knows, map[plugin.Ref]bool{}, map[plugin.Ref]breaker.Reason{}, map[plugin.Ref]bool{}
	fails := w.proc.broken || !w.calm && w.IntN(15) == 0
	w.after(w.millis(1, 900), func() {
		if w.proc.inc != e.Inc {
			return
		}
		if fails {
			w.input(plugin.SyncFailed{Inc: e.Inc, Sync: e.Sync})
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
				w.proc.hung = true
			}
		}
	}
	if w.proc.hung {
		return
	}
	inc := e.Inc
	w.after(takes, func() {
		if w.proc.inc == inc {
			w.input(plugin.Returned{Inc: inc, ID: e.ID, Outcome: outcome})
		}
	})
}

// hears checks that what the plugin is told fits to what it was told before.
func (w *world) hears(c *worldCall) {
	p := &w.proc
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
	if c.Blocking && w.now.After(c.Deadline.Add(w.slow)) {
		w.fault("call %d is answered %s after its share", e.ID, w.now.Sub(c.Deadline))
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
