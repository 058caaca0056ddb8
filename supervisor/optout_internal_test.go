package supervisor

import (
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// TestOptingOutSurvivesARestart of a container by a stock plugin's annotation, and of a pod by an SDK plugin's error: no event, no snapshot, and nothing counts as missing.
func TestOptingOutSurvivesARestart(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	heard := map[string]int{}
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		heard[what]++
	}
	plug := func(name string, out func(id string) (*api.CreateContainerResponse, error)) *fakePlugin {
		return &fakePlugin{
			create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
				note(name + " create " + r.GetContainer().GetId())
				return out(r.GetContainer().GetId())
			},
			event: func(ev, id string) error { note(name + " " + ev + " " + id); return nil },
			sync: func(pods []*api.PodSandbox, ctrs []*api.Container) error {
				for _, c := range ctrs {
					note(name + " told " + c.GetId())
				}
				for _, p := range pods {
					note(name + " told " + p.GetId())
				}
				return nil
			},
		}
	}
	cfg := load(t, [2]string{"stock", sel("x")}, [2]string{"whole", sel("x")})
	cfg.Plugin("stock").Spec.Exec.Protocol = "nri"
	plugins := makers{
		"stock": one(plug("stock", func(id string) (*api.CreateContainerResponse, error) {
			if id != "c" {
				return nil, nil
			}
			return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Annotations: map[string]string{notInterestedAnnotation: "container"}}}, nil
		})),
		"whole": one(plug("whole", func(string) (*api.CreateContainerResponse, error) {
			return nil, &wire.NotInterestedError{Scope: wire.ScopePod}
		})),
	}
	dir := t.TempDir()
	p, c, later := pod("p", "x", "1"), ctr("p", "c"), ctr("p", "later")

	db, loaded := state.Open(dir, state.Options{})
	f := begin(t, cfg, db, loaded, plugins)
	s := f.rt.accept()
	if err := s.synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.ready("stock")
	f.ready("whole")
	rpl, err := s.create(p, c)
	if err != nil || len(rpl.GetAdjust().GetAnnotations()) > 0 {
		t.Fatalf("the runtime gets %v, %v", rpl, err)
	}
	seen := map[string]bool{}
	for _, d := range f.s.Decisions(journal.Filter{}) {
		if d.Match == journal.MatchOptedOut {
			seen[d.Plugin] = true
		}
	}
	if !seen["stock"] || !seen["whole"] {
		t.Errorf("opting out is not among the decisions: %v", seen)
	}
	if _, err := s.create(p, later); err != nil {
		t.Fatal(err)
	}
	_ = f.end()
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	mu.Lock()
	first := heard
	heard = map[string]int{}
	mu.Unlock()
	if first["stock create c"] != 1 || first["stock create later"] != 1 || first["whole create c"] != 1 || first["whole create later"] != 0 {
		t.Errorf("before the restart: %v", first)
	}
	db, loaded = state.Open(dir, state.Options{})
	f = begin(t, cfg, db, loaded, plugins)
	s = f.rt.accept()
	if err := s.synchronize([]*api.PodSandbox{p}, []*api.Container{c, later}); err != nil {
		t.Fatal(err)
	}
	f.ready("stock")
	f.ready("whole")
	for _, ctr := range []*api.Container{c, later} {
		if _, err := s.plugin.StartContainer(s.ctx(), &api.StartContainerRequest{Pod: p, Container: ctr}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.create(p, ctr("p", "third")); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if heard["stock told c"]+heard["stock StartContainer c"] > 0 || heard["stock told later"] != 1 || heard["stock StartContainer later"] != 1 || heard["stock create third"] != 1 {
		t.Errorf("stock heard %v", heard)
	}
	for what := range heard {
		if what[:5] == "whole" {
			t.Errorf("%q although the plugin had left the pod", what)
		}
	}
	mu.Unlock()
	if missed := f.missedBy(); len(missed) > 0 {
		t.Errorf("missed: %v", missed)
	}
	// With the pod goes what is remembered of it.
	for _, id := range []string{"c", "later", "third"} {
		_, _ = s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: p, Container: ctr("p", id)})
	}
	_, _ = s.plugin.RemovePodSandbox(s.ctx(), &api.RemovePodSandboxRequest{Pod: p})
	_ = f.end()
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, loaded = state.Open(dir, state.Options{})
	if len(loaded.Records) > 0 {
		t.Errorf("left behind: %v", loaded.Records)
	}
	_ = db.Close(t.Context())
}

// TestAPluginMayOptOutInTheAnswerToAnyEventThatItIsAskedAt: it hears no more of the container, and explain says so.
func TestAPluginMayOptOutInTheAnswerToAnyEventThatItIsAskedAt(t *testing.T) {
	t.Parallel()
	out := &wire.NotInterestedError{Scope: wire.ScopeContainer}
	var mu sync.Mutex
	heard := map[string]int{}
	hear := func(ev string) {
		mu.Lock()
		defer mu.Unlock()
		heard[ev]++
	}
	for name, p := range map[string]*fakePlugin{
		"StartContainer": {event: func(ev, id string) error {
			if hear(ev + " " + id); ev == "StartContainer" {
				return out
			}
			return nil
		}},
		"UpdateContainer": {
			update: func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) { return nil, out },
			event:  func(ev, id string) error { hear(ev + " " + id); return nil },
		},
		"StopContainer": {
			stop:  func(*api.StopContainerRequest) (*api.StopContainerResponse, error) { return nil, out },
			event: func(ev, id string) error { hear(ev + " " + id); return nil },
		},
	} {
		f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(p)})
		target, c := pod(name, "x", "1"), ctr(name, "c"+name)
		if _, err := s.create(target, c); err != nil {
			t.Fatal(err)
		}
		var err error
		switch name {
		case "StartContainer":
			_, err = s.plugin.StartContainer(s.ctx(), &api.StartContainerRequest{Pod: target, Container: c})
		case "UpdateContainer":
			_, err = s.plugin.UpdateContainer(s.ctx(), &api.UpdateContainerRequest{Pod: target, Container: c})
		default:
			_, err = s.plugin.StopContainer(s.ctx(), &api.StopContainerRequest{Pod: target, Container: c})
		}
		if err != nil {
			t.Fatal(err)
		}
		list, err := f.s.Explain(t.Context(), "default", "n-"+name, c.GetName())
		if err != nil {
			t.Fatal(err)
		}
		if _, e := explained(t, list, c.GetId(), "p"); e.Match != journal.MatchOptedOut || e.Note != "" {
			t.Errorf("%s: %+v", name, e)
		}
		if _, err := s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: target, Container: c}); err != nil {
			t.Fatal(err)
		}
		other := ctr(name, "last"+name) // what comes of it is known when a later event has been answered
		if _, err := s.create(target, other); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if heard["RemoveContainer "+c.GetId()] > 0 {
			t.Errorf("%s: it still hears of the container: %v", name, heard)
		}
		mu.Unlock()
	}
}
