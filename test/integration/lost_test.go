package integration_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestALostRuntimeConnectionIsNoFailureOfAPlugin(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := start(t, rt, teams, chaosPlugin(t, "slow", "10", `, faults: [{event: CreateContainer, action: "slow:400ms", annotation: "slow=yes"}]`,
		"  timeouts: {default: 1500ms}\n  permissions: {update: none}"), "slow")
	const times = 6 // twice what opens a breaker
	for i := range times {
		pod := harness.Pod("default", fmt.Sprint("p", i), "chaos", "slow")
		pod.Annotations["slow"] = "yes"
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = rt.Create(t.Context(), pod, harness.Container(pod, "main")) // its plugin is gone in the middle of it
		}()
		inFlight := `nri_supervisor_match_decisions_total{decision="selected",plugin="slow"}`
		harness.Eventually(t, "the call", func() bool { return sup.Metric(inFlight) == fmt.Sprint(i+1) })
		rt.Cut()
		<-done
		rt.WaitSync()
		sup.Ready(i+2, "slow")
	}
	if n := sup.Sum("nri_supervisor_breaker_transitions_total", `plugin="slow"`); n != 0 {
		t.Errorf("%v transitions of the breaker, want none", n)
	}
	if n := sup.Starts("slow"); n != 1 {
		t.Errorf("the plugin was started %d times", n)
	}
	if _, rpl := created(t, rt, harness.Pod("default", "last", "chaos", "slow")); env(rpl.GetAdjust())["CHAOS"] != "slow" {
		t.Errorf("adjusted %v", rpl.GetAdjust())
	}
}

func TestWhatWasCreatedWhileTheSupervisorStoodStillIsListed(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := start(t, rt, teams, newProbe(t, "late").manifest("10", `, "name": "here"`, ""), "late")
	pod := harness.Pod("default", "waited", "probe", "late")
	if err := rt.RunPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	harness.Freeze(t, sup.PID())
	rpl, err := rt.Create(t.Context(), pod, harness.Container(pod, "main")) // NRI waits for its timeout, and goes on
	sup.Signal(syscall.SIGCONT)
	if err != nil || env(rpl.GetAdjust())["PROBE"] != "" {
		t.Fatalf("while the supervisor stood still: %v, %v", rpl.GetAdjust(), err)
	}
	harness.Eventually(t, "what is missing to be listed", func() bool {
		list := sup.Missed()
		return len(list) == 1 && list[0].Pod == "waited" && list[0].Plugin == "late" && list[0].Reason == "canceled"
	})
	if late := sup.Sum("nri_supervisor_runtime_deadline_missed_total", `event="CreateContainer"`); late != 1 {
		t.Errorf("%v creations were answered too late, want 1", late)
	}
	harness.Eventually(t, "its work on the next container", func() bool {
		_, rpl := created(t, rt, harness.Pod("default", "next", "probe", "late"))
		return env(rpl.GetAdjust())["PROBE"] == "here"
	})
}

func TestASandboxThatTheRuntimeDoesNotListYetIsNotForgotten(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "sandbox")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "sandbox")
	pod := harness.Pod("default", "new", "probe", "sandbox")
	if err := rt.RunPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	rt.Forget(pod)
	act(t, sup, "restart", "sandbox")
	sup.Ready(2, "sandbox")
	if l := p.wait(2, "Synchronize", ""); l.Pods != 1 {
		t.Errorf("after the plugin's restart it was told of %d pods, want the one that is being created", l.Pods)
	}
	rt.Cut()
	rt.WaitSync()
	sup.Ready(3, "sandbox")
	if l := p.wait(3, "Synchronize", ""); l.Pods != 1 {
		t.Errorf("after the runtime's reconnect it was told of %d pods, want the one that is being created", l.Pods)
	}
	if _, err := rt.Create(t.Context(), pod, harness.Container(pod, "main")); err != nil {
		t.Fatal(err)
	}
	p.wait(1, "CreateContainer", harness.Container(pod, "main").GetId())
}

func TestAContainerThatIsCreatedAgainReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	file := filepath.Join(harness.TempDir(t), "dump.json")
	sup := start(t, rt, teams, chaosPlugin(t, "ids", "10", fmt.Sprintf(`, dump: %q`, file), ""), "ids")
	a, b := harness.Pod("default", "a", "chaos", "ids"), harness.Pod("default", "b", "chaos", "ids")
	same := func(p *api.PodSandbox) *api.Container {
		c := harness.Container(p, "main")
		c.Id = "same"
		return c
	}
	for _, p := range []*api.PodSandbox{a, a, b} { // a retry, and the same id in another pod
		if _, err := rt.Create(t.Context(), p, same(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := rt.Remove(t.Context(), a, same(a)); err != nil {
		t.Fatal(err)
	}
	act(t, sup, "restart", "ids")
	sup.Ready(2, "ids")
	if got := known(t, sup, "ids", file); !slices.Equal(got, []string{"same"}) {
		t.Errorf("knows %v, want the container of the other pod", got)
	}
	l := sup.WaitLine(2, "plugin synchronized", map[string]any{"plugin": "ids"})
	if l["containers"] != float64(1) {
		t.Errorf("told of %v containers, want 1", l["containers"])
	}
}

func TestAnAdjustmentThatWouldFailLaterIsRefusedEarly(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	manifests, names := "", []string{}
	for name, adjust := range map[string]string{
		"relative-mount": `{"mounts": [{"destination": "data", "type": "bind", "source": "/x"}]}`,
		"double-mount":   `{"mounts": [{"destination": "/d", "type": "bind", "source": "/x"}, {"destination": "/d", "type": "bind", "source": "/y"}]}`,
		"rlimit":         `{"rlimits": [{"type": "NOFILE", "hard": 1, "soft": 1}]}`,
		"env":            `{"env": [{"key": "A=B", "value": "x"}]}`,
		"device":         `{"linux": {"devices": [{"path": "dev/x", "type": "c"}]}}`,
	} {
		p := newProbe(t, name)
		manifests += p.manifest("10", `, "name": "x", "adjust": `+adjust, "")
		names = append(names, name)
	}
	sup := start(t, rt, teams, manifests, names...)
	for _, name := range names {
		_, rpl := created(t, rt, harness.Pod("default", name, "probe", name))
		if len(rpl.GetAdjust().GetEnv()) != 0 || len(rpl.GetAdjust().GetMounts()) != 0 {
			t.Errorf("%s: half of the reply was used: %v", name, rpl.GetAdjust())
		}
		if got := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]; got != name+"=invalid_response" {
			t.Errorf("%s: missed %q", name, got)
		}
		sup.WaitLine(1, "plugin's work is missing", map[string]any{"plugin": name, "reason": "invalid_response"})
	}
}

func TestARuntimeIsNotKeptWaitingByPluginsThatStandStill(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	read := make(chan struct{})
	manifests, names := "", []string{"still-1", "still-2", "still-3"}
	for i, name := range names {
		manifests += chaosPlugin(t, name, fmt.Sprint(10+i), "", "  timeouts: {default: 200ms}\n  overdueAfter: 60s\n  health: {period: 60s}")
	}
	dir := rt.Config(teams, manifests)
	sup := harness.StartSupervisorWith(t, dir, harness.Options{Unread: read})
	rt.WaitSync()
	var children []int
	harness.Eventually(t, "the plugins", func() bool {
		children = sup.Children()
		return len(children) == len(names)
	})
	for _, pid := range children {
		harness.Freeze(t, pid)
	}
	// Close to what one message can hold; all of it is for plugins that do not read.
	for i := range 3 {
		pod := harness.Pod("default", fmt.Sprint("big", i), "chaos", names[i])
		pod.Annotations["note"] = strings.Repeat("x", 1300<<10)
		rt.Preload(pod, harness.Container(pod, "main"))
	}
	rt.Cut()
	rt.WaitSync()
	for i := range 30 {
		for event, err := range life(t.Context(), rt, harness.Pod("default", fmt.Sprint("p", i), "chaos", names[i%3])) {
			if err != nil {
				t.Errorf("%s: %v", event, err)
			}
		}
	}
	if what, took := rt.Slowest(); took > 2*time.Second {
		t.Errorf("%s took %s", what, took)
	}
	if n := rt.Dials(); n != 2 {
		t.Errorf("%d connections, want the first and the one after the cut", n)
	}
	close(read)
	begin := time.Now()
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
