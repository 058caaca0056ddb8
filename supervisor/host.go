package supervisor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// host is the actor of one plugin: it owns the plugin's machine, its incarnation and its timers, and handles one message after the other. Other goroutines send messages or read the
// published view.
type host struct {
	sup        *Supervisor
	name       string // of the plugin, for life
	rules      atomic.Pointer[policy.Plugin]
	guard      *breaker.Guard
	box        *mailbox[message]
	met        *pluginMetrics
	nextID     atomic.Uint64
	configured atomic.Bool  // mask is what the plugin said
	mask       atomic.Int32 // events the plugin subscribed to; all until it is configured
	view       atomic.Pointer[hostView]
	nextStart  atomic.Int64 // of the last wait for a start: when it is over, in unix nanoseconds; 0: there was none
	denials    denials
	backlog    backlog // of its unsolicited updates
	pace       pace    // likewise
	latency    latency // of its calls, for the status page
	failures   failures
	refusals   refusals
	rivals     rivals
	// settled is closed when the plugin has registered for the first time, or cannot: what waits for the first dial waits for it.
	settled     chan struct{}
	settledOnce sync.Once
	gone        chan struct{}  // closed when the plugin is never launched again
	work        sync.WaitGroup // every goroutine that the loop started

	keeping  sync.Mutex // held while the state is told of quarantines
	kept     []byte     // what the state has of them; guarded by keeping, like the next
	nameless bool       // the plugin is over, and its name may be another's

	// turn is held while messages are handled: by the loop, or in its place by a goroutine that brings one (deal). What follows is under it.
	turn        sync.Mutex
	buf         []message // the batch of before, for the next one
	bringing    *call     // the call whose own goroutine has the turn; nil: none has
	machine     *plugin.Machine
	calls       map[plugin.CallID]*call
	runs        map[plugin.Incarnation]*running // one in service, one that warms up, those that end
	answered    map[store.Ref]struct{}          // creations under way whose turn with this plugin is over
	pending     []plugin.Input
	exits       []ExitRecord
	restarts    int
	sha256      string
	quarantined []breaker.QuarantinedPod // as kept
	lastErr     string
	spec        *policy.Plugin // what processes are started with: as a rule the manifest in force
	update      chan<- error   // holds one: who waits for a change of the manifest
	stuck       atomic.Bool    // the last change by a new process did not come about: the one in service is older than the manifest
	beside      atomic.Bool    // … was tried by a successor
	told        bool           // lastErr says already why the incarnation is about to be killed
}

// message is what the loop reads: an input of the machine, and what comes with it.
type message struct {
	in     plugin.Input
	call   *call
	inst   Incarnation
	reply  verdict
	sha256 string
	fn     func() // runs on the loop before the input
}

// running is one incarnation as the loop sees it.
type running struct {
	inc      plugin.Incarnation
	spec     *policy.Plugin     // that it was started with
	cancel   context.CancelFunc // ends the launch
	inst     Incarnation        // nil until launched
	stop     bool               // to be stopped as soon as it is there
	mask     api.EventMask      // what it subscribed to; valid once synchronized, like the next two
	known    []plugin.Ref
	updates  []*api.ContainerUpdate
	jobs     chan func() // to its worker
	launched time.Time
	pid      atomic.Int64  // 0 until launched
	ended    chan struct{} // closed when the incarnation is over: its worker and health checks end
}

// call is one delivery.
type call struct {
	req      plugin.Request
	work     string // what the call does for its pod, e.g. "CreateContainer/main"
	invoke   func(ctx context.Context, p api.PluginService) (any, error)
	judge    func(reply any, err error) verdict
	done     chan callResult // nil for notifications
	over     chan struct{}   // closed when nobody waits for what the plugin says; nil for notifications
	overOnce sync.Once
	own      *running // by whose plugin the goroutine that waits does the call itself; nil: a worker does
	name     naming
	ticket   *breaker.Ticket
	sent     time.Time
	limit    time.Duration
	result   verdict
	answered bool
	timers   []*time.Timer
	given    atomic.Bool // the same, for the worker: what comes now is late
	quiet    bool
	traced   func(TracedResult) // as in delivery
	share    *wire.Payload      // likewise
}

// verdict is what a reply came to.
type verdict struct {
	outcome breaker.Outcome
	reply   any
	detail  string
	denials []policy.Denial
	dropped []journal.Field // for whose sake the reply is left out
	with    []string        // the plugins that it collided with
	// withTeams are their teams
	withTeams []string
}

// callResult is what became of a call.
type callResult struct {
	plugin.Result
	reply   any
	detail  string
	denials []policy.Denial
	took    time.Duration // of the plugin, from the send

	dropped         []journal.Field // as in verdict
	with, withTeams []string
}

// naming is what logs and records call a pod and container.
type naming struct {
	namespace, pod, container, containerID string
	values                                 *values // what plugins know and is never told; nil: nothing
}

// policy is the manifest in force.
func (h *host) policy() *policy.Plugin { return h.rules.Load() }

func newHost(s *Supervisor, p *policy.Plugin) *host {
	h := &host{
		sup: s, name: p.Name, spec: p, runs: map[plugin.Incarnation]*running{}, box: newMailbox[message](), met: s.metrics.plugin(p.Name, p.Team),
		settled: make(chan struct{}), gone: make(chan struct{}), calls: map[plugin.CallID]*call{}, answered: map[store.Ref]struct{}{},
	}
	h.rules.Store(p)
	h.mask.Store(int32(api.ValidEvents))
	h.guard = breaker.New(guardConfig(p), nil, h.transition)
	h.machine = plugin.New(machineConfig(p))
	h.publish()
	return h
}

