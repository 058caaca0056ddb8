package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestAPluginThatIsNotInterestedHearsNoMore(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	file := filepath.Join(harness.TempDir(t), "dump.json")
	sup := start(t, rt, teams, chaosPlugin(t, "bored", "10", fmt.Sprintf(
		`, dump: %q, faults: [{event: RunPodSandbox, action: "not-interested:pod", annotation: "skip=pod"}, {event: CreateContainer, action: "not-interested:container", annotation: "skip=container"}, `+
			`{event: CreateContainer, action: "not-interested:pod", annotation: "skip=at-create"}]`, file), ""), "bored")
	pod := func(skip string) *api.PodSandbox {
		p := harness.Pod("default", "skip-"+skip, "chaos", "bored")
		p.Annotations["skip"] = skip
		return p
	}
	want := map[string]int{}
	for _, tt := range []struct {
		skip      string
		pod, main int // how many kinds of events of the pod and of the container there are
	}{{"nothing", 5, 8}, {"pod", 1, 0}, {"container", 5, 1}, {"at-create", 3, 1}} {
		p := pod(tt.skip)
		for event, err := range life(t.Context(), rt, p) {
			if err != nil {
				t.Errorf("%s: %v", event, err)
			}
		}
		want[p.GetId()], want[harness.Container(p, "main").GetId()] = tt.pod, tt.main
	}
	// A container that it did not want is not told in a synchronization either.
	kept, left := pod("kept"), pod("container")
	kept.Id, left.Id = "kept", "left"
	keptCtr, _ := created(t, rt, kept)
	leftCtr := harness.Container(left, "other")
	leftCtr.Id = "left-ctr"
	if err := rt.RunPod(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	rpl, err := rt.Create(t.Context(), left, leftCtr)
	if err != nil {
		t.Fatal(err)
	}
	if note := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]; note != "" || len(env(rpl.GetAdjust())) != 0 {
		t.Errorf("a container that the plugin did not want: note %q, env %v; want nothing", note, env(rpl.GetAdjust()))
	}
	harness.Eventually(t, "the last event", func() bool {
		return sup.Metric(`nri_supervisor_plugin_calls_total{event="RemovePodSandbox",outcome="success",plugin="bored"}`) == "2"
	})
	events := eventsOf(t, sup, "bored", file)
	for id, n := range want {
		if got := len(events[id]); got != n {
			t.Errorf("%s: %d kinds of events %v, want %d", id, got, events[id], n)
		}
	}
	act(t, sup, "restart", "bored")
	sup.Ready(2, "bored")
	if got := known(t, sup, "bored", file); !slices.Equal(got, []string{keptCtr.GetId()}) {
		t.Errorf("the new process knows %v, want only %s", got, keptCtr.GetId())
	}
	if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
		t.Errorf("%v fallbacks: no interest is no failure", n)
	}
}

func TestParallelPluginsOfOneIndexWorkAtOnceAndMergeByName(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	slow := func(name, index string, parallel bool) string {
		return strings.Replace(chaosPlugin(t, name, index, `, faults: [{event: CreateContainer, action: "slow:300ms"}]`, fmt.Sprintf("  parallel: %v\n  timeouts: {default: 1s}", parallel)),
			fmt.Sprintf("matchLabels: {chaos: %s}", name), "matchLabels: {slow: all}", 1)
	}
	inject := func(name, index string, parallel bool) string {
		p := newProbe(t, name)
		return p.manifest(index, fmt.Sprintf(`, "adjust": {"env": [{"key": %q, "value": "1"}]}`, strings.ToUpper(name)), fmt.Sprintf("  parallel: %v\n  selector: {podSelector: {matchLabels: {slow: all}}}", parallel))
	}
	start(t, rt, teams, slow("b-slow", "50", true)+inject("a-env", "50", true)+inject("c-env", "50", true)+inject("first", "10", false)+inject("last", "90", false),
		"b-slow", "a-env", "c-env", "first", "last")
	pod := harness.Pod("default", "a", "slow", "all")
	begin := time.Now()
	_, rpl := created(t, rt, pod)
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("creation took %s, want the slow plugin's 300ms", took)
	}
	var order []string
	for _, e := range rpl.GetAdjust().GetEnv() {
		order = append(order, e.GetKey())
	}
	if want := []string{"FIRST", "A-ENV", "CHAOS", "C-ENV", "LAST"}; !slices.Equal(order, want) {
		t.Errorf("merged in the order %v, want %v", order, want)
	}
}

func TestParallelPluginsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	manifests, names := "", []string{}
	for i := range 4 {
		name := fmt.Sprint("slow-", i)
		names = append(names, name)
		p := strings.Replace(chaosPlugin(t, name, "50", `, faults: [{event: RunPodSandbox, action: none}, {event: CreateContainer, action: "slow:400ms"}]`, "  parallel: true\n  timeouts: {default: 1500ms}"),
			fmt.Sprintf("matchLabels: {chaos: %s}", name), "matchLabels: {slow: all}", 1)
		// All set the same variable: the first by name wins, as if they had run one after the other.
		manifests += p
	}
	sup := start(t, rt, teams, manifests, names...)
	begin := time.Now()
	_, rpl := created(t, rt, harness.Pod("default", "a", "slow", "all"))
	if took := time.Since(begin); took > 1200*time.Millisecond { // four in a row need 1.6 s
		t.Errorf("four parallel plugins of 400ms took %s", took)
	}
	if got := env(rpl.GetAdjust())["CHAOS"]; got != "slow-0" {
		t.Errorf("CHAOS=%q, want the first by name", got)
	}
	if got := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]; got != "slow-1=conflict,slow-2=conflict,slow-3=conflict" {
		t.Errorf("missed %q, want the conflict of the three others", got)
	}
	if n := sup.Sum("nri_supervisor_fallbacks_total", `reason="conflict"`); n != 3 {
		t.Errorf("%v conflicts, want 3", n)
	}
}

func TestEventsOfAPodArriveInOrderAndOneAtATime(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "order")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "order")
	const pods = 20
	var all sync.WaitGroup
	for w := range 4 { // the runtime itself handles one event at a time, in whatever order
		all.Go(func() {
			for i := w; i < pods; i += 4 {
				for event, err := range life(t.Context(), rt, harness.Pod("default", fmt.Sprint("p", i), "probe", "order")) {
					if err != nil {
						t.Errorf("%s: %v", event, err)
					}
				}
			}
		})
	}
	all.Wait()
	want := []string{
		"RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer",
		"PostUpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
	}
	for i := range pods {
		pod := harness.Pod("default", fmt.Sprint("p", i))
		p.wait(1, "RemovePodSandbox", pod.GetId())
		var got []string
		for _, l := range p.lines(func(l probeLine) bool { return l.ID == pod.GetId() || l.ID == harness.Container(pod, "main").GetId() }) {
			got = append(got, l.What)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pod %d: %v, want %v", i, got, want)
		}
	}
	if n := len(p.about("overlap", "")); n != 0 {
		t.Errorf("%d events arrived while another was being handled", n)
	}
	if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
		t.Errorf("%v fallbacks", n)
	}
}

func TestAChangedConfigReachesThePluginAtTheNextStart(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "configured")
	dir := rt.Config(teams, p.manifest("10", `, "name": "old"`, ""))
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "configured")
	if _, rpl := created(t, rt, harness.Pod("default", "a", "probe", "configured")); env(rpl.GetAdjust())["PROBE"] != "old" {
		t.Errorf("env %v", env(rpl.GetAdjust()))
	}
	file := filepath.Join(dir, "plugins.d", "plugins.yaml")
	text := p.manifest("10", `, "name": "new"`, "")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	sup = harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "configured")
	if _, rpl := created(t, rt, harness.Pod("default", "b", "probe", "configured")); env(rpl.GetAdjust())["PROBE"] != "new" {
		t.Errorf("env %v", env(rpl.GetAdjust()))
	}
	if l := p.wait(2, "Configure", ""); !strings.Contains(l.Config, `"name":"new"`) {
		t.Errorf("configured with %s", l.Config)
	}
}

// eventsOf asks a chaos plugin how often it saw each event of each id.
func eventsOf(t *testing.T, sup *harness.Process, plugin, file string) map[string]map[string]int {
	t.Helper()
	known(t, sup, plugin, file)
	var d struct{ Events map[string]map[string]int }
	readJSON(t, file, &d)
	return d.Events
}
