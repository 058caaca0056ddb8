package supervisor

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// files are the manifests of a test on disk.
type files struct {
	t   *testing.T
	cfg *policy.Config
	src policy.LoadOptions
}

// onDisk is the configuration that load made, with what it was loaded from.
func onDisk(t *testing.T, plugins ...[2]string) *files {
	t.Helper()
	return filesOf(t, load(t, plugins...))
}

// filesOf is onDisk for a configuration that loadWith made.
func filesOf(t *testing.T, cfg *policy.Config) *files {
	t.Helper()
	return &files{t: t, cfg: cfg, src: policy.LoadOptions{ConfigFile: filepath.Join(filepath.Dir(cfg.Supervisor.PluginDirs[0]), "config.yaml")}}
}

// edit changes the manifest of a plugin; no pair of texts removes it.
func (f *files) edit(name string, pairs ...string) {
	f.t.Helper()
	path := filepath.Join(f.cfg.Supervisor.PluginDirs[0], name+".yaml")
	if len(pairs) == 0 {
		if err := os.Remove(path); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	out := strings.NewReplacer(pairs...).Replace(string(text))
	if out == string(text) {
		f.t.Fatalf("nothing to replace in %s", text)
	}
	f.write(name, out)
}

// load reads the files again, as a start does.
func (f *files) load() *policy.Config {
	f.t.Helper()
	cfg, err := policy.Load(f.src)
	if err != nil {
		f.t.Fatal(err)
	}
	return cfg
}

func (f *files) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.cfg.Supervisor.PluginDirs[0], name+".yaml"), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// copyOf writes the manifest of another plugin.
func (f *files) copyOf(from, to string, pairs ...string) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.cfg.Supervisor.PluginDirs[0], from+".yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(to, strings.NewReplacer(append([]string{"name: " + from + "}", "name: " + to + "}"}, pairs...)...).Replace(string(text)))
}

func (f *fixture) reload() ReloadReport {
	f.t.Helper()
	r, err := f.s.Reload(f.t.Context(), "test")
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// changes are the changes of a report in short.
func changes(r ReloadReport) []string {
	var out []string
	for _, c := range r.Changes {
		text := c.Plugin + " " + c.Change + " " + c.How
		if c.From != "" {
			text += " from " + c.From
		}
		if c.Error != "" {
			text += ": " + c.Error
		}
		out = append(out, text)
	}
	return out
}

func (f *fixture) pid(name string) int { return f.s.plan().byName[name].view.Load().pid }

// series are the names of the metrics that have a series of the plugin.
func (f *fixture) series(plugin string) []string {
	f.t.Helper()
	families, err := f.s.opts.Registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, fam := range families {
		for _, m := range fam.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "plugin" && l.GetValue() == plugin {
					out = append(out, fam.GetName())
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func serveFiles(t *testing.T, fs *files, plugins makers) (*fixture, *sessionOf) {
	t.Helper()
	f := beginWith(t, Options{Config: fs.cfg, Source: &fs.src, Registry: prometheus.NewRegistry()}, plugins)
	s := f.rt.accept()
	if err := s.synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range fs.cfg.Plugins {
		f.ready(p.Name)
	}
	return f, s
}

func TestAReloadTouchesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"same", sel("a")}, [2]string{"rules", sel("a")}, [2]string{"process", sel("a")}, [2]string{"gone", sel("a")}, [2]string{"old", sel("a")})
	plugins := makers{}
	for _, n := range []string{"same", "rules", "process", "gone", "old", "new", "added"} {
		plugins[n] = one(setEnv(n, "1"))
	}
	p, c := pod("p", "a", "1"), ctr("p", "before")
	f, s := serveFiles(t, fs, plugins)
	if _, err := s.create(p, c); err != nil {
		t.Fatal(err)
	}
	if err := f.s.Act("old", "trip", 0); err != nil {
		t.Fatal(err)
	}
	before := map[string]int{}
	for _, n := range f.s.names() {
		before[n] = f.pid(n)
	}
	if r := f.reload(); r.Result != "success" || len(r.Changes) != 0 || r.Unchanged != 5 {
		t.Fatalf("nothing changed, but: %+v", r)
	}
	fs.edit("rules", "selector:", "timeouts: {default: 100ms}\n  selector:")
	fs.edit("process", "path: /bin/true", "path: /bin/true, args: [x]")
	fs.copyOf("old", "new")
	fs.edit("old")
	fs.edit("gone")
	fs.copyOf("same", "added", `"10"`, `"09"`)
	r := f.reload()
	want := []string{"added added started", "rules changed rules", "process changed replaced", "new renamed replaced from old", "gone removed stopped"}
	if diff := cmp.Diff(want, changes(r)); diff != "" || r.Result != "success" || r.Unchanged != 1 {
		t.Fatalf("%s, %d unchanged, changes (-want +got):\n%s", r.Result, r.Unchanged, diff)
	}
	for _, n := range []string{"same", "rules"} {
		if f.pid(n) != before[n] {
			t.Errorf("%s has another process", n)
		}
	}
	if f.pid("process") == before["process"] {
		t.Error("the changed process goes on")
	}
	if got := f.s.plan().byName["rules"].policy().Timeout(api.Event_START_CONTAINER).String(); got != "100ms" {
		t.Errorf("timeout %s", got)
	}
	if st := f.s.plan().byName["new"].guard.State().String(); st != "forced_open" {
		t.Errorf("the breaker that was tripped under the old name is %s", st)
	}
	for _, n := range []string{"gone", "old"} {
		if left := f.series(n); len(left) != 0 {
			t.Errorf("series of %s are left: %v", n, left)
		}
	}
	if len(f.series("added")) == 0 {
		t.Error("the new plugin has no series")
	}
	f.ready("added")
	missed := map[string]string{}
	f.eventually("the record of what the new plugin missed", func() bool {
		for _, m := range f.s.Missed() {
			missed[m.Plugin] = m.Reason
		}
		return len(missed) > 0
	})
	if diff := cmp.Diff(map[string]string{"added": "before_install"}, missed); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	rpl, err := s.create(p, ctr("p", "after"))
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, e := range rpl.GetAdjust().GetEnv() {
		env = append(env, e.GetKey())
	}
	slices.Sort(env)
	if diff := cmp.Diff([]string{"added", "process", "rules", "same"}, env); diff != "" {
		t.Errorf("adjusted by (-want +got):\n%s", diff)
	}
}

func TestABrokenFileChangesNothingAndIsReported(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("a")}, [2]string{"b", sel("a")})
	f, _ := serveFiles(t, fs, makers{"a": one(setEnv("a", "1")), "b": one(setEnv("b", "1"))})
	before := f.pid("a")
	fs.edit("a", "selector:", "selectr:")
	r := f.reload()
	if r.Result != "partial" || len(r.Changes) != 0 || len(r.Problems) == 0 || f.pid("a") != before {
		t.Fatalf("%+v", r)
	}
	if len(f.s.Status().Plugins) != 2 {
		t.Errorf("status shows the broken one as another plugin: %+v", f.s.Status().Plugins)
	}
	if again, err := f.s.ReloadChanged(t.Context(), "watch"); again || err != nil {
		t.Errorf("the same files count as changed: %v, %v", again, err)
	}
	if err := os.WriteFile(fs.src.ConfigFile, []byte("kind: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if r = f.reload(); r.Result != "failure" || len(r.Problems) == 0 || f.pid("a") != before {
		t.Fatalf("%+v", r)
	}
	if ok, why := f.s.Ready(); ok || !strings.Contains(why, "config.yaml") {
		t.Errorf("ready %v: %s", ok, why)
	}
}

