package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// fault is one way of failing.
type fault struct {
	name string
	sick []sick
	// strike happens when the fault has begun, for faults that come from outside.
	strike func(w *world)
	// works: the plugin's work is there all the same.
	works bool
	// reasons are why its work may be missing: one of them must occur, none other may but those of a starved machine. Nil: none must, any may.
	reasons []string
	// exit is how incarnations end because of it, as in the metric; "" if none does.
	exit string
	// stays: the fault is there until the end, also while the supervisor stops.
	stays bool
}

// one is a sick plugin that does this while the fault lasts.
func one(actions ...string) []sick { return []sick{{name: "sick", actions: actions}} }

// hasty is a sick plugin that takes long while the fault lasts.
func hasty(actions ...string) []sick { return []sick{{name: "sick", actions: actions, hasty: true}} }

func killed(w *world) { w.signal(unix.SIGKILL) }
func stopped(w *world) {
	w.t.Helper()
	for _, name := range w.sick {
		harness.Freeze(w.t, w.sup.PluginPID(name))
	}
}

// signal sends a signal to each sick plugin.
func (w *world) signal(s unix.Signal) {
	w.t.Helper()
	for _, name := range w.sick {
		if err := unix.Kill(w.sup.PluginPID(name), s); err != nil {
			w.t.Fatal(err)
		}
	}
}

// quickHealth finds a plugin that does not answer while it is idle.
func quickHealth() string {
	return fmt.Sprintf("health: {period: %s, timeout: %[1]s, failureThreshold: 2}", ms(200))
}

// statuses is one sick plugin for each gRPC code that an error can have.
func statuses() []sick {
	var out []sick
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		out = append(out, sick{name: "status-" + strings.ToLower(c.String()), actions: []string{"CreateContainer status:" + c.String()}})
	}
	return out
}

func faults() []fault {
	down := []string{"unavailable", "not_ready", "breaker_open"}
	idle := []string{"not_ready", "unavailable", "breaker_open"}
	failing := []string{"error", "breaker_open"}
	hung := []string{"timeout", "busy", "not_ready", "breaker_open"}
	return []fault{
		{name: "killed in a call", sick: one("CreateContainer kill"), reasons: down, exit: "signal"},
		{name: "killed while idle", sick: one(), strike: killed, reasons: nil, exit: "signal"},
		{name: "killed and not able to come back", sick: []sick{{name: "sick", start: "exit:7"}}, strike: killed, reasons: idle, exit: "signal"},
		{name: "panic", sick: one("CreateContainer panic"), reasons: down, exit: "exit_code"},
		{name: "panic in a notification", sick: one("PostStartContainer panic"), reasons: nil, exit: "exit_code"},
		{name: "exit with a code in a call", sick: one("CreateContainer exit:3"), reasons: down, exit: "exit_code"},
		{name: "exit with code 0 in a call", sick: one("RunPodSandbox exit:0"), reasons: idle, exit: "clean"},
		{name: "exit at start", sick: []sick{{name: "sick", start: "exit:2"}}, strike: killed, reasons: idle, exit: "signal"},
		{name: "panic at start", sick: []sick{{name: "sick", start: "panic"}}, strike: killed, reasons: idle, exit: "signal"},
		{name: "hang at start", sick: []sick{{name: "sick", start: "hang", extra: "timeouts: {default: " + ms(300) + ", start: " + ms(1000) + "}"}}, strike: killed, reasons: idle, exit: "signal"},
		{name: "garbage before the handshake", sick: []sick{{name: "sick", start: "garbage"}}, strike: killed, reasons: idle, exit: "signal"},
		{name: "hang in a call", sick: hasty("CreateContainer hang"), reasons: hung, exit: "hung"},
		{name: "hang in a pod's start", sick: hasty("RunPodSandbox hang"), reasons: hung, exit: "hung"},
		{name: "hang in a notification", sick: hasty("PostCreateContainer hang"), reasons: nil, exit: "hung"},
		{name: "hang in a pod's end", sick: hasty("StopPodSandbox hang"), reasons: nil, exit: "hung"},
		{
			name: "hang in Configure", sick: []sick{{name: "sick", actions: []string{"Configure hang"}, extra: "timeouts: {default: " + ms(300) + ", configure: " + ms(500) + "}"}},
			strike: killed, reasons: idle, exit: "signal",
		},
		{
			name: "hang in Synchronize", sick: []sick{{name: "sick", actions: []string{"Synchronize hang"}, extra: "timeouts: {default: " + ms(300) + ", synchronize: " + ms(500) + "}"}},
			strike: killed, reasons: idle, exit: "signal",
		},
		{name: "error in Configure", sick: one("Configure error:no"), strike: killed, reasons: idle, exit: "signal"},
		{name: "error in Synchronize", sick: one("Synchronize error:no"), strike: killed, reasons: idle, exit: "signal"},
		{name: "hang in Shutdown", sick: one("Shutdown hang"), works: true, stays: true},
		{name: "stopped in a call", sick: hasty("CreateContainer stop"), reasons: hung, exit: "hung"},
		{name: "stopped while idle", sick: []sick{{name: "sick", hasty: true, extra: quickHealth()}}, strike: stopped, reasons: nil, exit: "health"},
		{name: "unhealthy", sick: []sick{{name: "sick", actions: []string{"Health error:ill"}, extra: quickHealth()}}, reasons: nil, exit: "health"},
		{name: "errors with each status", sick: statuses(), reasons: []string{"error", "timeout", "breaker_open"}},
		{name: "an error", sick: one("CreateContainer error:no"), reasons: failing},
		{name: "errors at every event", sick: one(everywhere("error:no")...), reasons: failing},
		{name: "the error of a context", sick: one("CreateContainer deadline"), reasons: []string{"timeout", "breaker_open"}},
		{name: "a rejection that nobody allowed", sick: one("CreateContainer reject:no"), reasons: failing},
		{name: "garbage on the connection", sick: one("CreateContainer garbage"), reasons: down, exit: "*"},
		{name: "the connection closed", sick: one("CreateContainer close"), reasons: down, exit: "*"},
		{name: "an answer too large", sick: hasty("CreateContainer oversize"), reasons: hung, exit: "hung"},
		{name: "a forbidden field", sick: one("CreateContainer forbidden"), reasons: []string{"forbidden", "breaker_open"}},
		{name: "slow but in time", sick: []sick{{name: "sick", actions: []string{"CreateContainer slow:1200ms"}, extra: "timeouts: {default: 1700ms}"}}, works: true},
		{name: "too slow", sick: hasty("CreateContainer slow:" + ms(400)), reasons: []string{"timeout", "busy", "breaker_open"}},
		{name: "a flood of output", sick: []sick{{name: "sick", actions: []string{"CreateContainer flood:10000"}, extra: "timeouts: {default: 1500ms}"}}, works: true},
	}
}

