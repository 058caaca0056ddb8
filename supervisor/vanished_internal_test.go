package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// listener is a plugin that notes in which order it is told what.
type listener struct {
	mu    sync.Mutex
	heard []string
	fails bool // at each event
}

func (l *listener) note(format string, args ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
	if l.fails {
		return errors.New("it does not work")
	}
	return nil
}

// since returns what was heard after the n-th synchronization, from 1; 0: from the start.
func (l *listener) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range l.heard {
		if n == 0 {
			return slices.Clone(l.heard[i:])
		}
		if strings.HasPrefix(h, "Synchronize") {
			n--
		}
	}
	if n == 0 {
		return nil
	}
	return []string{"no such synchronization"}
}

func (l *listener) plugin() *fakePlugin {
	return &fakePlugin{
		sync: func(pods []*api.PodSandbox, ctrs []*api.Container) error {
			ids := []string{"Synchronize"}
			for _, p := range pods {
				ids = append(ids, p.GetId())
			}
			for _, c := range ctrs {
				ids = append(ids, c.GetId())
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.heard = append(l.heard, strings.Join(ids, " "))
			return nil
		},
		create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{}, l.note("CreateContainer %s", r.GetContainer().GetId())
		},
		event: func(ev, id string) error { return l.note("%s %s", ev, id) },
	}
}

func (f *fixture) syncs(name string) int {
	return len(f.events(func(e Event) bool { x, ok := e.(PluginSynced); return ok && x.Plugin == name }))
}

func (s *sessionOf) run(t *testing.T, p *api.PodSandbox, ctrs ...string) {
	t.Helper()
	if _, err := s.plugin.RunPodSandbox(s.ctx(), &api.RunPodSandboxRequest{Pod: p}); err != nil {
		t.Fatal(err)
	}
	for _, c := range ctrs {
		if _, err := s.create(p, ctr(p.GetId(), c)); err != nil {
			t.Fatal(err)
		}
	}
}

// again lets the runtime go away and come back with what it still has.
func (f *fixture) again(s *sessionOf, pods []*api.PodSandbox, ctrs ...*api.Container) {
	f.t.Helper()
	s.cut()
	next := f.rt.accept()
	if err := next.synchronize(pods, ctrs); err != nil {
		f.t.Fatal(err)
	}
}

// TestWhatVanishedWithTheRuntimeIsToldToThoseThatHadSeenIt: and to them before they hear of what is new, once.
func TestWhatVanishedWithTheRuntimeIsToldToThoseThatHadSeenIt(t *testing.T) {
	t.Parallel()
	var x, y, late listener
	f, s := serve(t, load(t, [2]string{"x", sel("x")}, [2]string{"y", sel("y")}, [2]string{"late", sel("x") + "  restart: {backoff: 10ms}\n"}), makers{
		"x": one(x.plugin()), "y": one(y.plugin()), "late": one(late.plugin()),
	})
	stays, xy, onlyY := pod("1", "x", "1"), pod("2", "x", "1", "y", "1"), pod("3", "y", "1")
	s.run(t, stays, "a", "b", "c")
	s.run(t, xy, "d")
	s.run(t, onlyY, "e")
	if _, err := s.plugin.StopContainer(s.ctx(), &api.StopContainerRequest{Pod: stays, Container: ctr("1", "c")}); err != nil {
		t.Fatal(err)
	}
	s.cut() // meanwhile one plugin ends: its successor has seen nothing
	f.l.inc("late").end("signal", "killed")
	f.eventually("the next one", func() bool {
		return f.pid("late") != 0 && f.l.inc("late").pid == f.pid("late") && f.s.plan().byName["late"].view.Load().state == "syncing"
	})
	s = f.rt.accept()
	added := ctr("1", "new")
	if err := s.synchronize([]*api.PodSandbox{stays}, []*api.Container{ctr("1", "a"), added}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y", "late"} {
		f.eventually(name+" synchronized again", func() bool { return f.syncs(name) == 2 })
	}
	for name, tc := range map[string]struct {
		l    *listener
		want []string
	}{
		"x": {&x, []string{
			"StopContainer b", "RemoveContainer b", "RemoveContainer c", // c had stopped before
			"StopContainer d", "StopPodSandbox 2", "RemoveContainer d", "RemovePodSandbox 2", "Synchronize 1 a new",
		}},
		"y":    {&y, []string{"StopContainer d", "StopPodSandbox 2", "RemoveContainer d", "RemovePodSandbox 2", "StopContainer e", "StopPodSandbox 3", "RemoveContainer e", "RemovePodSandbox 3", "Synchronize"}},
		"late": {&late, []string{"Synchronize 1 a new"}},
	} {
		got := tc.l.since(1)
		for len(got) > 0 && (strings.HasPrefix(got[0], "RunPod") || strings.HasPrefix(got[0], "Create") || got[0] == "StopContainer c") {
			got = got[1:]
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	// The runtime removes for good what it had not listed because it had stopped: the plugins know already.
	if _, err := s.plugin.RemoveContainer(s.ctx(), &api.RemoveContainerRequest{Pod: stays, Container: ctr("1", "c")}); err != nil {
		t.Fatal(err)
	}
	f.again(s, []*api.PodSandbox{stays}, ctr("1", "a"), added)
	f.eventually("synchronized once more", func() bool { return f.syncs("x") == 3 })
	if d := cmp.Diff([]string{"Synchronize 1 a new"}, x.since(2)); d != "" {
		t.Errorf("after a second loss, in which nothing vanished (-want +got):\n%s", d)
	}
	for _, e := range f.events(func(e Event) bool { _, ok := e.(Fallback); return ok }) {
		t.Errorf("an event without its plugin: %+v", e)
	}
}

// TestWhatAPluginCouldNotBeToldOfTheVanishedLeavesASign: and the plugin is synchronized all the same.
func TestWhatAPluginCouldNotBeToldOfTheVanishedLeavesASign(t *testing.T) {
	t.Parallel()
	var l listener
	f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(l.plugin())})
	s.run(t, pod("1", "x", "1"), "a")
	l.mu.Lock()
	l.fails = true
	l.mu.Unlock()
	f.again(s, nil)
	f.eventually("synchronized again", func() bool { return f.syncs("p") == 2 })
	var got []string
	for _, e := range f.events(func(e Event) bool { _, ok := e.(Fallback); return ok }) {
		got = append(got, e.(Fallback).NRIEvent)
	}
	if d := cmp.Diff([]string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"}, got); d != "" {
		t.Errorf("recorded (-want +got):\n%s", d)
	}
}

