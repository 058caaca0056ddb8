package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// still is a supervisor that does not run, with its registry.
func still(tb testing.TB, cfg *policy.Config) (*Supervisor, *prometheus.Registry) {
	tb.Helper()
	r := prometheus.NewRegistry()
	return New(Options{Config: cfg, Registry: r, Version: "v1.2.3"}), r
}

// halfFull is an incarnation that uses half of its memory.
type halfFull struct{}

func (halfFull) Usage() Usage { return Usage{Memory: 32 << 20, MemoryLimit: 64 << 20} }

// everything happens to a plugin: each call with each outcome, each refusal, fallback, transition, exit, field and update.
func everything(s *Supervisor, h *host) (calls int) {
	h.met.subscribed(api.ValidEvents)
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		for _, o := range breaker.Outcomes() {
			h.met.call(e, o, time.Millisecond)
			calls++
		}
		s.metrics.request(e, time.Millisecond, true)
	}
	for _, r := range breaker.Reasons() {
		h.met.refused(r)
	}
	h.met.fallback(actionFail, ReasonRequired)
	for i, r := range missedReasons() {
		h.met.fallback(actionIgnore, r)
		h.met.fallback(actionFail, r)
		p, c := pod(fmt.Sprint("p", i), "x", "1"), ctr(fmt.Sprint("p", i), fmt.Sprint("c", i))
		s.store.ObserveCreation(p, c, time.Now())
		ref := store.Ref{Pod: p.GetId(), Container: c.GetId()}
		w := store.Work{Plugin: h.name, Reason: r, Missed: true}
		s.store.SetCreated(ref)
		s.store.SetWork(ref, w)
		h.met.work(w)
	}
	for _, from := range breaker.States() {
		for _, to := range breaker.States() {
			for _, c := range breaker.Causes() {
				h.met.transition(breaker.Transition{From: from, To: to, Cause: c})
			}
		}
	}
	for _, r := range exitReasons() {
		h.met.exited(r)
	}
	for _, f := range fieldNames() {
		h.met.adjustedField(policy.Field(f))
		h.met.denied([]policy.Denial{{Field: policy.Field(f)}})
		h.met.conflict("other-plugin", "t", f)
	}
	for _, source := range []string{"reply", "unsolicited"} {
		for _, result := range []string{"accepted", "denied", "unsupported", "conflict", "sent", "failed"} {
			h.met.updates(source, result)
		}
	}
	view := *h.view.Load()
	view.measured = halfFull{}
	h.view.Store(&view)
	h.met.info(Identity{Version: "1", SHA256: strings.Repeat("a", 64)})
	h.met.info(Identity{Version: "2", SHA256: strings.Repeat("b", 64)})
	for _, p := range plugin.Phases() {
		h.met.phase(p)
	}
	h.met.matched(policy.Decision{Selected: true})
	s.metrics.runtimeConnected(RuntimeInfo{Name: "fake", Version: "1", NRIVersion: "v0.12.5"})
	return calls
}

func gather(tb testing.TB, r *prometheus.Registry) []*dto.MetricFamily {
	tb.Helper()
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	return families
}

// lines is how many lines of an exposition a metric takes.
func lines(m *dto.Metric) int {
	h := m.GetHistogram()
	if h == nil {
		return 1
	}
	n := 2 // sum and count
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() < 1e300 {
			n++
		}
	}
	return n + 1 // +Inf
}

func labelsOf(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

func TestAPluginHasAtMost150SeriesWhateverHappensToIt(t *testing.T) {
	t.Parallel()
	s, r := still(t, load(t, [2]string{"p", sel("x")}, [2]string{"q", sel("y")}))
	calls := everything(s, s.plan().byName["p"])
	series, counted, missed := map[string]int{}, 0, 0
	for _, f := range gather(t, r) {
		for _, m := range f.GetMetric() {
			l := labelsOf(m)
			series[l["plugin"]] += lines(m)
			if f.GetName() == "nri_supervisor_plugin_calls_total" && l["plugin"] == "p" {
				counted += int(m.GetCounter().GetValue())
			}
			if f.GetName() == "nri_supervisor_missed_containers" && l["plugin"] == "p" {
				missed += int(m.GetGauge().GetValue())
			}
		}
	}
	t.Logf("%d series after everything, %d before anything", series["p"], series["q"])
	if series["p"] > MaxPluginSeries {
		t.Errorf("a plugin has %d series, more than %d", series["p"], MaxPluginSeries)
	}
	if counted != calls {
		t.Errorf("plugin_calls_total sums up to %d, want %d: what has no series of its own is counted as other", counted, calls)
	}
	if want := len(missedReasons()); missed != want {
		t.Errorf("missed_containers sums up to %d, want %d", missed, want)
	}
}

func TestWhatIsExposedIsWhatTheTableOfMetricsSays(t *testing.T) {
	t.Parallel()
	s, r := still(t, load(t, [2]string{"p", sel("x")}))
	everything(s, s.plan().byName["p"])
	table := map[string]Metric{}
	for _, m := range Metrics() {
		if _, twice := table[m.FullName()]; twice {
			t.Errorf("%s is in the table twice", m.Name)
		}
		table[m.FullName()] = m
	}
	for _, f := range gather(t, r) {
		d, known := table[f.GetName()]
		if !known {
			t.Errorf("%s is not in the table", f.GetName())
			continue
		}
		delete(table, f.GetName())
		if got := strings.ToLower(f.GetType().String()); got != d.Kind.String() {
			t.Errorf("%s is a %s, in the table a %s", d.Name, got, d.Kind)
		}
		want := slices.Sorted(slices.Values(d.labelNames()))
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetName())
			}
			if diff := cmp.Diff(want, got); len(want)+len(got) > 0 && diff != "" {
				t.Errorf("labels of %s (-table +exposed):\n%s", d.Name, diff)
			}
			for name, value := range labelsOf(m) {
				i := slices.IndexFunc(d.Labels, func(l MetricLabel) bool { return l.Name == name })
				if l := d.Labels[i]; l.Values != nil && !slices.Contains(l.Values, value) && (!l.Other || value != OtherSeries) {
					t.Errorf("%s{%s=%q} is not among the label's values", d.Name, name, value)
				}
			}
		}
	}
	for name := range table {
		t.Errorf("%s is in the table and never exposed", name)
	}
}