// everywhere is the action at each event.
func everywhere(action string) []string {
	var out []string
	for _, e := range []string{
		"RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer",
		"PostStartContainer", "UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer",
	} {
		out = append(out, e+" "+action)
	}
	return out
}

func TestOnlyContainersThatSelectedAFailingPluginCanNotice(t *testing.T) {
	t.Parallel()
	st := newStocks(t)
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, st, f.sick...)
			w.stream("before", 12)
			for _, name := range w.sick {
				if works, missed := w.tally(name, 0); len(missed) != 0 {
					t.Errorf("before the fault %s worked on %d containers and missed %v", name, works, missed)
				}
			}
			from := len(w.pods)
			w.begin()
			if f.strike != nil {
				f.strike(w)
			}
			w.stream("during", 30)
			for _, name := range w.sick { // at least some that it must meet
				for i := range 3 {
					p := w.create("during", "all", name)
					w.update(p)
					if i == 0 {
						w.remove(p)
					}
				}
			}
			w.judge(f, from)
			if !f.stays {
				w.end()
			}
			for _, name := range w.sick {
				w.serving(name)
			}
			w.stream("after", 12)
			for _, name := range w.sick {
				w.truth(name)
			}
			w.neverSilent()
			w.neverLate()
			w.nothingLeft()
		})
	}
}

// starved reports whether work can be missing for this reason because the machine had no time for the plugin.
func starved(why string) bool { return why == "timeout" || why == "busy" || why == "budget" }

// judge checks that the fault did what it was meant to, so that nothing is tested with a plugin that works.
func (w *world) judge(f fault, from int) {
	w.t.Helper()
	seen := map[string]int{}
	for _, name := range w.sick {
		works, missed := w.tally(name, from)
		w.t.Logf("%s: work on %d containers, missed %v", name, works, missed)
		maps.Copy(seen, missed)
		if f.works {
			for why, n := range missed {
				if !starved(why) || n > works {
					w.t.Errorf("%s worked on %d containers and missed %v, want all of its work", name, works, missed)
				}
			}
		}
		if f.works && works == 0 || f.reasons != nil && !slices.ContainsFunc(f.reasons, func(why string) bool { return missed[why] > 0 }) {
			w.t.Errorf("%s worked on %d containers and missed %v: the fault did not strike", name, works, missed)
		}
	}
	if f.reasons != nil {
		for why := range seen {
			if !slices.Contains(f.reasons, why) && !starved(why) {
				w.t.Errorf("work is missing for reason %s, want one of %v", why, f.reasons)
			}
		}
	}
	if f.exit == "" {
		return
	}
	labels := []string{`plugin="` + w.sick[0] + `"`}
	if f.exit != "*" {
		labels = append(labels, `reason="`+f.exit+`"`)
	}
	if w.sup.Sum("nri_supervisor_plugin_exits_total", labels...) == 0 {
		w.sup.WaitLine(1, "plugin exited", map[string]any{"plugin": w.sick[0]})
		if w.sup.Sum("nri_supervisor_plugin_exits_total", labels...) == 0 {
			_, text := w.sup.Get("/metrics")
			w.t.Errorf("no incarnation ended with reason %s:\n%s", f.exit, grep(text, "nri_supervisor_plugin_exits_total"))
		}
	}
}

func grep(text, part string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			out.WriteString(line)
		}
	}
	return out.String()
}
