package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// pluginStatus is one row of `nri-supervisor plugin list -o json`.
type pluginStatus struct {
	Stale             string
	Name, Team, State string
	PID               int
	Restarts          int
	Problems          []string
	LastError         string
	Breaker           struct{ State, Cause string }
	Quarantined       []string `json:"quarantinedPods"`
}

func statusOf(t *testing.T, sup *harness.Process, name string) pluginStatus {
	t.Helper()
	var list []pluginStatus
	sup.Ask(&list, "plugin", "list")
	for _, p := range list {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no plugin %s in %v", name, list)
	return pluginStatus{}
}

// act carries out a manual action by the command line.
func act(t *testing.T, sup *harness.Process, action, name string) {
	t.Helper()
	if code, out, errs := sup.Command("plugin", action, name); code != 0 {
		t.Fatalf("plugin %s %s: exit code %d\n%s%s", action, name, code, out, errs)
	}
	sup.WaitLine(1, "manual action", map[string]any{"plugin": name, "action": action})
}

// outcome creates a container for the plugin gpu-env and says what became of its work: "" if it is there, else the reason.
func outcome(t *testing.T, rt *harness.Runtime, name string) string {
	t.Helper()
	_, rpl := created(t, rt, harness.Pod("default", name, "accelerator", "gpu"))
	note := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]
	if (env(rpl.GetAdjust())["GPU"] == "1") == (note != "") {
		t.Errorf("pod %s: env %v and note %q", name, env(rpl.GetAdjust()), note)
	}
	return strings.TrimPrefix(note, "gpu-env=")
}

func TestAManualActionActsShowsAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action, undo       string
		state, breaker     string
		reason             string
		processStaysTheSam bool
	}{
		{"disable", "enable", "disabled", "disabled", "disabled", false},
		{"trip", "reset", "ready", "forced_open", "breaker_open", true},
	} {
		t.Run(tt.action, func(t *testing.T) {
			t.Parallel()
			rt := harness.NewRuntime(t)
			dir := rt.Config(teams, gpuEnv(t))
			sup := harness.StartSupervisor(t, dir)
			rt.WaitSync()
			sup.Ready(1, "gpu-env")
			if why := outcome(t, rt, "before"); why != "" {
				t.Fatalf("before: %s", why)
			}
			pid := sup.PluginPID("gpu-env")
			act(t, sup, tt.action, "gpu-env")
			holds := func(sup *harness.Process, when string) {
				t.Helper()
				harness.Eventually(t, tt.state+" "+when, func() bool {
					p := statusOf(t, sup, "gpu-env")
					return p.State == tt.state && p.Breaker.State == tt.breaker
				})
				if why := outcome(t, rt, when); why != tt.reason {
					t.Errorf("%s: work missing for reason %q, want %q", when, why, tt.reason)
				}
				if n := sup.Metric(`nri_supervisor_breaker_state{plugin="gpu-env",state="` + tt.breaker + `",team="ml-infra"}`); n != "1" {
					t.Errorf("%s: breaker_state %s = %q, want 1", when, tt.breaker, n)
				}
				if code, why := sup.Get("/readyz"); code != 200 {
					t.Errorf("%s: /readyz says %d %s", when, code, why)
				}
			}
			holds(sup, "at-once")
			if harness.Alive(pid) != tt.processStaysTheSam {
				t.Errorf("the process is alive: %v", harness.Alive(pid))
			}
			for _, how := range []string{"stopped", "killed"} {
				if how == "stopped" {
					if code := sup.Stop(); code != 0 {
						t.Errorf("exit code %d", code)
					}
				} else {
					sup.Kill()
				}
				sup = harness.StartSupervisor(t, dir)
				rt.WaitSync()
				holds(sup, "after-being-"+how)
			}
			act(t, sup, tt.undo, "gpu-env")
			harness.Eventually(t, "the plugin works again", func() bool {
				p := statusOf(t, sup, "gpu-env")
				return p.State == "ready" && p.Breaker.State != tt.breaker && outcome(t, rt, "again-"+time.Now().Format("150405.000000")) == ""
			})
			if code := sup.Stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			sup = harness.StartSupervisor(t, dir)
			rt.WaitSync()
			sup.Ready(1, "gpu-env")
			if why := outcome(t, rt, "undone"); why != "" {
				t.Errorf("after %s and a restart: %s", tt.undo, why)
			}
		})
	}
}

