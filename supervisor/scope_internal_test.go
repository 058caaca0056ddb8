package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// denied counts what is told of updates of the container that were not granted to plugin p.
func (f *fixture) denied(id, why string) int {
	return len(f.events(func(e Event) bool {
		x, ok := e.(UpdateDenied)
		return ok && x.Plugin == "p" && x.ContainerID == id && strings.Contains(x.Why, why)
	}))
}

// TestUpdatesFromEachOfTheFivePlacesReachOnlyContainersInScope: replies to CreateContainer, UpdateContainer, StopContainer and Synchronize, and unsolicited ones. The rest is left
// out or returned as failed, counted, and told.
func TestUpdatesFromEachOfTheFivePlacesReachOnlyContainersInScope(t *testing.T) {
	t.Parallel()
	mine, theirs := pod("mine", "x", "1"), pod("theirs")
	both := func() []*api.ContainerUpdate {
		return []*api.ContainerUpdate{shares("own", 7), shares("foreign", 7), shares("unknown", 7)}
	}
	names := func(us []*api.ContainerUpdate) string {
		var out []string
		for _, u := range us {
			out = append(out, u.GetContainerId())
		}
		return strings.Join(out, ",")
	}
	var got arrived
	f, s := serveWith(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{
		updates: both(),
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Update: both()}, nil
		},
		update: func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
			return &api.UpdateContainerResponse{Update: both()}, nil
		},
		stop: func(*api.StopContainerRequest) (*api.StopContainerResponse, error) {
			return &api.StopContainerResponse{Update: both()}, nil
		},
	})}, got.take, []*api.PodSandbox{mine, theirs}, []*api.Container{ctr("mine", "own"), ctr("theirs", "foreign")})

	// 1. Synchronize.
	f.eventually("the update of its own container from Synchronize", func() bool { return got.sharesOf("own") == 7 })
	// 2. Unsolicited.
	failed, err := f.l.inc("p").h.Update(t.Context(), both())
	if err != nil || names(failed) != "foreign,unknown" {
		t.Errorf("unsolicited: %q fail, %v", names(failed), err)
	}
	// 3. to 5.: replies.
	created, err := s.create(mine, ctr("mine", "new"))
	if err != nil || names(created.GetUpdate()) != "own" {
		t.Errorf("CreateContainer: %q, %v", names(created.GetUpdate()), err)
	}
	updated, err := s.plugin.UpdateContainer(s.ctx(), &api.UpdateContainerRequest{Pod: mine, Container: ctr("mine", "new")})
	if err != nil || names(updated.GetUpdate()) != "own" {
		t.Errorf("UpdateContainer: %q, %v", names(updated.GetUpdate()), err)
	}
	stopped, err := s.plugin.StopContainer(s.ctx(), &api.StopContainerRequest{Pod: mine, Container: ctr("mine", "new")})
	if err != nil || names(stopped.GetUpdate()) != "own" {
		t.Errorf("StopContainer: %q, %v", names(stopped.GetUpdate()), err)
	}
	f.eventually("five records each", func() bool {
		return f.denied("foreign", "selector does not select") == 5 && f.denied("unknown", "selector does not select") == 5
	})
	if r, u := f.counted("container_updates_total", "source", "reply", "result", "denied"), f.counted("container_updates_total", "source", "unsolicited", "result", "denied"); r != 6 || u != 4 {
		t.Errorf("%v of replies and %v others are counted", r, u)
	}
	if n := got.sharesOf("foreign") + got.sharesOf("unknown"); n != 0 {
		t.Error("a foreign update reached the runtime")
	}
}

