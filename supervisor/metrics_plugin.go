package supervisor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

const (
	// stateInvalid is the state of a plugin whose manifest cannot be used; it never gets a machine.
	stateInvalid = "invalid"
	// stateReady is the state of a plugin in service.
	stateReady = "ready"
	// Selection decisions.
	decisionSelected    = "selected"
	decisionNotSelected = "not_selected"
	decisionError       = "error"
	// Results of a start.
	startSuccess = "success"
	startFailure = "failure"
)

// pluginStates are the label values of plugin_state (design §10). A stopped plugin has none of them.
func pluginStates() []string {
	var out []string
	for _, p := range plugin.Phases() {
		if p != plugin.Stopped {
			out = append(out, p.String())
		}
	}
	return append(out, stateInvalid)
}

// pluginMetrics are the metrics of one plugin, with the handles of the hot path resolved once. Safe for concurrent use.
type pluginMetrics struct {
	all        *metrics
	name, team string
	mu         sync.RWMutex // for reading while a series is looked up, so that none appears after forget
	over       bool         // the plugin has left the configuration

	stale, late, unheard, ooms         prometheus.Counter
	selected, notSelected, matchErrors prometheus.Counter

	calls, refusals, fallbacks, containers, transitions, exits *pooledCounter
	adjustments, denials, conflicts, changes                   *pooledCounter
	missed                                                     *series // of the gauge missed_containers

	durations [api.Event_LAST]atomic.Pointer[prometheus.Observer] // nil: not looked up yet
}

// other is the combination of the rest.
func other() combination { return combination{OtherSeries, OtherSeries, OtherSeries} }

// Shares of the pool that one metric may take: the details of a plugin that sets many fields, or fails at every event in every way, must not leave none for the reasons why its work is missing.
const (
	mostFields  = 10
	mostCalls   = 12
	mostChanges = 6
	mostDetails = 20
)

func (m *metrics) plugin(name, team string) *pluginMetrics {
	of := func(metric string, labels int, owned bool, most int, p *pool) *pooledCounter {
		return newPooledCounter(p, most, func(c combination) prometheus.Counter {
			values := []string{name}
			if owned {
				values = append(values, team)
			}
			return m.counters[metric].WithLabelValues(append(values, c[:labels]...)...)
		})
	}
	p := &pool{left: pluginPool}
	decisions := m.counters["match_decisions_total"]
	out := &pluginMetrics{
		all: m, name: name, team: team,
		stale: m.counters["plugin_stale_inputs_total"].WithLabelValues(name), late: m.counters["plugin_late_replies_total"].WithLabelValues(name),
		unheard: m.counters["plugin_output_dropped_total"].WithLabelValues(name), ooms: m.counters["plugin_oom_kills_total"].WithLabelValues(name),
		selected: decisions.WithLabelValues(name, decisionSelected), notSelected: decisions.WithLabelValues(name, decisionNotSelected),
		matchErrors: decisions.WithLabelValues(name, decisionError),

		calls: of("plugin_calls_total", 2, false, mostCalls, p), refusals: of("plugin_calls_refused_total", 1, false, mostDetails, p),
		fallbacks: of("fallbacks_total", 2, true, mostDetails, p), containers: of("containers_missed_total", 1, true, mostDetails, p),
		transitions: of("breaker_transitions_total", 3, false, mostChanges, p), exits: of("plugin_exits_total", 1, false, mostDetails, p),
		adjustments: of("adjustments_total", 1, false, mostFields, p), denials: of("adjustments_denied_total", 1, false, mostFields, p),
		conflicts: of("conflicts_total", 3, true, mostFields, p), changes: of("container_updates_total", 2, false, mostChanges, p),
		missed: newSeries(p, mostDetails),
	}
	m.counters["plugin_starts_total"].WithLabelValues(name, startSuccess)
	m.counters["plugin_starts_total"].WithLabelValues(name, startFailure)
	out.phase(plugin.Stopped)
	return out
}

// do runs what looks up series, unless the plugin has left the configuration: what is counted then goes nowhere.
func (p *pluginMetrics) do(f func()) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.over {
		f()
	}
}

// forget drops the plugin's series. inherited: another team has a plugin of this name from now on, so only what names the team goes.
func (p *pluginMetrics) forget(inherited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	labels := prometheus.Labels{"plugin": p.name}
	if inherited {
		labels["team"] = p.team
	}
	p.all.forget(labels)
}

