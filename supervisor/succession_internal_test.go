package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestAPluginThatMustBeAloneIsNotStartedBeforeTheOneBeforeItHasEnded: whatever makes a reload stop one and start another. Nothing else waits for that.
func TestAPluginThatMustBeAloneIsNotStartedBeforeTheOneBeforeItHasEnded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(f *fixture, fs *files)
		name   string // from then on
	}{
		"renamed": {func(_ *fixture, fs *files) {
			fs.copyOf("a", "b")
			fs.edit("a")
		}, "b"},
		"renamed twice": {func(f *fixture, fs *files) {
			fs.copyOf("a", "b")
			fs.edit("a")
			go func() { _, _ = f.s.Reload(f.t.Context(), "the first name") }()
			f.eventually("the first name", func() bool { return f.s.plan().byName["b"] != nil })
			fs.copyOf("b", "c")
			fs.edit("b")
		}, "c"},
		"given to another team": {func(_ *fixture, fs *files) { fs.edit("a", "team: t", "team: u") }, "a"},
		"removed, then added": {func(f *fixture, fs *files) {
			text := fs.read("a")
			fs.edit("a")
			f.reload()
			fs.write("a", text)
		}, "a"},
		"removed, and another one of its program added": {func(_ *fixture, fs *files) {
			fs.copyOf("a", "b", `"10"`, `"11"`)
			fs.edit("a")
		}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := loadWith(t, "  teams: {t: {}, u: {}}\n", [2]string{"a", "  updateStrategy: {type: Recreate}\n" + sel("x")})
			fs := filesOf(t, cfg)
			var alive atomic.Int32
			stopping, release := make(chan struct{}, 10), make(chan struct{})
			holder := func(int) (*fakePlugin, error) {
				if alive.Add(1) > 1 {
					t.Error("two hold the device")
				}
				return &fakePlugin{ending: func() {
					stopping <- struct{}{}
					<-release
					alive.Add(-1)
				}}, nil
			}
			f, _ := serveFiles(t, fs, makers{"a": holder, "b": holder, "c": holder, "other": one(&fakePlugin{})})
			before := f.s.plan().byName["a"]
			tc.change(f, fs)
			done := make(chan ReloadReport, 1)
			go func() {
				r, _ := f.s.Reload(f.t.Context(), "test")
				done <- r
			}()
			<-stopping
			f.eventually("the new plan", func() bool { h := f.s.plan().byName[tc.name]; return h != nil && h != before })
			fs.write("other", strings.NewReplacer("name: a}", "name: other}", "/bin/true", "/bin/false", "Recreate", "RollingUpdate").Replace(manifestOfA(fs, tc.name)))
			if diff := cmp.Diff([]string{"other added started"}, changes(f.reload())); diff != "" {
				t.Errorf("changes meanwhile (-want +got):\n%s", diff)
			}
			close(release)
			if r := <-done; r.Result != "success" {
				t.Errorf("%+v", r)
			}
			f.ready(tc.name)
		})
	}
}

// manifestOfA is the text of a manifest, with the name of the plugin that it was at first.
func manifestOfA(fs *files, name string) string {
	return strings.Replace(fs.read(name), "name: "+name+"}", "name: a}", 1)
}

// TestAStandbyStartsNothingThatAReloadBringsBeforeItsTurn, and what the reload took away not even then.
func TestAStandbyStartsNothingThatAReloadBringsBeforeItsTurn(t *testing.T) {
	t.Parallel()
	fs := onDisk(t, [2]string{"a", sel("x")}, [2]string{"gone", sel("x")}, [2]string{"changed", sel("x")})
	var free atomic.Bool
	plugins := makers{}
	for _, n := range []string{"a", "gone", "changed", "added"} {
		plugins[n] = func(int) (*fakePlugin, error) {
			if !free.Load() || n == "gone" {
				t.Errorf("plugin %s is started", n)
			}
			return &fakePlugin{}, nil
		}
	}
	f := beginWith(t, Options{Config: fs.cfg, Source: &fs.src, Registry: prometheus.NewRegistry(), Turn: func() error {
		if free.Load() {
			return nil
		}
		return ErrTaken
	}}, plugins)
	f.eventually("a standby", func() bool { return f.s.Status().Runtime.Reason == "taken" })
	fs.copyOf("a", "added", `"10"`, `"09"`)
	fs.edit("gone")
	fs.edit("changed", "path: /bin/true", "path: /bin/true, args: [x]")
	if r := f.reload(); r.Result != "success" || len(r.Changes) != 3 {
		t.Errorf("%+v", r)
	}
	free.Store(true)
	if err := f.rt.accept().synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "added", "changed"} {
		f.ready(n)
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
	if defects := f.events(func(e Event) bool { _, ok := e.(Defect); return ok }); len(defects) > 0 {
		t.Errorf("%+v", defects)
	}
}

func (f *files) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.cfg.Supervisor.PluginDirs[0], name+".yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}
