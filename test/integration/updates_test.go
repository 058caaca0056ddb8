package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// ids returns the ids that updates name, sorted.
func ids(updates []*api.ContainerUpdate) []string {
	var out []string
	for _, u := range updates {
		out = append(out, u.GetContainerId())
	}
	slices.Sort(out)
	return out
}

// sharesOf returns the shares that the last of the updates of the container sets, 0 if none does.
func sharesOf(updates []*api.ContainerUpdate, id string) uint64 {
	var n uint64
	for _, u := range updates {
		if u.GetContainerId() == id {
			n = u.GetLinux().GetResources().GetCpu().GetShares().GetValue()
		}
	}
	return n
}

func TestAPluginUpdatesOnItsOwnOnlyWhatItSelected(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "updater")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "updater")
	mine, _ := created(t, rt, harness.Pod("default", "mine", "probe", "updater"))
	foreign, _ := created(t, rt, harness.Pod("default", "foreign"))
	asks := harness.Pod("default", "asks", "probe", "updater")
	asks.Annotations["probe/outside.PostCreateContainer"] = strings.Join([]string{mine.GetId(), foreign.GetId(), "ghost"}, ",")
	created(t, rt, asks)
	got := p.wait(1, "outside", "")
	if slices.Sort(got.Failed); got.Err != "" || !slices.Equal(got.Failed, []string{foreign.GetId(), "ghost"}) {
		t.Errorf("the plugin was told error %q, failed %v; want the containers that it did not select as failed", got.Err, got.Failed)
	}
	harness.Eventually(t, "the update of the selected container", func() bool { return len(rt.Updates()) > 0 })
	if got := ids(rt.Updates()); !slices.Equal(got, []string{mine.GetId()}) || sharesOf(rt.Updates(), mine.GetId()) != 99 {
		t.Errorf("the runtime was asked to update %v with %d shares, want only %s with 99", got, sharesOf(rt.Updates(), mine.GetId()), mine.GetId())
	}
	series := `nri_supervisor_container_updates_total{plugin="updater",result="%s",source="unsolicited"}`
	if n := sup.Metric(fmt.Sprintf(series, "denied")); n != "2" {
		t.Errorf("denied updates = %q, want 2", n)
	}
	harness.Eventually(t, "the update counted as sent", func() bool { return sup.Metric(fmt.Sprintf(series, "sent")) == "1" })
	for _, id := range []string{foreign.GetId(), "ghost"} {
		sup.WaitLine(1, "container update denied", map[string]any{"plugin": "updater", "containerID": id, "team": "net"})
	}
}

func TestAnUpdateFromInsideAHandlerIsAcceptedAtOnce(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"CreateContainer", "PostCreateContainer", "RunPodSandbox", "UpdateContainer", "StopContainer"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			rt := harness.NewRuntime(t)
			p := newProbe(t, "inside")
			sup := start(t, rt, teams, p.manifest("10", "", ""), "inside")
			mine, _ := created(t, rt, harness.Pod("default", "mine", "probe", "inside"))
			asks := harness.Pod("default", "asks", "probe", "inside")
			asks.Annotations["probe/inside."+event] = mine.GetId()
			c, _ := created(t, rt, asks)
			if _, err := rt.Update(t.Context(), asks, c, shares(5)); err != nil {
				t.Fatal(err)
			}
			if err := rt.Remove(t.Context(), asks, c); err != nil {
				t.Fatal(err)
			}
			if got := p.wait(1, "inside", mine.GetId()); got.Err != "" || len(got.Failed) != 0 {
				t.Errorf("the plugin was told error %q, failed %v", got.Err, got.Failed)
			}
			harness.Eventually(t, "the update", func() bool { return sharesOf(rt.Updates(), mine.GetId()) == 99 })
			if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
				t.Errorf("%v fallbacks, want none: the handler waited for a runtime that waits for it", n)
			}
			if what, took := rt.Slowest(); took > time.Second {
				t.Errorf("%s took %s", what, took)
			}
		})
	}
}

func TestAFloodOfUpdatesIsCoalescedAndDelaysNobody(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "flood")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "flood")
	const n = 3000
	asks := harness.Pod("default", "asks", "probe", "flood")
	asks.Annotations["probe/flood.PostStartContainer"] = fmt.Sprint(n)
	c, _ := created(t, rt, asks)
	begin := time.Now()
	if err := rt.StartContainer(t.Context(), asks, c); err != nil {
		t.Fatal(err)
	}
	others := 0
	for len(p.about("flood", c.GetId())) == 0 {
		created(t, rt, harness.Pod("default", fmt.Sprint("other", others)))
		others++
	}
	if got := p.wait(1, "flood", c.GetId()); got.Err != "" {
		t.Errorf("the plugin was told %q", got.Err)
	}
	const last = 1000 + n - 1
	harness.Eventually(t, "the last update", func() bool { return sharesOf(rt.Updates(), c.GetId()) == last })
	took := time.Since(begin)
	// At most one request each 100 ms, and the first at once.
	if got, most := rt.UpdateRequests(), int(took/(100*time.Millisecond))+2; got > most {
		t.Errorf("%d requests reached the runtime in %s, want at most %d", got, took, most)
	}
	if what, slowest := rt.Slowest(); slowest > time.Second {
		t.Errorf("%s took %s during the flood", what, slowest)
	}
	t.Logf("%d updates in %s became %d requests; %d other containers were created meanwhile", n, took, rt.UpdateRequests(), others)
	if n := sup.Sum("nri_supervisor_fallbacks_total"); n != 0 {
		t.Errorf("%v fallbacks during the flood", n)
	}
}

