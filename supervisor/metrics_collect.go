package supervisor

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
)

// collector reads what is known elsewhere at the time of a scrape. It changes nothing: no breaker, no plugin.
type collector struct {
	s     *Supervisor
	descs map[string]*prometheus.Desc
}

// Describe sends nothing: the collector is unchecked, its series come and go.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the state of breakers, lanes and missing work.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, v, labels...)
	}
	counter := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, v, labels...)
	}
	var lines audit.Stats
	if c.s.opts.Audit != nil {
		lines = c.s.opts.Audit.Stats()
	}
	counter("audit_lines_total", float64(lines.Written), auditWritten)
	counter("audit_lines_total", float64(lines.Lost), auditLost)
	gauge("bypass", oneIf(c.s.bypassed()))
	plan, told := c.s.plan(), map[string]bool{}
	invalid, _ := listed(plan.invalid())
	for _, p := range invalid { // nothing of it is selected, but alerts on it need its team
		if p.Name != "" && !told[p.Name] {
			told[p.Name] = true
			gauge("selected_containers", 0, p.Name, limitLabel(p.Team))
		}
	}
	hosts := plan.hosts
	missed, selected := c.missed(hosts), c.s.store.SelectedCounts()
	for _, h := range hosts {
		name, team := h.name, h.policy().Team
		now := h.guard.State()
		for _, st := range breaker.States() {
			gauge("breaker_state", oneIf(st == now), name, team, st.String())
		}
		counter("breaker_open_seconds_total", h.guard.OpenSeconds(), name)
		counter("lane_seconds_total", h.guard.LaneSeconds(), name)
		gauge("selected_containers", float64(selected[name]), name, team)
		if now := h.view.Load().measured; now != nil {
			if used := now.Usage(); used.Memory > 0 {
				gauge("plugin_memory_bytes", float64(used.Memory), name, team)
				if used.MemoryLimit > 0 {
					gauge("plugin_memory_limit_bytes", float64(used.MemoryLimit), name, team)
				}
			}
		}
		for _, m := range missed[name] {
			gauge("missed_containers", float64(m.Count), name, team, m.Reason)
		}
	}
}

// missed counts the missing work by plugin and reason. Reasons beyond the series of a plugin are taken together.
func (c collector) missed(hosts []*host) map[string][]ReasonSum {
	out := map[string][]ReasonSum{}
	for k, n := range c.s.store.MissedCounts() {
		out[k.Plugin] = append(out[k.Plugin], ReasonSum{Reason: k.Reason, Count: n})
	}
	for _, h := range hosts {
		list := out[h.name]
		sortReasons(list) // the same ones get a series, whatever the order of the map
		var kept []ReasonSum
		for _, m := range list {
			reason := h.met.missed.place(combination{m.Reason}, other())[0]
			i := slices.IndexFunc(kept, func(k ReasonSum) bool { return k.Reason == reason })
			if i < 0 {
				kept = append(kept, ReasonSum{Reason: reason})
				i = len(kept) - 1
			}
			kept[i].Count += m.Count
		}
		out[h.name] = kept
	}
	return out
}
