package supervisor

import (
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// namespace is the prefix of every metric.
const namespace = "nri_supervisor"

// MetricKind is the type of a metric. The set is closed; the zero value is MetricCounter.
type MetricKind uint8

// The kinds.
const (
	// MetricCounter only grows, but for a restart of the service or of what its labels name.
	MetricCounter MetricKind = iota
	// MetricGauge goes up and down.
	MetricGauge
	// MetricHistogram counts by size, in classic buckets and as a native histogram.
	MetricHistogram
)

// String returns the type as Prometheus writes it: counter, gauge or histogram.
func (k MetricKind) String() string {
	return []string{"counter", "gauge", "histogram"}[k]
}

// MetricLabel is one label of a metric.
type MetricLabel struct {
	Name string
	// Values are all values there can be, in the order in which they are explained; nil for names and versions, which are the operator's or the runtime's.
	Values []string
	// Other says that what does not fit into a plugin's series is counted under the value [OtherSeries].
	Other bool
}

// OtherSeries is the label value for what does not fit into the series of one plugin: see [MaxPluginSeries].
const OtherSeries = "other"

// Metric describes one metric. The table of [Metrics] is what metrics are made from, and what docs/metrics.md shows.
type Metric struct {
	// Name without the prefix nri_supervisor_.
	Name   string
	Kind   MetricKind
	Labels []MetricLabel
	// Unit of the value: seconds, bytes, or a noun for what is counted.
	Unit string
	// Help is its meaning in one sentence.
	Help string
	// Buckets of a histogram, in Unit.
	Buckets []float64
}

// FullName is the name as it is exposed.
func (m Metric) FullName() string { return namespace + "_" + m.Name }

// labelNames are the names alone.
func (m Metric) labelNames() []string {
	out := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		out[i] = l.Name
	}
	return out
}

// desc is the metric for the collector.
func (m Metric) desc() *prometheus.Desc {
	return prometheus.NewDesc(m.FullName(), m.Help, m.labelNames(), nil)
}

// waitedFor are the events for which the runtime waits, each with a histogram of its own for each plugin; those that delay nobody share one, under OtherSeries.
func waitedFor() []api.Event {
	return []api.Event{
		api.Event_RUN_POD_SANDBOX, api.Event_UPDATE_POD_SANDBOX, api.Event_CREATE_CONTAINER, api.Event_START_CONTAINER, api.Event_UPDATE_CONTAINER,
		api.Event_STOP_CONTAINER, api.Event_STOP_POD_SANDBOX,
	}
}

func eventNames(events []api.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.PrettyName()
	}
	return out
}

func allEventNames() []string {
	var out []api.Event
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		out = append(out, e)
	}
	return eventNames(out)
}

// names are the label values of a closed set.
func names[T interface{ String() string }](set []T) []string {
	out := make([]string, len(set))
	for i, v := range set {
		out[i] = v.String()
	}
	return out
}

// missedReasons are all reasons for missing work: refusals, bad outcomes, and what no call explains.
func missedReasons() []string {
	out := names(breaker.Reasons())
	for _, o := range breaker.Outcomes() {
		if o != breaker.OutcomeSuccess && o != breaker.OutcomeRejected && !slices.Contains(out, o.String()) {
			out = append(out, o.String())
		}
	}
	return append(out, reasonSupervisorDown, reasonBeforeInstall, reasonStateLost)
}

// OutcomeNames returns what a decision of the journal can have as its outcome or its reason.
func OutcomeNames() []string {
	return append([]string{breaker.OutcomeSuccess.String(), breaker.OutcomeRejected.String(), ReasonRequired}, missedReasons()...)
}

// EventNames returns what a decision of the journal can have as its event: NRI's names.
func EventNames() []string { return append(allEventNames(), eventSynchronize, eventUnsolicited) }

// exitReasons are how a process can end; the Launcher gives them.
func exitReasons() []string {
	return []string{"clean", "exit_code", "signal", "oom", "hung", "health", "start_failed", "stopped", "disconnected"}
}

func fieldNames() []string {
	var out []string
	for _, f := range append(policy.Fields(), policy.FieldUnknown) {
		out = append(out, string(f))
	}
	return out
}

// limitLabel bounds the text of strangers that becomes a label value: 64 bytes of letters, digits and ._+-~:/@, whatever else is _.
func limitLabel(s string) string {
	const most = 64
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._+-~:/@", r):
			return r
		}
		return '_'
	}, s[:min(len(s), most)])
}
