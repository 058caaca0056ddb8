package supervisor

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

const (
	// shutdownLimit bounds the end of a run, whatever the plugins do (10 s in all; systemd's default is 90 s, kubelet's grace 30 s).
	shutdownLimit = 8 * time.Second
	// finishLimit is what requests that are being answered may take of that. A runtime that allows more goes on without the answer.
	finishLimit = 3 * time.Second
)

// Options are what a Supervisor needs. Config and Launcher are required.
type Options struct {
	Config   *policy.Config
	Launcher Launcher
	// Source is what Config was loaded with, for reloads. Nil: the configuration cannot be reloaded.
	Source *policy.LoadOptions
	// Stale says why Config is older than the broken configuration on disk. Empty: it is not.
	Stale string
	// Sink is told of events. Nil drops them.
	Sink Sink
	// Registry receives the metrics. Nil means a new one.
	Registry *prometheus.Registry
	// Version of the program, for metrics and status.
	Version string
	// WaitForPlugins bounds how long the first dial waits for the plugins. 0 does not wait.
	WaitForPlugins time.Duration
	// Dial connects to the runtime. Nil dials the configured socket.
	Dial func(ctx context.Context) (net.Conn, error)
	// Turn takes the right to serve the runtime, and keeps it. While it returns an error, which wraps ErrTaken, the supervisor starts no plugin and does not dial. It must not block. Nil: there is
	// nobody else.
	Turn func() error
	// OneSession makes Run end with the first connection to the runtime: whoever started this process made that connection, and there is no other.
	OneSession bool
	// State is what survives a restart, and what was found in it. A nil DB keeps nothing.
	State  *state.DB
	Loaded state.Loaded
	// Audit keeps what was decided. Nil keeps only the latest, in memory.
	Audit *audit.Log
	// Computing is told of work that takes a processor for long beside the events, such as taking a state in, until done is called, once at least. It must not block for long. Nil: nobody is told.
	Computing func() (done func())
	// Tracer follows the events of the runtime. Nil: they are not traced, and cost nothing more.
	Tracer Tracer
	// ServerOptions are added to the server that the runtime calls, such as what takes the context of a trace out of its requests.
	ServerOptions []ttrpc.ServerOpt
}

// Supervisor hosts the plugins of one configuration behind one registration. Use New, then Run once.
type Supervisor struct {
	opts      Options
	launcher  Launcher
	metrics   *metrics
	events    *emitter
	store     *store.Store
	merge     *merge.Engine
	updates   *updater
	history   *history
	explainer explainer
	telling   telling
	journal   *journal.Journal

	explaining sync.Mutex // held while the audit is read
	recorders  recorders
	inForce    atomic.Pointer[plan]
	first      *plan // the one that New made
	started    time.Time

	runtime     atomic.Pointer[RuntimeInfo]
	current     atomic.Pointer[session] // nil: not connected
	live        liveness
	pulse       pulse
	finishing   time.Duration  // what the last session took to end after ctx had; written and read by Run's goroutine
	deciding    sync.RWMutex   // for reading while a selection is decided and pinned, for writing while the plan is replaced: each decision is by one plan
	running     sync.WaitGroup // the loops of the plugins
	reloads     reloading
	turned      chan struct{} // closed with this supervisor's first turn
	ending      []*host       // that were retired, until they have ended; guarded by reloads.mu
	kept        []string      // plugins whose manifests the state has; guarded by reloads.mu
	manual      manual
	actions     sync.Mutex   // held during a manual action, and while plugins come, go and change their names; taken before mu
	syncs       sync.Mutex   // held while the state of a runtime is taken in
	untold      []farewell   // under syncs: what vanished in sessions that ended before the plugins were told
	beginning   sync.Map     // store.Ref of pods whose RunPodSandbox is under way
	unhosted    refusals     // requests that failed for a required plugin that is not hosted
	bypassUntil atomic.Int64 // unix nanoseconds; 0 = not bypassed
	bypassTimer *time.Timer
	stopCtx     context.Context //nolint:containedctx // the bound of the shutdown, set once by New and cancelled by Run
	stopNow     context.CancelFunc

	lanes teamLanes

	mu       sync.Mutex
	sessions uint64
	conn     connection // the last attempt to reach the runtime
}

