package supervisor

import (
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

const namespace = "nri_supervisor"

// durationBuckets are few, because a plugin may have a histogram for each of 14 events and at most 150 series in all: an in-memory answer, a system call or two, a look at another
// service, a timeout about to strike.
func durationBuckets() []float64 { return []float64{0.001, 0.01, 0.1, 0.5} }

// metrics are all metrics of a supervisor. Safe for concurrent use.
type metrics struct {
	calls       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	refused     *prometheus.CounterVec
	fallbacks   *prometheus.CounterVec
	decisions   *prometheus.CounterVec
	transitions *prometheus.CounterVec
	starts      *prometheus.CounterVec
	exits       *prometheus.CounterVec
	stale       *prometheus.CounterVec
	late        *prometheus.CounterVec
	adjustments *prometheus.CounterVec
	denied      *prometheus.CounterVec
	conflicts   *prometheus.CounterVec
	updates     *prometheus.CounterVec
	missed      *prometheus.CounterVec
	up          *prometheus.GaugeVec
	state       *prometheus.GaugeVec
	info        *prometheus.GaugeVec
	connected   prometheus.Gauge
	runtime     *prometheus.GaugeVec
	sessions    prometheus.Counter
	requests    *prometheus.HistogramVec
	lateAnswers *prometheus.CounterVec
	dropped     prometheus.Counter
	config      *prometheus.GaugeVec
}

func newMetrics(r *prometheus.Registry, s *Supervisor) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, labels)
		r.MustRegister(h)
		return h
	}
	m := &metrics{
		calls:       counter("plugin_calls_total", "Calls sent to a plugin, by event and outcome.", "plugin", "event", "outcome"),
		duration:    histogram("plugin_call_duration_seconds", "Time from the send of a call to its outcome.", durationBuckets(), "plugin", "event"),
		refused:     counter("plugin_calls_refused_total", "Calls that were not sent to a plugin, by reason.", "plugin", "reason"),
		fallbacks:   counter("fallbacks_total", "Events without a plugin's work, by what was done (ignore, fail) and why.", "plugin", "team", "action", "reason"),
		decisions:   counter("match_decisions_total", "Selection decisions: selected, not_selected, error.", "plugin", "decision"),
		transitions: counter("breaker_transitions_total", "Transitions of a plugin's circuit breaker.", "plugin", "from", "to", "cause"),
		starts:      counter("plugin_starts_total", "Starts of a plugin's process: success, failure.", "plugin", "result"),
		exits:       counter("plugin_exits_total", "Ends of a plugin's process, by reason.", "plugin", "reason"),
		stale:       counter("plugin_stale_inputs_total", "Timers and messages of something that was over already.", "plugin"),
		late:        counter("plugin_late_replies_total", "Replies that came after their call had been given up.", "plugin"),
		adjustments: counter("adjustments_total", "Adjustments made, by NRI field.", "plugin", "field"),
		denied:      counter("adjustments_denied_total", "Adjustments that a plugin was not granted, by NRI field.", "plugin", "field"),
		conflicts:   counter("conflicts_total", "Adjustments dropped because an earlier plugin had made them, by NRI field.", "plugin", "field"),
		updates:     counter("container_updates_total", "Container updates asked for by a plugin, by source and result.", "plugin", "source", "result"),
		missed:      counter("containers_missed_total", "Containers created without a plugin's work.", "plugin", "team", "reason"),
		up:          gauge("plugin_up", "1 while a plugin is in service.", "plugin"),
		state:       gauge("plugin_state", "1 for the state that a plugin is in.", "plugin", "state"),
		info:        gauge("plugin_info", "1; what runs.", "plugin", "team", "version", "sha256"),
		runtime:     gauge("runtime_info", "1; the runtime that the supervisor is registered with.", "runtime", "version", "nri_version"),
		requests: histogram("runtime_request_duration_seconds", "Time from the arrival of a request of the runtime to its answer.",
			[]float64{0.0001, 0.001, 0.01, 0.1, 0.5, 1, 2}, "event"),
		config:      gauge("config_info", "1; the SHA-256 of the configuration in force.", "hash"),
		lateAnswers: counter("runtime_deadline_missed_total", "Requests of the runtime that were not answered inside the budget. Stays 0.", "event"),
	}
	m.connected = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "runtime_connected", Help: "1 while registered with a runtime."})
	m.sessions = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "runtime_sessions_total", Help: "Registrations with a runtime."})
	m.dropped = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "log_events_dropped_total", Help: "Log events lost because the log was slow."})
	r.MustRegister(m.connected, m.sessions, m.dropped, collector{s})
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if e != api.Event_VALIDATE_CONTAINER_ADJUSTMENT {
			m.lateAnswers.WithLabelValues(e.PrettyName())
		}
	}
	return m
}

// request notes how long the answer to one request of the runtime took.
func (m *metrics) request(e api.Event, took time.Duration, late bool) {
	m.requests.WithLabelValues(e.PrettyName()).Observe(took.Seconds())
	if late {
		m.lateAnswers.WithLabelValues(e.PrettyName()).Inc()
	}
}

func (m *metrics) runtimeConnected(i RuntimeInfo) {
	m.connected.Set(1)
	m.sessions.Inc()
	m.runtime.Reset()
	m.runtime.WithLabelValues(i.Name, i.Version, i.NRIVersion).Set(1)
}

// configured shows which configuration is in force, and the manifests in it that cannot be used.
func (m *metrics) configured(cfg *policy.Config) {
	m.config.Reset()
	m.config.WithLabelValues(cfg.Hash).Set(1)
	for _, p := range cfg.Invalid {
		if cfg.Plugin(p.Name) == nil {
			m.invalid(p)
		}
	}
}

// forget drops every series of a plugin that has left the configuration.
func (m *metrics) forget(name string) {
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{
		m.calls, m.duration, m.refused, m.fallbacks, m.decisions, m.transitions, m.starts, m.exits, m.stale, m.late, m.adjustments, m.denied, m.conflicts, m.updates,
		m.missed, m.up, m.state, m.info,
	} {
		v.DeletePartialMatch(prometheus.Labels{"plugin": name})
	}
}

// invalid shows a manifest that cannot be used, if it has a name.
func (m *metrics) invalid(p policy.InvalidPlugin) {
	if p.Name == "" {
		return
	}
	m.up.WithLabelValues(p.Name).Set(0)
	for _, s := range pluginStates() {
		m.state.WithLabelValues(p.Name, s).Set(0)
	}
	m.state.WithLabelValues(p.Name, stateInvalid).Set(1)
}