// TestAnInvalidPluginHasATeamInTheMetrics: the alert on it has to say whom to call. What is broken twice is told once.
func TestAnInvalidPluginHasATeamInTheMetrics(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"p", sel("x")})
	cfg.Invalid = []policy.InvalidPlugin{{Name: "bad", Team: "storage"}, {Name: "bad", Team: "web"}, {Team: "nameless"}, {Name: "p", Team: "t"}}
	_, r := still(t, cfg)
	teams := map[string][]string{}
	for _, f := range gather(t, r) {
		if f.GetName() == "nri_supervisor_selected_containers" {
			for _, m := range f.GetMetric() {
				l := labelsOf(m)
				teams[l["plugin"]] = append(teams[l["plugin"]], l["team"])
			}
		}
	}
	if diff := cmp.Diff(map[string][]string{"bad": {"storage"}, "p": {"t"}}, teams); diff != "" {
		t.Errorf("teams by plugin (-want +got):\n%s", diff)
	}
}

func TestAScrapeChangesNoBreaker(t *testing.T) {
	t.Parallel()
	cfg := load(t, [2]string{"p", sel("x") + "  breaker: {openDuration: 1s}\n"})
	synctest.Test(t, func(t *testing.T) {
		s, r := still(t, cfg)
		h := s.plan().byName["p"]
		for i := range 3 {
			ticket, reason := h.guard.AdmitCall(breaker.Call{Pod: fmt.Sprint(i), Work: "CreateContainer/c"})
			if reason != breaker.ReasonNone {
				t.Fatal(reason)
			}
			ticket.Sent()
			ticket.End(breaker.OutcomeError)
			ticket.Returned()
		}
		if got := h.guard.State(); got != breaker.StateOpen {
			t.Fatalf("the breaker is %s", got)
		}
		time.Sleep(time.Hour) // the open time is over: the next call, and only it, is a probe
		before := h.guard.Snapshot()
		for range 10 {
			gather(t, r)
			_ = s.Status()
		}
		after := h.guard.Snapshot()
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("a scrape changed the breaker (-before +after):\n%s", diff)
		}
	})
}

func TestTextOfStrangersIsBoundedInLabels(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"v1.2.3-rc.1+build~5":         "v1.2.3-rc.1+build~5",
		"1.0 \"x\"\n":                 "1.0__x__",
		"ü":                           "_",
		strings.Repeat("a", 70):       strings.Repeat("a", 64),
		strings.Repeat("a", 63) + "ü": strings.Repeat("a", 63) + "_",
		"":                            "",
	} {
		if got := limitLabel(in); got != want {
			t.Errorf("limitLabel(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAPluginThatLeftHasNoSeries(t *testing.T) {
	t.Parallel()
	s, r := still(t, load(t, [2]string{"p", sel("x")}))
	everything(s, s.plan().byName["p"])
	s.plan().byName["p"].met.forget(false)
	s.plan().byName["p"].met.fallback(actionFail, "late")
	s.inForce.Store(newPlan(2, &policy.Config{}, nil))
	for _, f := range gather(t, r) {
		for _, m := range f.GetMetric() {
			if labelsOf(m)["plugin"] == "p" {
				t.Errorf("%s %v is left", f.GetName(), labelsOf(m))
			}
		}
	}
}

// fifty are so many plugins that one node hardly has more.
func fifty(tb testing.TB) *prometheus.Registry {
	tb.Helper()
	var plugins []*policy.Plugin
	for i := range 50 {
		plugins = append(plugins, &policy.Plugin{Name: fmt.Sprint("plugin-", i), Team: "tb"})
	}
	s, r := still(tb, &policy.Config{Plugins: plugins, Supervisor: policy.SupervisorSpec{}})
	for _, h := range s.plan().hosts {
		everything(s, h)
	}
	return r
}

// The bar of 20 ms is for the processor time of the best of many, which neither a busy machine nor a collection of garbage changes much. Serial: else it would be the time of other tests, too.
func TestAScrapeOfFiftyPluginsIsQuick(t *testing.T) { //nolint:paralleltest // as said
	r := fifty(t)
	gather(t, r) // what is made once
	scrapes, limit := 21, 20*time.Millisecond
	if raceDetector {
		scrapes, limit = 5, 20*limit
	}
	best := time.Hour
	for range scrapes {
		before := processorTime(t)
		gather(t, r)
		best = min(best, processorTime(t)-before)
	}
	if best > limit {
		t.Errorf("a scrape takes %s of a processor at best, more than %s", best, limit)
	}
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkScrapeOfFiftyPlugins(b *testing.B) {
	r := fifty(b)
	for b.Loop() {
		gather(b, r)
	}
}
