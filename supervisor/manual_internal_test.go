package supervisor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// breakers are the states of the breakers by plugin.
func (f *fixture) breakers() map[string]string {
	out := map[string]string{}
	for _, p := range f.s.Status().Plugins {
		out[p.Name] = p.Breaker.State
	}
	return out
}

func (f *fixture) act(name string, actions ...string) {
	f.t.Helper()
	for _, a := range actions {
		if err := f.s.Act(name, a, 0); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestAManualStateWaitsForItsPlugin: a manifest that was away for a while, also while the supervisor was restarted, comes back to what an operator had set.
func TestAManualStateWaitsForItsPlugin(t *testing.T) {
	t.Parallel()
	l := &lives{t: t}
	fs := onDisk(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x")}, [2]string{"c", sel("x")})
	plug := one(&fakePlugin{})
	plugins := makers{"a": plug, "b": plug, "c": plug}
	f := l.next(Options{Config: fs.cfg}, plugins)
	f.act("a", "disable")
	f.act("b", "disable", "trip", "enable")
	f = l.next(Options{Config: load(t, [2]string{"c", sel("x")})}, plugins)
	f.meets(nil)
	f.ready("c")
	f = l.next(Options{Config: load(t, [2]string{"c", sel("x")}), Source: &fs.src}, plugins)
	f.meets(nil)
	f.ready("c")
	f.reload()
	want := map[string]string{"a": "disabled", "b": "forced_open", "c": "closed"}
	if d := cmp.Diff(want, f.breakers()); d != "" {
		t.Errorf("breakers after the manifests came back (-want +got):\n%s", d)
	}
	f.eventually("a at rest", func() bool { return f.s.plan().byName["a"].view.Load().state == "disabled" })
	if n := f.l.living("a"); n != 0 {
		t.Errorf("of the disabled plugin %d incarnations live", n)
	}
}

// TestAStandbyShowsTheManualStatesAndTakesActions: what an operator asks of it counts when it takes over.
func TestAStandbyShowsTheManualStatesAndTakesActions(t *testing.T) {
	t.Parallel()
	l := &lives{t: t}
	names := []string{"disabled", "tripped", "enabled", "running"}
	var plugs [][2]string
	plugins := makers{}
	for _, n := range names {
		plugs = append(plugs, [2]string{n, sel("x")})
		plugins[n] = one(&fakePlugin{})
	}
	cfg := load(t, plugs...)
	f := l.next(Options{Config: cfg}, plugins)
	f.act("disabled", "disable")
	f.act("enabled", "disable")
	f.act("tripped", "trip")

	var free atomic.Bool
	f = l.next(Options{Config: cfg, Turn: func() error {
		if free.Load() {
			return nil
		}
		return ErrTaken
	}}, plugins)
	f.eventually("a standby", func() bool { return f.s.Status().Runtime.Reason == "taken" })
	want := map[string]string{"disabled": "disabled", "tripped": "forced_open", "enabled": "disabled", "running": "closed"}
	if d := cmp.Diff(want, f.breakers()); d != "" {
		t.Errorf("breakers of a standby (-want +got):\n%s", d)
	}
	f.act("enabled", "enable")
	f.act("running", "disable")
	free.Store(true)
	f.meets(nil)
	f.ready("enabled")
	f.ready("tripped")
	for _, n := range []string{"disabled", "running"} {
		f.eventually(n+" at rest", func() bool { return f.s.plan().byName[n].view.Load().state == "disabled" })
	}
	want = map[string]string{"disabled": "disabled", "tripped": "forced_open", "enabled": "closed", "running": "disabled"}
	f.eventually("the breakers as asked for", func() bool { return cmp.Equal(want, f.breakers()) })
	l.end()
	if d := cmp.Diff(map[string]string{"disabled": "disabled", "tripped": "tripped", "running": "disabled"}, l.open().Manual); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
}

// quarantine puts a pod under quarantine as the loop does.
func (f *fixture) quarantine(name, pod string) {
	h := f.s.plan().byName[name]
	done := make(chan struct{})
	h.box.put(message{fn: func() {
		defer close(done)
		h.guard.Quarantine(breaker.QuarantinedPod{Pod: pod, Strikes: 3, Until: time.Now().Add(time.Hour)})
		h.keepQuarantine()
	}})
	<-done
}

func (f *fixture) quarantined(name string) []string {
	var out []string
	for _, q := range f.s.plan().byName[name].guard.Snapshot().Quarantined {
		out = append(out, q.Pod)
	}
	return out
}

// TestARenamedPluginKeepsWhatIsRememberedOfIt, whether the supervisor saw it or not; of one that is gone nothing is kept but what an operator had set.
func TestARenamedPluginKeepsWhatIsRememberedOfIt(t *testing.T) {
	t.Parallel()
	l := &lives{t: t}
	plug := one(&fakePlugin{})
	plugins := makers{"a": plug, "b": plug, "c": plug, "d": plug, "gone": plug, "away": plug}
	fs := onDisk(t, [2]string{"a", sel("x")}, [2]string{"gone", sel("x")}, [2]string{"away", sel("x")})
	f := l.next(Options{Config: fs.cfg, Source: &fs.src}, plugins)
	s := f.meets(nil)
	for _, n := range []string{"a", "gone", "away"} {
		f.ready(n)
		f.quarantine(n, "u-"+n)
	}
	f.act("gone", "trip")
	p := pod("1", "x", "1")
	s.run(t, p, "c")
	f.act("a", "trip")
	check := func(name string) {
		t.Helper()
		if d := cmp.Diff([]string{"u-a"}, f.quarantined(name)); d != "" {
			t.Errorf("quarantined as %s (-want +got):\n%s", name, d)
		}
		if got := f.breakers()[name]; got != "forced_open" {
			t.Errorf("the breaker of %s is %s", name, got)
		}
		if missed := f.missedBy(); len(missed) > 0 {
			t.Errorf("as %s its work is missing: %v", name, missed)
		}
	}
	fs.copyOf("a", "b")
	fs.edit("a")
	fs.edit("gone")
	f.reload()
	check("b")

	fs.copyOf("b", "c") // while nobody looks
	fs.edit("b")
	fs.edit("away")
	l.end()
	f = l.next(Options{Config: fs.load(), Source: &fs.src}, plugins)
	fs.copyOf("c", "d") // before the runtime has told what is there
	fs.edit("c")
	f.reload()
	f.meets([]*api.PodSandbox{p}, ctr("1", "c"))
	f.ready("d")
	check("d")
	l.end()
	kept := l.open()
	for key := range kept.Values {
		if name := key[len(key)-1:]; key != keySupervisor && name != "d" {
			t.Errorf("kept: %s", key)
		}
	}
	if d := cmp.Diff(map[string]string{"d": "tripped", "gone": "tripped"}, kept.Manual); d != "" {
		t.Errorf("kept by hand (-want +got):\n%s", d)
	}
}

// TestAnActionDuringARenamingIsNotLost: it counts for the plugin under whichever name, or says that there is none of that name.
func TestAnActionDuringARenamingIsNotLost(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"n0", sel("x")})
	plugins := makers{}
	const rounds = 30
	for i := range rounds + 1 {
		plugins[fmt.Sprint("n", i)] = one(&fakePlugin{})
	}
	f, _ := serveFiles(t, fs, plugins)
	for i := range rounds {
		old, now := fmt.Sprint("n", i), fmt.Sprint("n", i+1)
		fs.copyOf(old, now)
		fs.edit(old)
		var tripped error
		var wg sync.WaitGroup
		wg.Go(func() { tripped = f.s.Act(old, "trip", 0) })
		f.reload()
		wg.Wait()
		if got := f.breakers()[now]; (got == "forced_open") != (tripped == nil) {
			t.Fatalf("round %d: the trip gave %v, and the breaker is %s", i, tripped, got)
		}
		f.act(now, "reset")
	}
}