func TestUpdatesInRepliesOutsideTheScopeAreDroppedOneByOne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scope string
		want  map[string][]string // event → who of mine, own, foreign, ghost is updated
	}{
		{"selected", map[string][]string{"CreateContainer": {"mine"}, "UpdateContainer": {"mine", "own"}, "StopContainer": {"mine"}}},
		{"own", map[string][]string{"CreateContainer": nil, "UpdateContainer": {"own"}, "StopContainer": nil}},
		{"none", map[string][]string{"CreateContainer": nil, "UpdateContainer": nil, "StopContainer": nil}},
	} {
		t.Run(tt.scope, func(t *testing.T) {
			t.Parallel()
			rt := harness.NewRuntime(t)
			p := newProbe(t, "replies")
			sup := start(t, rt, teams, p.manifest("10", `, "name": "replies"`, "  permissions: {update: "+tt.scope+"}"), "replies")
			mine, _ := created(t, rt, harness.Pod("default", "mine", "probe", "replies"))
			foreign, _ := created(t, rt, harness.Pod("default", "foreign"))
			pod := harness.Pod("default", "own", "probe", "replies")
			own := harness.Container(pod, "main")
			names := map[string]string{"mine": mine.GetId(), "own": own.GetId(), "foreign": foreign.GetId(), "ghost": "ghost"}
			for event := range tt.want {
				list := []string{names["mine"], names["foreign"], names["ghost"]}
				if event == "UpdateContainer" {
					list = append(list, names["own"])
				}
				pod.Annotations["probe/update."+event] = strings.Join(list, ",")
			}
			check := func(event string, updates []*api.ContainerUpdate) {
				t.Helper()
				var want []string
				for _, who := range tt.want[event] {
					want = append(want, names[who])
				}
				var got []string
				for _, u := range updates { // the runtime's own answer to an update names the container that was asked about
					if u.GetLinux().GetResources().GetCpu().GetShares().GetValue() == 77 {
						got = append(got, u.GetContainerId())
					}
				}
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s: updates of %v, want %v", event, got, want)
				}
			}
			if err := rt.RunPod(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			rpl, err := rt.Create(t.Context(), pod, own)
			if err != nil {
				t.Fatal(err)
			}
			check("CreateContainer", rpl.GetUpdate())
			if got := env(rpl.GetAdjust()); got["PROBE"] != "replies" {
				t.Errorf("env %v: an update that was dropped took the rest of the reply with it", got)
			}
			updated, err := rt.Update(t.Context(), pod, own, shares(5))
			if err != nil {
				t.Fatal(err)
			}
			check("UpdateContainer", updated.GetUpdate())
			stopped, err := rt.StopContainer(t.Context(), pod, own)
			if err != nil {
				t.Fatal(err)
			}
			check("StopContainer", stopped.GetUpdate())
			denied := 0
			for event, allowed := range tt.want {
				denied += strings.Count(pod.GetAnnotations()["probe/update."+event], ",") + 1 - len(allowed)
			}
			if n := sup.Sum("nri_supervisor_container_updates_total", `result="denied"`, `source="reply"`); n != float64(denied) {
				t.Errorf("denied updates = %v, want %d", n, denied)
			}
		})
	}
}

func TestAnUpdateThatTheRuntimeRefusesIsNoSecret(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	rt.Refuse(func(*api.ContainerUpdate) bool { return true })
	p := newProbe(t, "refused")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "refused")
	mine, _ := created(t, rt, harness.Pod("default", "mine", "probe", "refused"))
	asks := harness.Pod("default", "asks", "probe", "refused")
	asks.Annotations["probe/outside.PostCreateContainer"] = mine.GetId()
	created(t, rt, asks)
	sup.WaitLine(1, "container update not made", map[string]any{"plugin": "refused", "containerID": mine.GetId()})
	series := `nri_supervisor_container_updates_total{plugin="refused",result="failed",source="unsolicited"}`
	harness.Eventually(t, series, func() bool { return sup.Metric(series) == "1" })
}
