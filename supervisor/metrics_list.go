package supervisor

import (
	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// Metrics returns every metric that there is, in the order of docs/metrics.md. The caller may change what it gets.
func Metrics() []Metric {
	return append(append(callMetrics(), lifeMetrics()...), nodeMetrics()...)
}

func open(names ...string) []MetricLabel {
	var out []MetricLabel
	for _, n := range names {
		out = append(out, MetricLabel{Name: n})
	}
	return out
}

func closed(name string, values ...string) MetricLabel {
	return MetricLabel{Name: name, Values: values}
}

// pooled is a label whose values share the series of a plugin.
func pooled(name string, values ...string) MetricLabel {
	return MetricLabel{Name: name, Values: values, Other: true}
}

// callMetrics are about the events of the runtime and what became of each plugin's part.
func callMetrics() []Metric {
	plugin, owned := open("plugin"), open("plugin", "team")
	return []Metric{
		{
			Name: "plugin_calls_total", Unit: "calls", Help: "Calls sent to a plugin, by event and outcome.",
			Labels: append(plugin, pooled("event", allEventNames()...), pooled("outcome", names(breaker.Outcomes())...)),
		},
		{
			Name: "plugin_call_duration_seconds", Kind: MetricHistogram, Unit: "seconds", Buckets: []float64{0.005, 0.05, 0.5},
			Help:   "Time from the send of a call to its outcome; events that delay nobody are taken together as other.",
			Labels: append(plugin, closed("event", append(eventNames(waitedFor()), OtherSeries)...)),
		},
		{
			Name: "plugin_calls_refused_total", Unit: "calls", Help: "Calls that were not sent to a plugin, by reason.",
			Labels: append(plugin, pooled("reason", names(breaker.Reasons())...)),
		},
		{Name: "plugin_late_replies_total", Unit: "replies", Help: "Replies that came after their call had been given up.", Labels: plugin},
		{Name: "plugin_stale_inputs_total", Unit: "messages", Help: "Timers and messages of something that was over already.", Labels: plugin},
		{
			Name: "fallbacks_total", Unit: "events", Help: "Events without a plugin's work, by what was done and why.",
			Labels: append(owned, closed("action", actionIgnore, actionFail), pooled("reason", append(missedReasons(), ReasonRequired)...)),
		},
		{
			Name: "containers_missed_total", Unit: "containers", Help: "Containers created without a plugin's work.",
			Labels: append(owned, pooled("reason", missedReasons()...)),
		},
		{
			Name: "missed_containers", Kind: MetricGauge, Unit: "containers", Help: "Living containers that run without a plugin's work.",
			Labels: append(owned, pooled("reason", missedReasons()...)),
		},
		{
			Name: "match_decisions_total", Unit: "decisions", Help: "Selection decisions.",
			Labels: append(plugin, closed("decision", decisionSelected, decisionNotSelected, decisionError)),
		},
		{Name: "selected_containers", Kind: MetricGauge, Unit: "containers", Help: "Living containers that a plugin selected.", Labels: owned},
		{Name: "lane_seconds_total", Unit: "seconds", Help: "Time for which events waited for a plugin; meanwhile every other pod of the node waits too.", Labels: plugin},
		{Name: "adjustments_total", Unit: "adjustments", Help: "Adjustments made, by NRI field.", Labels: append(plugin, pooled("field", fieldNames()...))},
		{
			Name: "adjustments_denied_total", Unit: "adjustments", Help: "Adjustments that a plugin was not granted, by NRI field, or rule for one of permissions.rules.",
			Labels: append(plugin, pooled("field", append(fieldNames(), policy.Denial{}.Label())...)),
		},
		{
			Name: "conflicts_total", Unit: "adjustments", Help: "Adjustments dropped because an earlier plugin, with, had made them, by NRI field.",
			Labels: append(owned, pooled("with"), pooled("with_team"), pooled("field", fieldNames()...)),
		},
		{
			Name: "container_updates_total", Unit: "updates", Help: "Container updates asked for by a plugin: in a reply to an event, or unsolicited.",
			Labels: append(plugin, pooled("source", "reply", "unsolicited"), pooled("result", "accepted", "denied", "unsupported", "conflict", "sent", "failed")),
		},
	}
}

// lifeMetrics are about each plugin's process and its breaker.
func lifeMetrics() []Metric {
	plugin, owned := open("plugin"), open("plugin", "team")
	return []Metric{
		{Name: "plugin_up", Kind: MetricGauge, Unit: "0 or 1", Help: "1 while a plugin is in state ready.", Labels: plugin},
		{Name: "plugin_state", Kind: MetricGauge, Unit: "0 or 1", Help: "1 for the state that a plugin is in.", Labels: append(plugin, closed("state", pluginStates()...))},
		{Name: "plugin_info", Kind: MetricGauge, Unit: "always 1", Help: "What runs: the plugin's own version, and the SHA-256 of its file.", Labels: append(owned, open("version", "sha256")...)},
		{Name: "plugin_starts_total", Unit: "starts", Help: "Starts of a plugin's process.", Labels: append(plugin, closed("result", startSuccess, startFailure))},
		{Name: "plugin_exits_total", Unit: "exits", Help: "Ends of a plugin's process, by reason.", Labels: append(plugin, pooled("reason", exitReasons()...))},
		{
			Name: "plugin_oom_kills_total", Unit: "processes",
			Help: "Processes of a plugin that the kernel killed for want of memory while the plugin itself went on; its own end is in plugin_exits_total.", Labels: plugin,
		},
		{
			Name: "plugin_memory_bytes", Kind: MetricGauge, Unit: "bytes",
			Help: "Memory of a plugin's control group, without file pages that nobody used lately; absent where the host does not count it.", Labels: owned,
		},
		{Name: "plugin_memory_limit_bytes", Kind: MetricGauge, Unit: "bytes", Help: "resources.limits.memory of a plugin; absent without one.", Labels: owned},
		{Name: "plugin_output_dropped_total", Unit: "lines", Help: "Lines that a plugin wrote faster than they are logged, and that were left out.", Labels: plugin},
		{
			Name: "breaker_state", Kind: MetricGauge, Unit: "0 or 1", Help: "1 for the state that a plugin's circuit breaker is in.",
			Labels: append(owned, closed("state", names(breaker.States())...)),
		},
		{
			Name: "breaker_transitions_total", Unit: "transitions", Help: "Transitions of a plugin's circuit breaker.",
			Labels: append(plugin, pooled("from", names(breaker.States())...), pooled("to", names(breaker.States())...), pooled("cause", names(breaker.Causes())...)),
		},
		{Name: "breaker_open_seconds_total", Unit: "seconds", Help: "Time for which a plugin's circuit breaker has been open.", Labels: plugin},
	}
}

// nodeMetrics are about the supervisor and the runtime.
func nodeMetrics() []Metric {
	event := []MetricLabel{closed("event", allEventNames()...)}
	return []Metric{
		{Name: "runtime_connected", Kind: MetricGauge, Unit: "0 or 1", Help: "1 while registered with a runtime."},
		{Name: "runtime_sessions_total", Unit: "registrations", Help: "Registrations with a runtime."},
		{Name: "runtime_info", Kind: MetricGauge, Unit: "always 1", Help: "The runtime that the supervisor is registered with.", Labels: open("runtime", "version", "nri_version")},
		{
			Name: "runtime_request_duration_seconds", Kind: MetricHistogram, Unit: "seconds", Buckets: []float64{0.0001, 0.001, 0.01, 0.1, 0.5, 1, 2},
			Help: "Time from the arrival of a request of the runtime to its answer.", Labels: event,
		},
		{Name: "runtime_deadline_missed_total", Unit: "requests", Help: "Requests of the runtime that were not answered inside the budget. Stays 0.", Labels: event},
		{Name: "build_info", Kind: MetricGauge, Unit: "always 1", Help: "The version of the supervisor.", Labels: open("version")},
		{Name: "start_time_seconds", Kind: MetricGauge, Unit: "seconds since 1970", Help: "When the supervisor was started."},
		{Name: "bypass", Kind: MetricGauge, Unit: "0 or 1", Help: "1 while an operator keeps every plugin from being called."},
		{Name: "config_info", Kind: MetricGauge, Unit: "always 1", Help: "The SHA-256 of the configuration in force.", Labels: open("hash")},
		{Name: "config_reloads_total", Unit: "reloads", Help: "Loads of the configuration, the first included.", Labels: []MetricLabel{closed("result", reloadSuccess, reloadPartial, reloadFailure)}},
		{Name: "config_last_reload_successful", Kind: MetricGauge, Unit: "0 or 1", Help: "1 if the last load of the configuration found no mistake."},
		{Name: "config_last_reload_timestamp_seconds", Kind: MetricGauge, Unit: "seconds since 1970", Help: "When the configuration was last loaded without a mistake."},
		{Name: "log_events_dropped_total", Unit: "log lines", Help: "Log lines lost because whoever reads the log was slow."},
		{
			Name: "audit_lines_total", Unit: "lines", Help: "Lines for the audit file, written or lost because the disk did not take them.",
			Labels: []MetricLabel{closed("result", auditWritten, auditLost)},
		},
	}
}