// TestTheScopeOwnIsTheContainerOfTheEvent and none is none.
func TestTheScopeOwnIsTheContainerOfTheEvent(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]string{"own": "c", "none": ""} {
		p := pod("p", "x", "1")
		replies := func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
			return &api.UpdateContainerResponse{Update: []*api.ContainerUpdate{shares("c", 1), shares("other", 1)}}, nil
		}
		f, s := serveWith(t, load(t, [2]string{"p", sel("x") + "  permissions: {update: " + scope + "}\n"}), makers{"p": one(&fakePlugin{
			update: replies,
			stop: func(*api.StopContainerRequest) (*api.StopContainerResponse, error) {
				return &api.StopContainerResponse{Update: []*api.ContainerUpdate{shares("c", 1), shares("other", 1)}}, nil
			},
		})}, nil, []*api.PodSandbox{p}, []*api.Container{ctr("p", "c"), ctr("p", "other")})
		var got []string
		u, err := s.plugin.UpdateContainer(s.ctx(), &api.UpdateContainerRequest{Pod: p, Container: ctr("p", "c")})
		if err != nil {
			t.Fatal(err)
		}
		st, err := s.plugin.StopContainer(s.ctx(), &api.StopContainerRequest{Pod: p, Container: ctr("p", "c")})
		if err != nil {
			t.Fatal(err)
		}
		for _, up := range append(u.GetUpdate(), st.GetUpdate()...) {
			got = append(got, up.GetContainerId())
		}
		if slices.Sort(got); strings.Join(slices.Compact(got), ",") != want || want != "" && len(u.GetUpdate())+len(st.GetUpdate()) != 2 {
			t.Errorf("%s: %v", scope, got)
		}
		if failed, err := f.l.inc("p").h.Update(t.Context(), []*api.ContainerUpdate{shares("c", 1)}); err != nil || len(failed) != 1 {
			t.Errorf("%s: an update outside of any event is accepted: %v, %v", scope, failed, err)
		}
	}
}

// TestATeamsCeilingHoldsAtOnceForWhatWasSelectedBefore: events, updates and snapshots, whatever the pod's author writes.
func TestATeamsCeilingHoldsAtOnceForWhatWasSelectedBefore(t *testing.T) {
	t.Parallel()
	const team = "  teams: {t: {contact: \"#t\", namespaces: [%s]}}\n"
	manifest := [2]string{"p", "  selector: {}\n"}
	var mu sync.Mutex
	var heard []string
	p := pod("p", "x", "1")
	f, s := serveWith(t, loadWith(t, fmt.Sprintf(team, "default"), manifest), makers{"p": one(&fakePlugin{
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Adjust: env("A", "1")}, nil
		},
		event: func(ev, id string) error {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, ev+" "+id)
			return nil
		},
	})}, nil, []*api.PodSandbox{p}, []*api.Container{ctr("p", "c")})
	if failed, _ := f.l.inc("p").h.Update(t.Context(), []*api.ContainerUpdate{shares("c", 1)}); len(failed) > 0 {
		t.Fatal("the container is not in scope to begin with")
	}
	h := f.s.plan().byName["p"]
	h.rules.Store(loadWith(t, fmt.Sprintf(team, "elsewhere"), manifest).Plugin("p"))
	// The author of the pod says what he likes: labels and annotations are no namespace.
	spoofed := pod("p", "x", "1", "kubernetes.io/metadata.name", "elsewhere", "io.kubernetes.pod.namespace", "elsewhere")
	spoofed.Annotations = map[string]string{"namespace": "elsewhere", "kubernetes.io/config.namespace": "elsewhere"}
	if _, err := s.plugin.StartContainer(s.ctx(), &api.StartContainerRequest{Pod: spoofed, Container: ctr("p", "c")}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []*api.PodSandbox{spoofed, pod("q", "namespace", "elsewhere")} {
		rpl, err := s.create(target, ctr(target.GetId(), "new-"+target.GetId()))
		if err != nil || envOf(rpl) != "" {
			t.Errorf("the plugin still changes pod %s: %v, %v", target.GetId(), rpl, err)
		}
	}
	if failed, _ := f.l.inc("p").h.Update(t.Context(), []*api.ContainerUpdate{shares("c", 1)}); len(failed) != 1 {
		t.Error("the plugin still updates the container")
	}
	told := make(chan snapshot)
	h.box.put(message{fn: func() { told <- h.snapshot() }})
	if snap := <-told; len(snap.pods)+len(snap.ctrs)+len(snap.refs) > 0 {
		t.Errorf("the plugin would still be told of %v", snap.refs)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(heard) > 0 {
		t.Errorf("the plugin heard %v", heard)
	}
}

// TestNoUpdateMakesTheRuntimeFailAnEvent: CRI-O fails a creation or stop when an update in the reply fails, Docker fails a creation on any update.
func TestNoUpdateMakesTheRuntimeFailAnEvent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		runtime string
		want    string
	}{{"containerd", "c:false"}, {"CRI-O", "c:true"}, {"docker", ""}} {
		t.Run(tt.runtime, func(t *testing.T) {
			t.Parallel()
			f := begin(t, load(t, [2]string{"p", sel("x")}), nil, state.Loaded{}, makers{"p": one(&fakePlugin{
				create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
					return &api.CreateContainerResponse{Adjust: env("A", "1"), Update: []*api.ContainerUpdate{shares("c", 1)}}, nil
				},
				update: func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
					return &api.UpdateContainerResponse{Update: []*api.ContainerUpdate{shares("new", 1)}}, nil
				},
			})})
			f.rt.name = tt.runtime
			s := f.rt.accept()
			p := pod("p", "x", "1")
			if err := s.synchronize([]*api.PodSandbox{p}, []*api.Container{ctr("p", "c")}); err != nil {
				t.Fatal(err)
			}
			f.ready("p")
			rpl, err := s.create(p, ctr("p", "new"))
			if err != nil || envOf(rpl) != "A=1" {
				t.Fatalf("the runtime gets %v, %v", rpl, err)
			}
			got := ""
			for _, u := range rpl.GetUpdate() {
				got += fmt.Sprintf("%s:%v", u.GetContainerId(), u.GetIgnoreFailure())
			}
			if got != tt.want {
				t.Errorf("the updates are %q, want %q", got, tt.want)
			}
			if tt.want == "" {
				f.eventually("the record", func() bool { return f.denied("c", `the runtime "docker"`) == 1 })
				return
			}
			upd, err := s.plugin.UpdateContainer(s.ctx(), &api.UpdateContainerRequest{Pod: p, Container: ctr("p", "new")})
			if err != nil || len(upd.GetUpdate()) != 1 || upd.GetUpdate()[0].GetIgnoreFailure() {
				t.Errorf("the update of the event's own container is %v, %v", upd, err)
			}
		})
	}
}

