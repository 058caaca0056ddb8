package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// requestTimeout is the runtime's deadline for one request; nobody here changes NRI's default.
const requestTimeout = 2 * time.Second

// serving waits until a container that selects the plugin gets its work again.
func (w *world) serving(plugin string) {
	w.t.Helper()
	limit := time.After(40 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !w.create("again", "none", plugin).works {
		select {
		case <-tick.C:
		case <-limit:
			w.t.Fatalf("plugin %s does not serve 40 s after its fault was lifted", plugin)
		}
	}
}

// missedSingly returns the ids of the pods and containers whose start the plugin missed for a reason that withholds only them, as the log says: a busy machine is enough for one.
func (w *world) missedSingly(plugin string) map[string]bool {
	ids := map[string]bool{}
	for _, l := range w.sup.Lines(func(l map[string]any) bool {
		return l["msg"] == "plugin's work is missing" && l["plugin"] == plugin && (l["reason"] == "busy" || l["reason"] == "budget" || l["reason"] == "quarantined")
	}) {
		switch l["event"] {
		case "RunPodSandbox":
			ids[harness.Pod(l["namespace"].(string), l["pod"].(string)).GetId()] = true
		case "CreateContainer":
			ids[l["containerID"].(string)] = true
		}
	}
	return ids
}

// truth checks that the plugin knows what it selected and what exists, and nothing else. What it missed while it was busy is withheld from it until it is synchronized again, so it need not
// know that.
func (w *world) truth(plugin string) {
	w.t.Helper()
	var pods, ctrs []string
	strangers := map[string]bool{}
	for _, p := range w.pods {
		if p.sick == plugin && p.live {
			pods, ctrs = append(pods, p.pod.GetId()), append(ctrs, p.ctr.GetId())
		}
		if p.sick != plugin {
			strangers[p.pod.GetId()], strangers[p.ctr.GetId()] = true, true
		}
	}
	slices.Sort(pods)
	slices.Sort(ctrs)
	withheld := w.missedSingly(plugin)
	var d dump
	// Removals are notifications: nobody waited for them. What was being created during a synchronization is told by the next one, ten seconds later at the soonest.
	limit := time.Now().Add(30 * time.Second)
	for {
		var ok bool
		if d, ok = w.known(plugin, func(pid int) error { return unix.Kill(pid, unix.SIGUSR1) }); !ok {
			w.t.Fatalf("plugin %s does not say what it knows", plugin)
		}
		unknown := func(known []string) func(string) bool {
			return func(id string) bool { return withheld[id] && !slices.Contains(known, id) }
		}
		pods, ctrs = slices.DeleteFunc(pods, unknown(d.Pods)), slices.DeleteFunc(ctrs, unknown(d.Containers))
		if slices.Equal(d.Containers, ctrs) && slices.Equal(d.Pods, pods) {
			break
		}
		if time.Now().After(limit) {
			w.t.Fatalf("what plugin %s knows differs from what it selected and what exists:\ncontainers %s\npods %s",
				plugin, cmp.Diff(ctrs, d.Containers), cmp.Diff(pods, d.Pods))
		}
	}
	for id, events := range d.Events {
		if strangers[id] {
			w.t.Errorf("plugin %s was told of %s, which it did not select: %v", plugin, id, events)
		}
	}
	for _, id := range d.Snapshot {
		if strangers[id] {
			w.t.Errorf("plugin %s was synchronized with %s, which it did not select", plugin, id)
		}
	}
	if d.Synchronized == 1 {
		for _, id := range ctrs {
			seen := d.Events[id]["CreateContainer"]
			if slices.Contains(d.Snapshot, id) {
				seen++
			}
			if seen != 1 {
				w.t.Errorf("plugin %s was told of container %s %d times, want once", plugin, id, seen)
			}
		}
	}
}

// counted checks what a metric of one plugin says for each reason. A plugin has a limited number of series: reasons that came when they were used up are counted together, as other.
func counted(tb testing.TB, text, metric string, want map[string]int, labels ...string) {
	tb.Helper()
	rest := 0
	for why, n := range want {
		switch got := harness.SumOf(tb, text, metric, append(labels, `reason="`+why+`"`)...); got {
		case float64(n):
		case 0:
			rest += n
		default:
			tb.Errorf("%s%v with reason %s = %v, want %d", metric, labels, why, got, n)
		}
	}
	if got := harness.SumOf(tb, text, metric, append(labels, `reason="other"`)...); got != float64(rest) {
		tb.Errorf("%s%v for the reasons without a series of their own = %v, want %d", metric, labels, got, rest)
	}
}

// neverSilent checks that each piece of work that is missing can be seen: in the list of missed work, in the metrics and in the log.
func (w *world) neverSilent() {
	w.t.Helper()
	want := map[harness.MissedWork]bool{}
	alive := map[string]map[string]int{}
	for _, p := range w.pods {
		if p.why == "" {
			continue
		}
		event := "CreateContainer"
		if p.works {
			event = "ValidateContainerAdjustment" // it did its work and did not judge the whole
		}
		line := w.sup.Lines(func(l map[string]any) bool {
			return l["msg"] == "plugin's work is missing" && l["plugin"] == p.sick && l["containerID"] == p.ctr.GetId() &&
				l["event"] == event && l["reason"] == p.why && l["team"] == "net" && l["pod"] == p.pod.GetName()
		})
		if n := len(line); n != 1 {
			w.t.Errorf("pod %s misses the work of %s (%s) with %d log lines about it, want 1", p.pod.GetName(), p.sick, p.why, len(line))
		}
		if p.live {
			if alive[p.sick] == nil {
				alive[p.sick] = map[string]int{}
			}
			alive[p.sick][p.why]++
			want[harness.MissedWork{
				Namespace: "default", Pod: p.pod.GetName(), Container: "main", ContainerID: p.ctr.GetId(), Plugin: p.sick, Team: "net", Reason: p.why,
			}] = true
		}
	}
	got := map[harness.MissedWork]bool{}
	for _, m := range w.sup.Missed() {
		got[m] = true
	}
	if d := cmp.Diff(want, got); d != "" {
		w.t.Errorf("nri-supervisor missed differs from what is missing:\n%s", d)
	}
	_, text := w.sup.Get("/metrics")
	for _, name := range w.sick {
		_, missed := w.tally(name, 0)
		labels := []string{`plugin="` + name + `"`, `team="net"`}
		counted(w.t, text, "nri_supervisor_containers_missed_total", missed, labels...)
		counted(w.t, text, "nri_supervisor_missed_containers", alive[name], labels...)
		fallbacks := 0.0 // also of other events, so there are more
		for why, n := range missed {
			got := harness.SumOf(w.t, text, "nri_supervisor_fallbacks_total", append(labels, `action="ignore"`, `reason="`+why+`"`)...)
			if got == 0 {
				fallbacks += float64(n)
			} else if got < float64(n) {
				w.t.Errorf("fallbacks of %s with reason %s = %v, want at least %d", name, why, got, n)
			}
		}
		if got := harness.SumOf(w.t, text, "nri_supervisor_fallbacks_total", append(labels, `action="ignore"`, `reason="other"`)...); got < fallbacks {
			w.t.Errorf("fallbacks of %s whose reason has no series of its own = %v, want at least %v", name, got, fallbacks)
		}
	}
	if n := len(w.sup.Lines(func(l map[string]any) bool { return l["msg"] == "log lines lost" })); n != 0 {
		w.t.Errorf("%d times the log lost lines", n)
	}
}

// neverLate checks that the runtime had each answer before its deadline, over one registration.
func (w *world) neverLate() {
	w.t.Helper()
	if event, took := w.rt.Slowest(); took >= requestTimeout {
		w.t.Errorf("%s took %s; the runtime's deadline is %s", event, took, requestTimeout)
	}
	if late := w.sup.Sum("nri_supervisor_runtime_deadline_missed_total"); late != 0 {
		w.t.Errorf("%v requests were answered after the deadline", late)
	}
	if n, m := w.rt.Dials(), w.rt.Syncs(); n != 1 || m != 1 {
		w.t.Errorf("%d connections and %d registrations, want one", n, m)
	}
	if code, why := w.sup.Get("/readyz"); code != 200 {
		w.t.Errorf("/readyz says %d: %s", code, why)
	}
	if code, why := w.sup.Get("/healthz"); code != 200 {
		w.t.Errorf("/healthz says %d: %s", code, why)
	}
	// A container that no sick plugin selected never waits for one. Half a plugin's timeout is far above what this machine needs, and the middle of them is no outlier.
	half, err := time.ParseDuration(ms(150))
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(w.calm)
	if n := len(w.calm); n > 0 && w.calm[n/2] > half {
		w.t.Errorf("half of the creations that no sick plugin selected took more than %s", w.calm[n/2])
	}
	for _, h := range healthyPlugins(w.t) {
		if n := w.sup.Starts(h.name); n != 1 {
			w.t.Errorf("the healthy plugin %s was started %d times", h.name, n)
		}
		if n := w.sup.Sum("nri_supervisor_fallbacks_total", `plugin="`+h.name+`"`); n != 0 {
			w.t.Errorf("%v times the work of the healthy plugin %s is missing", n, h.name)
		}
	}
}

// nothingLeft stops the supervisor and looks for what it forgot.
func (w *world) nothingLeft() {
	w.t.Helper()
	if z := w.sup.Zombies(); len(z) != 0 {
		harness.Eventually(w.t, "the dead children of the supervisor waited for", func() bool { return len(w.sup.Zombies()) == 0 })
	}
	begin := time.Now()
	if code := w.sup.Stop(); code != 0 {
		w.t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if took := time.Since(begin); took > 10*time.Second {
		w.t.Errorf("stopping took %s, want at most 10 s", took)
	}
	if left := w.sup.Leftovers(); len(left) != 0 {
		w.t.Errorf("left after the supervisor:\n%s", strings.Join(left, "\n"))
	}
}
