package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// lives are supervisors that run one after the other over one state directory.
type lives struct {
	t   *testing.T
	dir string
	db  *state.DB
	f   *fixture
}

// end ends the one that runs.
func (l *lives) end() {
	l.t.Helper()
	if l.f == nil {
		return
	}
	if err := l.f.end(); err != nil {
		l.t.Fatal(err)
	}
	if err := l.db.Close(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.f = nil
}

// next begins another one.
func (l *lives) next(o Options, plugins makers) *fixture {
	l.t.Helper()
	l.end()
	o.Loaded = l.open()
	o.State = l.db
	l.f = beginWith(l.t, o, plugins)
	return l.f
}

func (l *lives) open() state.Loaded {
	l.t.Helper()
	if l.dir == "" {
		l.dir = l.t.TempDir()
	}
	db, loaded := state.Open(l.dir, state.Options{})
	l.db = db
	l.t.Cleanup(func() { _ = db.Close(context.WithoutCancel(l.t.Context())) }) // the context has ended by then
	return loaded
}

// meets makes the runtime tell the supervisor what it has.
func (f *fixture) meets(pods []*api.PodSandbox, ctrs ...*api.Container) *sessionOf {
	f.t.Helper()
	s := f.rt.accept()
	if err := s.synchronize(pods, ctrs); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// TestTheDecisionAboutAPodSurvivesARestart: a plugin that was told of a pod is told of its end, and one that was not is not, whatever its selector says when the supervisor comes back.
func TestTheDecisionAboutAPodSurvivesARestart(t *testing.T) {
	t.Parallel()
	l := &lives{t: t}
	var before, after listener
	x, y := pod("1", "x", "1"), pod("2", "y", "1")
	f := l.next(Options{Config: load(t, [2]string{"p", sel("x")})}, makers{"p": one(before.plugin())})
	s := f.meets(nil)
	f.ready("p")
	s.run(t, x)
	s.run(t, y)

	f = l.next(Options{Config: load(t, [2]string{"p", sel("y")})}, makers{"p": one(after.plugin())})
	s = f.meets([]*api.PodSandbox{x, y})
	f.ready("p")
	for _, p := range []*api.PodSandbox{x, y} {
		if _, err := s.plugin.StopPodSandbox(s.ctx(), &api.StopPodSandboxRequest{Pod: p}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.plugin.RemovePodSandbox(s.ctx(), &api.RemovePodSandboxRequest{Pod: p}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"Synchronize 1", "StopPodSandbox 1", "RemovePodSandbox 1"}
	f.eventually("the end of the pod", func() bool { return len(after.since(0)) >= len(want) })
	l.end()
	if d := cmp.Diff(want, after.since(0)); d != "" {
		t.Errorf("told after the restart (-want +got):\n%s", d)
	}
	if loaded := l.open(); len(loaded.Records) > 0 {
		t.Errorf("of pods that are gone something is kept: %v", loaded.Records)
	}
}

// TestWhatWasDecidedAboutANewPluginSurvivesARestart, although it adjusts no container, so that no work of it is recorded: also under a new name, and no longer than it is configured.
func TestWhatWasDecidedAboutANewPluginSurvivesARestart(t *testing.T) {
	t.Parallel()
	l := &lives{t: t}
	var listens api.EventMask
	listens.Set(api.Event_STOP_CONTAINER)
	plug := one(&fakePlugin{mask: listens})
	plugins := makers{"old": plug, "added": plug, "late": plug, "renamed": plug, "gone": plug}
	fs := onDisk(t, [2]string{"old", sel("x")})
	p, other := pod("1", "x", "1"), pod("2", "w", "1")
	f := l.next(Options{Config: fs.cfg, Source: &fs.src}, plugins)
	s := f.meets(nil)
	f.ready("old")
	s.run(t, p, "a")
	s.run(t, other, "b")
	fs.copyOf("old", "late", `"10"`, `"11"`)
	fs.copyOf("old", "gone", `"10"`, `"12"`)
	fs.copyOf("old", "added", `"10"`, `"13"`, `x: "1"`, `w: "1"`)
	f.reload()
	fs.copyOf("late", "renamed")
	fs.edit("late")
	fs.edit("gone")
	if got := changes(f.reload()); !slices.Contains(got, "renamed renamed replaced from late") {
		t.Fatalf("changes: %v", got)
	}

	// The same under a selector that matches nothing any more, and with the one that was removed.
	cfg := load(t, [2]string{"old", sel("z")}, [2]string{"added", sel("z")}, [2]string{"renamed", sel("z")}, [2]string{"gone", sel("z")})
	f = l.next(Options{Config: cfg}, plugins)
	f.meets([]*api.PodSandbox{p, other}, ctr("1", "a"), ctr("2", "b"))
	for _, name := range []string{"old", "added", "renamed", "gone"} {
		f.ready(name)
		pods, ctrs, _ := f.s.store.Snapshot(name)
		if want := name != "gone"; (len(pods) == 1) != want || (len(ctrs) == 1) != want {
			t.Errorf("%s is told of pods %v and containers %v", name, pods, ctrs)
		}
	}
}

// TestAfterALossOfTheStateNothingIsClaimedOfContainers: not that they were created while the supervisor was away.
func TestAfterALossOfTheStateNothingIsClaimedOfContainers(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte("junk"), 0o600) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lives{t: t}
			cfg, plugins := load(t, [2]string{"p", sel("x")}), makers{"p": one(setEnv("a", "1"))}
			f := l.next(Options{Config: cfg}, plugins)
			s := f.meets(nil)
			f.ready("p")
			x := pod("1", "x", "1")
			s.run(t, x, "a")
			l.end()
			if err := damage(filepath.Join(l.dir, "state.db")); err != nil {
				t.Fatal(err)
			}
			for _, ctrs := range [][]string{{"a"}, {"a", "b"}} { // what nobody knew once is not known later
				f = l.next(Options{Config: cfg}, plugins)
				var listed []*api.Container
				for _, c := range ctrs {
					listed = append(listed, ctr("1", c))
				}
				f.meets([]*api.PodSandbox{x}, listed...)
				f.eventually("what is missed", func() bool { return len(f.s.Missed()) == len(ctrs) })
				for _, m := range f.s.Missed() {
					if want := map[string]string{"a": "state_lost", "b": "supervisor_down"}[m.ContainerID]; m.Reason != want {
						t.Errorf("container %s is listed with reason %q, want %q", m.ContainerID, m.Reason, want)
					}
				}
				list, err := f.s.Explain(t.Context(), "default", x.GetName(), "c-a")
				if err != nil {
					t.Fatal(err)
				}
				if _, e := explained(t, list, "a", "p"); !strings.Contains(e.Note, "the decision was lost and taken again") {
					t.Errorf("explain says of the decision: %q", e.Note)
				}
				said := func() []Event { return f.events(func(e Event) bool { _, ok := e.(StateProblem); return ok }) }
				if len(ctrs) == 1 {
					f.eventually("what happened to the state", func() bool { return len(said()) > 0 })
					continue
				}
				if l.end(); len(said()) > 0 {
					t.Errorf("it is said once more: %v", said())
				}
			}
		})
	}
}