// The end of an attached plugin's connection is no crash: the next one may be taken soon. The wait grows for one that connects and disconnects all the time, since each connection costs a
// synchronization.
const (
	attachBackoff    = 100 * time.Millisecond
	attachMaxBackoff = 5 * time.Second
)

// machineConfig translates a manifest.
func machineConfig(p *policy.Plugin) plugin.Config {
	r := p.Spec.Restart
	var share time.Duration // the shortest
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if t := p.Timeout(e); p.Blocking(e) && (share == 0 || t < share) {
			share = t
		}
	}
	if p.Attaches() {
		return plugin.Config{Backoff: attachBackoff, MaxBackoff: attachMaxBackoff, StableAfter: r.StableAfter.Std(), Share: share}
	}
	return plugin.Config{
		Backoff: r.Backoff.Std(), MaxBackoff: r.MaxBackoff.Std(), StableAfter: r.StableAfter.Std(),
		CrashLoopExits: r.CrashLoop.Exits, CrashLoopWithin: r.CrashLoop.Within.Std(), CrashLoopRetry: r.CrashLoop.RetryEvery.Std(), Share: share,
	}
}

// guardConfig translates a manifest. A probe is bounded by the longest call that a plugin may have, with a second for the scheduler.
func guardConfig(p *policy.Plugin) breaker.Config {
	b, l, q := p.Spec.Breaker, p.Spec.LaneShare, p.Spec.Quarantine
	longest := p.SynchronizeTimeout()
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		longest = max(longest, p.Timeout(e))
	}
	return breaker.Config{
		ConsecutiveFailures: uint32(b.ConsecutiveFailures), //nolint:gosec // validated to be positive and small
		FailureRatio:        b.FailureRatio.Threshold,
		RatioMinimumCalls:   uint32(b.FailureRatio.MinimumCalls), //nolint:gosec // as above
		RatioWindow:         b.FailureRatio.Window.Std(),
		SlowCall:            b.SlowCall.Duration.Std(),
		SlowRatio:           b.SlowCall.Ratio,
		SlowMinimumCalls:    uint32(b.SlowCall.MinimumCalls), //nolint:gosec // as above
		OpenDuration:        b.OpenDuration.Std(),
		MaxOpenDuration:     b.MaxOpenDuration.Std(),
		ProbeDeadline:       longest + time.Second,
		LaneRatio:           l.Ratio,
		LaneBurst:           l.Burst.Std(),
		QuarantineAfter:     q.After,
		QuarantineDuration:  q.Duration.Std(),
	}
}

// post sends an input to the loop. After the loop has ended it goes nowhere.
func (h *host) post(in plugin.Input) { h.box.put(message{in: in}) }

// loop handles messages until the plugin is stopped for good and its incarnation is gone.
func (h *host) loop() {
	for over := false; !over; {
		<-h.box.wake
		h.turn.Lock()
		h.drain()
		over = h.over()
		h.turn.Unlock()
	}
	h.turn.Lock()
	for _, m := range h.box.close() {
		h.handle(m) // calls that came too late are refused, not forgotten
	}
	h.settle()
	h.tellSums()
	close(h.gone)
	h.endUpdate(errSuperseded)
	h.turn.Unlock()
	h.work.Wait()
}

// drain handles what is in the mailbox, with the turn.
func (h *host) drain() {
	batch := h.box.take(h.buf)
	for i := range batch {
		h.handle(batch[i])
		batch[i] = message{}
	}
	h.buf = batch
}

// deal puts a message into the mailbox and handles it on this goroutine, after what came before it, if nobody else has the turn: on the way of an event each change of goroutines costs
// as much as all the rest. Nothing that an effect does blocks, or takes a lock under which this is called. It reports false when the plugin is over.
func (h *host) deal(m message) bool {
	if !h.box.add(m) {
		return false
	}
	if !h.turn.TryLock() {
		h.box.rouse() // whoever has the turn may be past the mailbox
		return true
	}
	h.bringing = m.call
	h.drain()
	h.bringing = nil
	over := h.over()
	h.turn.Unlock()
	if over {
		h.box.rouse()
	}
	return true
}

// over reports whether the plugin has been stopped for good.
func (h *host) over() bool { return h.machine.Phase() == plugin.Stopped && h.machine.Stopping() }

func (h *host) handle(m message) {
	if m.fn != nil {
		m.fn()
	}
	if m.in == nil {
		return
	}
	h.step(h.prepare(m))
	for len(h.pending) > 0 {
		next := h.pending[0]
		h.pending = h.pending[1:]
		h.step(next)
	}
	if h.update != nil && h.machine.WaitsForRuntime() { // as all plugins do
		h.endUpdate(nil)
	}
}

// prepare takes note of what comes with an input before the machine sees it.
func (h *host) prepare(m message) plugin.Input {
	switch in := m.in.(type) {
	case plugin.Call:
		h.calls[in.ID] = m.call
	case plugin.Launched:
		h.attach(in.Inc, m.inst)
	case plugin.Returned:
		if c := h.calls[in.ID]; c != nil {
			c.result = m.reply
		}
	case plugin.Synced:
		in.NewVersion = h.sha256 != "" && h.sha256 != m.sha256
		return in
	default:
	}
	return m.in
}

func (h *host) step(in plugin.Input) {
	for _, e := range h.machine.Step(time.Now(), in) {
		h.carryOut(e)
	}
}

// settle says that the first dial need not wait for this plugin any longer.
func (h *host) settle() { h.settledOnce.Do(func() { close(h.settled) }) }

// subscribes reports whether the plugin wants the event, as far as is known.
func (h *host) subscribes(e api.Event) bool {
	m := api.EventMask(h.mask.Load())
	if n := h.policy().Events(); n != 0 {
		m &= n
	}
	return m.IsSet(e)
}
