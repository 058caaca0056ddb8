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
	swaps   int // how often a successor took over
	parting int // how many calls about what vanished reached the plugin
	err     error
	history []moment // the last of them

	calm      bool // no more faults
	refuses   bool // the plugin refuses to be configured again
	inPlace   bool
	slow      time.Duration // the guard answers up to this much later; 0 = at once
	mask      api.EventMask
	nextCall  plugin.CallID
	nextPod   int
	session   uint64
	connected bool
	pods      []*pod
	calls     map[plugin.CallID]*worldCall
	proc      *process // in service, or on the way there
	procs     map[plugin.Incarnation]*process
	vanished  map[plugin.Ref]bool // with the runtime that came back last
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
	pod    *pod
	op     op
	waited bool // for a successor, perhaps
}

// process is an incarnation, and what it was told since its last synchronization.
type process struct {
	inc      plugin.Incarnation
	launched bool
	leaving  bool
	hung     bool // it will not return from a call
	broken   bool // its synchronization fails
	knows    map[plugin.Ref]bool
	stopped  map[plugin.Ref]bool           // it was told so
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
	if w.IntN(2) == 0 {
		w.cfg.Share = 600 * time.Millisecond // a synchronization may take more than a third of it
	}
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
	w.proc, w.procs, w.vanished = &process{}, map[plugin.Incarnation]*process{}, map[plugin.Ref]bool{}
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
	case plugin.Swapped:
		w.swaps++
		w.proc = w.procs[e.New]
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
	case plugin.GuardHealth, plugin.Back, plugin.PhaseChanged, plugin.Stale, plugin.Violation, plugin.ReplaceFailed:
	}
	return nil
}