func TestAProcessThatDoesNotComeUpIsReported(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("a")})
	f, _ := serveFiles(t, fs, makers{"a": func(n int) (*fakePlugin, error) {
		if n > 1 {
			return nil, errors.New("no such library")
		}
		return setEnv("a", "1"), nil
	}})
	fs.edit("a", "path: /bin/true", "path: /bin/true, args: [x]")
	r := f.reload()
	if got := changes(r); r.Result != "partial" || len(got) != 1 || !strings.Contains(got[0], "no such library") {
		t.Errorf("%s %v", r.Result, got)
	}
}

func TestAProcessThatIsConfinedOtherwiseThanItsManifestSaysDoesNotStay(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("a")})
	f, _ := serveFiles(t, fs, makers{"a": func(n int) (*fakePlugin, error) {
		if n > 1 {
			return nil, errors.New("root, and the minimum is strict")
		}
		return setEnv("a", "1"), nil
	}})
	fs.edit("a", "selector:", "sandbox: {profile: strict}\n  selector:")
	r := f.reload()
	if got := changes(r); r.Result != "partial" || len(got) != 1 || !strings.Contains(got[0], "the minimum is strict") || strings.Contains(got[0], "stays") {
		t.Errorf("%s %v", r.Result, got)
	}
	f.eventually("the end of the old process", func() bool { return f.pid("a") == 0 })
}

func TestTheLastGoodConfigurationIsInTheState(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("a")}, [2]string{"b", sel("b")})
	dir := t.TempDir()
	db, loaded := state.Open(dir, state.Options{})
	f := beginWith(t, Options{Config: fs.cfg, Source: &fs.src, State: db, Loaded: loaded}, makers{"a": one(setEnv("a", "1")), "b": one(setEnv("b", "1"))})
	fs.edit("b")
	fs.edit("a", "selector:", "selectr:")
	f.reload()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, loaded = state.Open(dir, state.Options{})
	defer func() { _ = db.Close(t.Context()) }()
	document, good := LastGood(loaded)
	cfg, err := policy.Load(policy.LoadOptions{ConfigFile: fs.src.ConfigFile, Supervisor: document, LastGood: good})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Plugins) != 1 || cfg.Plugins[0].Name != "a" || !cfg.Plugins[0].LastGood {
		t.Errorf("after a restart: %+v", cfg.Plugins)
	}
}

// TestAReloadBeforeTheRunBeginsStartsEachPluginOnce: the files are watched a moment earlier.
func TestAReloadBeforeTheRunBeginsStartsEachPluginOnce(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"stays", sel("x")}, [2]string{"old", sel("y")})
	plug := one(&fakePlugin{})
	f := &fixture{t: t, l: &fakeLauncher{make: makers{"stays": plug, "old": plug, "new": plug}, incs: map[string]*fakeInc{}}, rt: &fakeRuntime{t: t, conns: make(chan net.Conn, 100)}}
	f.s = New(Options{Config: fs.cfg, Source: &fs.src, Launcher: f.l, Dial: f.rt.dial})
	fs.copyOf("old", "new")
	fs.edit("old")
	f.reload()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.s.Run(ctx) }()
	f.meets(nil)
	f.ready("stays")
	f.ready("new")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{"stays": 1, "new": 1, "old": 0} {
		if got := len(f.l.all[name]); got != want {
			t.Errorf("%s was started %d times, want %d", name, got, want)
		}
	}
}