// TestWhatVanishedInASessionThatEndsAtOnceIsToldByTheNext: a registration can end at any moment.
func TestWhatVanishedInASessionThatEndsAtOnceIsToldByTheNext(t *testing.T) {
	t.Parallel()
	var l listener
	f, s := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(l.plugin())})
	s.run(t, pod("1", "x", "1"), "a")
	s.cut()
	s = f.rt.accept()
	f.s.deciding.Lock() // the session ends when its state is the truth, and before the plugins are told
	decide := sync.OnceFunc(f.s.deciding.Unlock)
	defer decide()
	done := make(chan error, 1)
	go func() { done <- s.synchronize([]*api.PodSandbox{pod("2")}, nil) }()
	f.eventually("its state to be taken in", func() bool { _, known := f.s.store.Pod("2"); return known })
	s.cut()
	s = f.rt.accept()
	decide()
	if err := <-done; err == nil {
		t.Error("a session that has ended was answered")
	}
	if err := s.synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.eventually("synchronized again", func() bool { return f.syncs("p") == 2 })
	if d := cmp.Diff([]string{"StopContainer a", "StopPodSandbox 1", "RemoveContainer a", "RemovePodSandbox 1", "Synchronize"}, l.since(1)[2:]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestUpdatesThatAPluginWantsWhenSomethingVanishedAreMade: a plugin that shares out CPUs gives what is free to those that are left.
func TestUpdatesThatAPluginWantsWhenSomethingVanishedAreMade(t *testing.T) {
	t.Parallel()
	updated := make(chan string, 10)
	f := begin(t, load(t, [2]string{"p", sel("x")}), nil, state.Loaded{}, makers{"p": one(&fakePlugin{
		stop: func(*api.StopContainerRequest) (*api.StopContainerResponse, error) {
			u := &api.ContainerUpdate{}
			u.SetContainerId("a")
			u.SetLinuxCPUShares(100)
			return &api.StopContainerResponse{Update: []*api.ContainerUpdate{u}}, nil
		},
	})})
	f.rt.onUpd = func(u *api.ContainerUpdate) { updated <- u.GetContainerId() }
	s := f.rt.accept()
	if err := s.synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.ready("p")
	p := pod("1", "x", "1")
	s.run(t, p, "a", "b")
	f.again(s, []*api.PodSandbox{p}, ctr("1", "a"))
	f.eventually("the update", func() bool { return len(updated) > 0 })
	if id := <-updated; id != "a" {
		t.Errorf("updated %s", id)
	}
}