func TestARestartByHandReplacesTheProcessAndLosesNothing(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "again")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "again")
	c, _ := created(t, rt, harness.Pod("default", "a", "probe", "again"))
	pid := sup.PluginPID("again")
	act(t, sup, "restart", "again")
	sup.Ready(2, "again")
	if harness.Alive(pid) || sup.PluginPID("again") == pid {
		t.Errorf("the old process %d is alive: %v; the new one is %d", pid, harness.Alive(pid), sup.PluginPID("again"))
	}
	if l := p.wait(2, "Synchronize", ""); l.Containers != 1 {
		t.Errorf("the new process was told of %d containers, want 1 (%s)", l.Containers, c.GetId())
	}
	sup.WaitLine(1, "plugin exited", map[string]any{"plugin": "again", "reason": "stopped"})
	if got := statusOf(t, sup, "again"); got.Restarts != 1 || got.Breaker.State != "closed" {
		t.Errorf("status %+v, want one restart and a closed breaker", got)
	}
	if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
		t.Errorf("%v fallbacks", n)
	}
}

func TestABypassMakesEverythingANoOpAndEndsByItself(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := start(t, rt, teams, gpuEnv(t), "gpu-env")
	if code, out, errs := sup.Command("bypass", "--for", "3s"); code != 0 {
		t.Fatalf("bypass: exit code %d\n%s%s", code, out, errs)
	}
	if why := outcome(t, rt, "bypassed"); why != "bypass" {
		t.Errorf("work missing for reason %q, want bypass", why)
	}
	sup.WaitLine(1, "manual action", map[string]any{"action": "bypass over"})
	if why := outcome(t, rt, "over"); why != "" {
		t.Errorf("after the bypass: %s", why)
	}
	if code, _, _ := sup.Command("bypass", "--for", "1h"); code != 0 {
		t.Fatalf("bypass: exit code %d", code)
	}
	if why := outcome(t, rt, "bypassed-again"); why != "bypass" {
		t.Errorf("work missing for reason %q, want bypass", why)
	}
	if code, _, _ := sup.Command("bypass", "--off"); code != 0 {
		t.Fatalf("bypass: exit code %d", code)
	}
	if why := outcome(t, rt, "off"); why != "" {
		t.Errorf("after bypass --off: %s", why)
	}
	reasons := map[string]int{}
	for _, m := range sup.Missed() {
		reasons[m.Pod+" "+m.Reason]++
	}
	if len(reasons) != 2 || reasons["bypassed bypass"] != 1 || reasons["bypassed-again bypass"] != 1 {
		t.Errorf("missed %v, want the two that were created during a bypass", reasons)
	}
	if n := sup.Starts("gpu-env"); n != 1 {
		t.Errorf("the plugin was started %d times", n)
	}
}

func TestAPodThatHarmsAPluginIsKeptAwayFromItAndLetInByHand(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := start(t, rt, teams,
		chaosPlugin(t, "victim", "10", `, faults: [{event: CreateContainer, action: kill, annotation: "poison=yes", times: 1}]`, "  quarantine: {after: 2, duration: 1h}"), "victim")
	poison := func(name string) string {
		pod := harness.Pod("default", name, "chaos", "victim")
		pod.Uid = "the-same-pod" // the kubelet retries with a new sandbox
		pod.Annotations["poison"] = "yes"
		_, rpl := created(t, rt, pod)
		return rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]
	}
	for i := range 2 {
		if got := poison([]string{"first", "second"}[i]); got != "victim=unavailable" {
			t.Errorf("attempt %d: %q, want the plugin killed", i, got)
		}
		sup.Ready(i+2, "victim")
	}
	if got := poison("third"); got != "victim=quarantined" {
		t.Errorf("third attempt: %q, want quarantined", got)
	}
	if n := sup.Starts("victim"); n != 3 {
		t.Errorf("the plugin was started %d times, want 3: the third attempt must not reach it", n)
	}
	if _, rpl := created(t, rt, harness.Pod("default", "other", "chaos", "victim")); env(rpl.GetAdjust())["CHAOS"] != "victim" {
		t.Errorf("another pod misses the work as well: %v", rpl.GetAdjust())
	}
	if got := statusOf(t, sup, "victim"); len(got.Quarantined) != 1 || got.Quarantined[0] != "the-same-pod" {
		t.Errorf("status names %v as quarantined", got.Quarantined)
	}
	act(t, sup, "unquarantine", "victim")
	if got := poison("fourth"); got != "victim=unavailable" {
		t.Errorf("after unquarantine: %q, want the pod to reach the plugin again", got)
	}
}

func TestActionsOnWhatIsNotThereSayWhatIs(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := start(t, rt, teams, gpuEnv(t), "gpu-env")
	code, _, errs := sup.Command("plugin", "restart", "gpuenv")
	if code != 1 || !strings.Contains(errs, `"gpuenv"`) || !strings.Contains(errs, "gpu-env") {
		t.Errorf("exit code %d, %q; want 1 and the names there are", code, errs)
	}
	act(t, sup, "disable", "gpu-env")
	if code, _, errs := sup.Command("plugin", "restart", "gpu-env"); code != 1 || !strings.Contains(errs, "enable") {
		t.Errorf("restart of a disabled plugin: exit code %d, %q; want 1 and what to do", code, errs)
	}
}
