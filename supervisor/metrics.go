package supervisor

import (
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// metrics are all metrics of a supervisor. Safe for concurrent use.
type metrics struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
	dropped    prometheus.Counter
}

// What becomes of the lines for the audit file.
const (
	auditWritten = "written"
	auditLost    = "lost"
)

// collected are the metrics that are read at the time of a scrape; the others are counted as things happen.
func collected() []string {
	return []string{"breaker_state", "breaker_open_seconds_total", "lane_seconds_total", "missed_containers", "selected_containers", "bypass", "audit_lines_total", "plugin_memory_bytes", "plugin_memory_limit_bytes"}
}

func newMetrics(r *prometheus.Registry, s *Supervisor) *metrics {
	m := &metrics{counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{}, histograms: map[string]*prometheus.HistogramVec{}}
	c := collector{s: s, descs: map[string]*prometheus.Desc{}}
	for _, d := range Metrics() {
		m.register(r, d, c)
	}
	r.MustRegister(c)
	m.dropped = m.counters["log_events_dropped_total"].WithLabelValues()
	m.counters["runtime_sessions_total"].WithLabelValues()
	m.gauges["runtime_connected"].WithLabelValues().Set(0)
	m.gauges["build_info"].WithLabelValues(limitLabel(s.opts.Version)).Set(1)
	m.gauges["start_time_seconds"].WithLabelValues().Set(seconds(s.started))
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if e != api.Event_VALIDATE_CONTAINER_ADJUSTMENT {
			m.counters["runtime_deadline_missed_total"].WithLabelValues(e.PrettyName())
		}
	}
	for _, result := range []string{reloadSuccess, reloadPartial, reloadFailure} {
		m.counters["config_reloads_total"].WithLabelValues(result)
	}
	return m
}

func (m *metrics) register(r *prometheus.Registry, d Metric, c collector) {
	for _, name := range collected() {
		if name == d.Name {
			c.descs[name] = d.desc()
			return
		}
	}
	switch d.Kind {
	case MetricCounter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: d.Name, Help: d.Help}, d.labelNames())
		m.counters[d.Name] = v
		r.MustRegister(v)
	case MetricGauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: d.Name, Help: d.Help}, d.labelNames())
		m.gauges[d.Name] = v
		r.MustRegister(v)
	case MetricHistogram:
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: d.Name, Help: d.Help, Buckets: d.Buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, d.labelNames())
		m.histograms[d.Name] = v
		r.MustRegister(v)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// configured shows which configuration is in force, and the manifests in it that cannot be used.
func (m *metrics) configured(cfg *policy.Config) {
	m.gauges["config_info"].Reset()
	m.gauges["config_info"].WithLabelValues(cfg.Hash).Set(1)
	for n, p := 0, cfg.Invalid; n < mostListed && len(p) > 0; p = p[1:] {
		if cfg.Plugin(p[0].Name) == nil {
			m.invalid(p[0])
			n++
		}
	}
}

// reloaded notes that the configuration was read, and what came of it.
func (m *metrics) reloaded(result string, at time.Time) {
	successful := m.gauges["config_last_reload_successful"].WithLabelValues()
	last := m.gauges["config_last_reload_timestamp_seconds"].WithLabelValues()
	m.counters["config_reloads_total"].WithLabelValues(result).Inc()
	successful.Set(oneIf(result == reloadSuccess))
	if result != reloadSuccess {
		return
	}
	last.Set(seconds(at))
}

// request notes how long the answer to one request of the runtime took.
func (m *metrics) request(e api.Event, took time.Duration, late bool) {
	m.histograms["runtime_request_duration_seconds"].WithLabelValues(e.PrettyName()).Observe(took.Seconds())
	if late {
		m.counters["runtime_deadline_missed_total"].WithLabelValues(e.PrettyName()).Inc()
	}
}

func (m *metrics) runtimeConnected(i RuntimeInfo) {
	m.gauges["runtime_connected"].WithLabelValues().Set(1)
	m.counters["runtime_sessions_total"].WithLabelValues().Inc()
	m.gauges["runtime_info"].Reset()
	m.gauges["runtime_info"].WithLabelValues(limitLabel(i.Name), limitLabel(i.Version), limitLabel(i.NRIVersion)).Set(1)
}

func (m *metrics) runtimeGone() { m.gauges["runtime_connected"].WithLabelValues().Set(0) }

// invalid shows a manifest that cannot be used, if it has a name.
func (m *metrics) invalid(p policy.InvalidPlugin) {
	if p.Name == "" {
		return
	}
	m.setState(p.Name, stateInvalid)
}

// unmet counts a container that was refused for the sake of a required plugin that is not hosted. A name that comes from an annotation is no label: both values are then [OtherSeries], and so
// is a team that is not known.
func (m *metrics) unmet(cfg *policy.Config, plugin string) {
	name, team := OtherSeries, OtherSeries
	if slices.Contains(requiredNames(cfg), plugin) {
		name = plugin
		if i := slices.IndexFunc(cfg.Invalid, func(p policy.InvalidPlugin) bool { return p.Name == plugin }); i >= 0 && cfg.Invalid[i].Team != "" {
			team = limitLabel(cfg.Invalid[i].Team)
		}
	}
	m.counters["fallbacks_total"].WithLabelValues(name, team, actionFail, ReasonRequired).Inc()
}

// requiredNames are the names of requiredPlugins that may be labels.
func requiredNames(cfg *policy.Config) []string {
	return cfg.Supervisor.RequiredPlugins[:min(len(cfg.Supervisor.RequiredPlugins), mostListed)]
}

// setState shows the state of a plugin; "" is none of them.
func (m *metrics) setState(plugin, state string) {
	for _, s := range pluginStates() {
		m.gauges["plugin_state"].WithLabelValues(plugin, s).Set(oneIf(s == state))
	}
	m.gauges["plugin_up"].WithLabelValues(plugin).Set(oneIf(state == stateReady))
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// forget drops every series with these labels.
func (m *metrics) forget(l prometheus.Labels) {
	for _, v := range m.counters {
		v.DeletePartialMatch(l)
	}
	for _, v := range m.gauges {
		v.DeletePartialMatch(l)
	}
	for _, v := range m.histograms {
		v.DeletePartialMatch(l)
	}
}
