package supervisor

import (
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// stateInvalid is the state of a plugin whose manifest cannot be used; it never gets a machine.
const stateInvalid = "invalid"

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

	stale, late           prometheus.Counter
	selected, notSelected prometheus.Counter
	matchErrors           prometheus.Counter
	refusals              map[breaker.Reason]prometheus.Counter
}

func (m *metrics) plugin(name, team string) *pluginMetrics {
	p := &pluginMetrics{
		all: m, name: name, team: team,
		stale: m.stale.WithLabelValues(name), late: m.late.WithLabelValues(name),
		selected: m.decisions.WithLabelValues(name, "selected"), notSelected: m.decisions.WithLabelValues(name, "not_selected"),
		matchErrors: m.decisions.WithLabelValues(name, "error"),
		refusals:    map[breaker.Reason]prometheus.Counter{},
	}
	for _, r := range breaker.Reasons() {
		if r != breaker.ReasonNone {
			p.refusals[r] = m.refused.WithLabelValues(name, r.String())
		}
	}
	m.starts.WithLabelValues(name, "success")
	m.starts.WithLabelValues(name, "failure")
	p.phase(plugin.Stopped)
	return p
}

// count adds one to a series of the plugin.
func (p *pluginMetrics) count(v *prometheus.CounterVec, labels ...string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.over {
		v.WithLabelValues(labels...).Inc()
	}
}

// forget drops the plugin's series; what is counted later goes nowhere.
func (p *pluginMetrics) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.all.forget(p.name)
}

// subscribed makes the series of the events that the plugin subscribed to appear with 0.
func (p *pluginMetrics) subscribed(mask api.EventMask) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.over {
		return
	}
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if mask.IsSet(e) {
			p.all.calls.WithLabelValues(p.name, e.PrettyName(), breaker.OutcomeSuccess.String())
			p.all.duration.WithLabelValues(p.name, e.PrettyName())
		}
	}
}

func (p *pluginMetrics) call(e api.Event, o breaker.Outcome, took time.Duration) {
	p.count(p.all.calls, p.name, e.PrettyName(), o.String())
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.over {
		p.all.duration.WithLabelValues(p.name, e.PrettyName()).Observe(took.Seconds())
	}
}

func (p *pluginMetrics) refused(r breaker.Reason) {
	if c := p.refusals[r]; c != nil {
		c.Inc()
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
	p.count(p.all.fallbacks, p.name, p.team, action, reason)
}

func (p *pluginMetrics) transition(t breaker.Transition) {
	p.count(p.all.transitions, p.name, t.From.String(), t.To.String(), t.Cause.String())
}

func (p *pluginMetrics) started(result string) { p.count(p.all.starts, p.name, result) }
func (p *pluginMetrics) exited(reason string)  { p.count(p.all.exits, p.name, reason) }

func (p *pluginMetrics) info(id Identity) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.over {
		return
	}
	p.all.info.DeletePartialMatch(prometheus.Labels{"plugin": p.name})
	p.all.info.WithLabelValues(p.name, p.team, id.Version, id.SHA256).Set(1)
}

func (p *pluginMetrics) phase(now plugin.Phase) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.over {
		return
	}
	for _, s := range pluginStates() {
		v := 0.0
		if s == now.String() {
			v = 1
		}
		p.all.state.WithLabelValues(p.name, s).Set(v)
	}
	up := 0.0
	if now == plugin.Ready {
		up = 1
	}
	p.all.up.WithLabelValues(p.name).Set(up)
}

func (p *pluginMetrics) adjusted(fields []policy.FieldKey) {
	for _, f := range fields {
		p.count(p.all.adjustments, p.name, string(f.Field))
	}
}

func (p *pluginMetrics) denied(fields []string) {
	for _, f := range fields {
		p.count(p.all.denied, p.name, f)
	}
}

func (p *pluginMetrics) conflict(field string) { p.count(p.all.conflicts, p.name, field) }

func (p *pluginMetrics) updates(source, result string) {
	p.count(p.all.updates, p.name, source, result)
}

func (p *pluginMetrics) work(w store.Work) {
	if w.Missed {
		p.count(p.all.missed, p.name, p.team, w.Reason)
	}
}

// collector reads what is known elsewhere at the time of a scrape. It changes nothing.
type collector struct{ s *Supervisor }

// Describe sends nothing: the collector is unchecked, its series come and go.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the state of breakers, lanes and missing work.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	state := desc("breaker_state", "1 for the state that a plugin's circuit breaker is in.", "plugin", "team", "state")
	open := desc("breaker_open_seconds_total", "Time for which a plugin's circuit breaker has been open.", "plugin")
	lane := desc("lane_seconds_total", "Time for which events waited for a plugin; meanwhile every other pod of the node waits too.", "plugin")
	missed := desc("missed_containers", "Living containers that run without a plugin's work.", "plugin", "team", "reason")
	now := c.s.plan()
	for _, h := range now.hosts {
		shown := h.guard.State()
		for _, st := range breaker.States() {
			v := 0.0
			if st == shown {
				v = 1
			}
			ch <- prometheus.MustNewConstMetric(state, prometheus.GaugeValue, v, h.name, h.policy().Team, st.String())
		}
		ch <- prometheus.MustNewConstMetric(open, prometheus.CounterValue, h.guard.OpenSeconds(), h.name)
		ch <- prometheus.MustNewConstMetric(lane, prometheus.CounterValue, h.guard.LaneSeconds(), h.name)
	}
	for k, n := range c.s.store.MissedCounts() {
		if h := now.byName[k.Plugin]; h != nil {
			ch <- prometheus.MustNewConstMetric(missed, prometheus.GaugeValue, float64(n), k.Plugin, h.policy().Team, k.Reason)
		}
	}
}