// TestAFloodOfUpdatesIsReturnedWithoutALook so that it costs nothing but the call.
func TestAFloodOfUpdatesIsReturnedWithoutALook(t *testing.T) {
	t.Parallel()
	p := pod("p", "x", "1")
	f, _ := serveWith(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{})}, nil, []*api.PodSandbox{p}, []*api.Container{ctr("p", "c")})
	flood := make([]*api.ContainerUpdate, 1000)
	for i := range flood {
		flood[i] = shares("foreign", 1)
	}
	for range 20 {
		if failed, err := f.l.inc("p").h.Update(t.Context(), flood); err != nil || len(failed) != len(flood) {
			t.Fatalf("%d of %d fail, %v", len(failed), len(flood), err)
		}
	}
	sum := func(why string) (n int) {
		for _, e := range f.events(func(e Event) bool { x, ok := e.(UpdateDenied); return ok && strings.Contains(x.Why, why) }) {
			x, _ := e.(UpdateDenied)
			n += x.Count
		}
		return n
	}
	f.eventually("a record of each", func() bool { return sum("") == 20*len(flood) })
	if looked := sum("selector"); looked < updatesBurst || looked > updatesBurst+updatesPerSecond*60 {
		t.Errorf("%v were looked at", looked)
	}
	if n := f.counted("container_updates_total", "source", "unsolicited", "result", "denied"); n != float64(20*len(flood)) {
		t.Errorf("%v are counted", n)
	}
}

// TestThePaceOfUpdatesRefills, and never beyond its burst.
func TestThePaceOfUpdatesRefills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pace
		for _, step := range []struct {
			wait       time.Duration
			ask, given int
		}{
			{0, updatesBurst + 5, updatesBurst}, {0, 1, 0}, {time.Second, 1000, updatesPerSecond}, {0, 1, 0}, {time.Hour, 5 * updatesBurst, updatesBurst},
		} {
			time.Sleep(step.wait)
			if got := p.take(step.ask, time.Now()); got != step.given {
				t.Errorf("after %v, %d of %d are taken, want %d", step.wait, got, step.ask, step.given)
			}
		}
	})
}