// New prepares a supervisor. Nothing runs yet.
func New(o Options) *Supervisor {
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Sink == nil {
		o.Sink = func(Event) {}
	}
	if o.Computing == nil {
		o.Computing = func() func() { return func() {} }
	}
	s := &Supervisor{
		opts: o, launcher: o.Launcher, store: store.New(), merge: merge.NewEngine(), telling: newTelling(),
		started: time.Now(), journal: journal.New(0), turned: make(chan struct{}),
	}
	if o.Audit != nil {
		s.journal.Tee(o.Audit.Put)
	}
	s.metrics = newMetrics(o.Registry, s)
	s.events = newEmitter(s.metrics.dropped.Inc)
	s.opts.Loaded = carryNames(o.Loaded, o.Config, o.State)
	o.Loaded = s.opts.Loaded
	s.history = newHistory(o.Loaded, o.State)
	s.manual.restore(o.Loaded.Manual)
	s.updates = newUpdater(s)
	s.stopCtx, s.stopNow = context.WithCancel(context.Background())
	byName := make(map[string]*host, len(o.Config.Plugins))
	for _, p := range o.Config.Plugins {
		byName[p.Name] = newHost(s, p)
		byName[p.Name].restoreQuarantine(o.Loaded.Values[keyQuarantine+p.Name])
		byName[p.Name].restoreManual()
	}
	s.dropQuarantines(o.Config)
	_, kept := LastGood(o.Loaded)
	for _, g := range kept {
		s.kept = append(s.kept, g.Name)
	}
	s.restoreBypass(o.Loaded.Values[keyBypass])
	s.first = newPlan(1, o.Config, byName)
	s.first.brokenSince(nil, s.started)
	s.inForce.Store(s.first)
	s.lanes.apply(o.Config, s.plan().hosts)
	s.metrics.configured(o.Config)
	s.reloads.setBroken(o.Stale)
	loaded := reloadSuccess
	if o.Stale != "" || len(o.Config.Problems.Errors()) > 0 {
		loaded = reloadPartial
	}
	s.metrics.reloaded(loaded, s.started)
	s.keepGood(o.Config)
	return s
}

// Run hosts the plugins until ctx ends, then stops everything in order. It returns when every goroutine has ended, or after a bound of ten seconds with an error that names what
// did not stop.
func (s *Supervisor) Run(ctx context.Context) error {
	logDone, logStop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(logDone)
		s.events.run(s.opts.Sink, logStop)
	}()
	begin := s.first // plugins that a reload brought before this, it has begun itself
	s.emit(Started{Version: s.opts.Version, Plugins: len(begin.hosts), Invalid: len(begin.config.Invalid)})
	if until := s.bypassUntil.Load(); until != 0 {
		s.emit(BypassGoesOn{Until: time.Unix(0, until)})
	}
	problems, more := listed(begin.config.Problems)
	for _, p := range problems {
		s.emit(ConfigProblem{Problem: p})
	}
	if more > 0 {
		s.emit(ConfigProblem{Problem: policy.Problem{Message: fmt.Sprintf("%d more problems", more), Remedy: "nri-supervisor check shows all of them"}})
	}
	if w := s.opts.Loaded.Warning; w != "" {
		s.emit(StateProblem{Err: w})
	}
	for _, h := range begin.hosts {
		s.running.Go(h.loop)
	}
	if s.awaitTurn(ctx) {
		s.takeTurn(begin)
	}
	updates := make(chan struct{})
	go func() {
		defer close(updates)
		s.updates.run()
	}()
	stopPulse := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() { s.pulse.keepPulse(stopPulse) })

	s.waitForPlugins(ctx)
	s.connect(ctx)

	s.emit(Stopping{})
	err := s.shutdown(updates)
	s.history.settle()
	close(stopPulse)
	beats.Wait()
	close(logStop)
	select {
	case <-logDone:
	case <-time.After(time.Second): // a log that nobody reads must not keep a node's service from stopping
	}
	return err
}

// waitForPlugins returns when every plugin has registered or cannot, or when the time is over.
func (s *Supervisor) waitForPlugins(ctx context.Context) {
	limit := time.NewTimer(s.opts.WaitForPlugins)
	defer limit.Stop()
	for _, h := range s.plan().hosts {
		select {
		case <-h.settled:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// shutdown stops the plugins side by side.
func (s *Supervisor) shutdown(updates <-chan struct{}) error {
	s.reloads.mu.Lock()
	s.reloads.ended = true
	s.reloads.mu.Unlock()
	for _, h := range s.plan().hosts {
		h.post(plugin.Stop{})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
		s.updates.stop()
		<-updates
	}()
	bound := time.NewTimer(shutdownLimit - s.finishing)
	defer bound.Stop()
	select {
	case <-done:
	case <-bound.C:
		s.stopNow() // cut the polite phases short
		select {
		case <-done:
		case <-time.After(2 * time.Second):
			return s.stillRunning()
		}
	}
	s.stopNow()
	s.merge.Close()
	return nil
}

func (s *Supervisor) stopContext() context.Context { return s.stopCtx }

func (s *Supervisor) emit(e Event) { s.events.emit(e) }