// count counts one more of c, or of rest when the plugin's series are used up.
func (p *pluginMetrics) count(of *pooledCounter, c, rest combination) {
	p.do(func() { of.inc(c, rest) })
}

// subscribed makes the series of the events that the plugin subscribed to appear with 0.
func (p *pluginMetrics) subscribed(mask api.EventMask) {
	p.do(func() {
		for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
			if mask.IsSet(e) {
				p.calls.always(combination{e.PrettyName(), breaker.OutcomeSuccess.String()})
				p.duration(e)
			}
		}
	})
}

// duration is the histogram for the event.
func (p *pluginMetrics) duration(e api.Event) prometheus.Observer {
	if o := p.durations[e].Load(); o != nil {
		return *o
	}
	label := OtherSeries
	if slices.Contains(waitedFor(), e) {
		label = e.PrettyName()
	}
	o := p.all.histograms["plugin_call_duration_seconds"].WithLabelValues(p.name, label)
	p.durations[e].Store(&o)
	return o
}

func (p *pluginMetrics) call(e api.Event, o breaker.Outcome, took time.Duration) {
	p.do(func() {
		p.calls.inc(combination{e.PrettyName(), o.String()}, other())
		p.duration(e).Observe(took.Seconds())
	})
}

func (p *pluginMetrics) refused(r breaker.Reason) {
	if r != breaker.ReasonNone {
		p.count(p.refusals, combination{r.String()}, other())
	}
}

func (p *pluginMetrics) matched(d policy.Decision) {
	switch {
	case d.Err != nil:
		p.matchErrors.Inc()
	case d.Selected:
		p.selected.Inc()
	default:
		p.notSelected.Inc()
	}
}

func (p *pluginMetrics) fallback(action, reason string) {
	p.count(p.fallbacks, combination{action, reason}, combination{action, OtherSeries})
}

func (p *pluginMetrics) transition(t breaker.Transition) {
	p.count(p.transitions, combination{t.From.String(), t.To.String(), t.Cause.String()}, other())
}

func (p *pluginMetrics) started(result string) {
	p.do(func() { p.all.counters["plugin_starts_total"].WithLabelValues(p.name, result).Inc() })
}

// outputDropped counts lines of output that were left out.
func (p *pluginMetrics) outputDropped(lines int) { p.unheard.Add(float64(lines)) }

// oomKilled counts processes that the kernel killed for want of memory while the plugin went on.
func (p *pluginMetrics) oomKilled(n int) { p.ooms.Add(float64(n)) }

func (p *pluginMetrics) exited(reason string) { p.count(p.exits, combination{reason}, other()) }

func (p *pluginMetrics) info(id Identity) {
	p.do(func() {
		v := p.all.gauges["plugin_info"]
		v.DeletePartialMatch(prometheus.Labels{"plugin": p.name})
		v.WithLabelValues(p.name, p.team, limitLabel(id.Version), limitLabel(id.SHA256)).Set(1)
	})
}

func (p *pluginMetrics) phase(now plugin.Phase) {
	p.do(func() { p.all.setState(p.name, now.String()) })
}

func (p *pluginMetrics) adjusted(a *api.ContainerAdjustment) {
	policy.EachField(a, func(k policy.FieldKey) { p.adjustedField(k.Field) })
}

func (p *pluginMetrics) adjustedField(f policy.Field) {
	p.count(p.adjustments, combination{string(f)}, other())
}

func (p *pluginMetrics) denied(denials []policy.Denial) {
	for _, d := range denials {
		p.count(p.denials, combination{d.Label()}, other())
	}
}

// conflict counts a lost field against a plugin that had set it.
func (p *pluginMetrics) conflict(with, team, field string) {
	p.count(p.conflicts, combination{with, team, field}, other())
}

func (p *pluginMetrics) updates(source, result string) { p.manyUpdates(source, result, 1) }

// manyUpdates counts n updates with the same result.
func (p *pluginMetrics) manyUpdates(source, result string, n int) {
	p.do(func() { p.changes.add(combination{source, result}, other(), n) })
}

func (p *pluginMetrics) work(w store.Work) {
	if w.Missed {
		p.count(p.containers, combination{w.Reason}, other())
	}
}
