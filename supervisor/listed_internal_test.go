package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// TestAFolderFullOfBrokenManifestsIsListedInPart: somebody has to read the log, the status and the report, and a time series database has to keep the metrics.
func TestAFolderFullOfBrokenManifestsIsListedInPart(t *testing.T) {
	t.Parallel()
	const broken = 350
	fs := onDisk(t, [2]string{"good", sel("x")})
	f, _ := serveFiles(t, fs, makers{"good": one(&fakePlugin{})})
	for i := range broken {
		text := fmt.Sprintf("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: bad%d}\nspec: {team: nobody}\n", i)
		if err := os.WriteFile(filepath.Join(fs.cfg.Supervisor.PluginDirs[0], fmt.Sprintf("bad%d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := fs.load()
	check := func(f *fixture) {
		t.Helper()
		st := f.s.Status()
		if got := len(st.Config.Problems); got != mostListed || st.Config.MoreProblems != len(cfg.Problems)-mostListed {
			t.Errorf("status has %d problems and %d more, of %d", got, st.Config.MoreProblems, len(cfg.Problems))
		}
		if got := len(st.Plugins); got != 1+mostListed || st.MoreInvalid != broken-mostListed {
			t.Errorf("status has %d plugins and %d more that are invalid", got, st.MoreInvalid)
		}
		families, err := f.s.opts.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, fam := range families {
			for _, m := range fam.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "plugin" {
						names[l.GetValue()] = true
					}
				}
			}
		}
		if len(names) > 2+mostListed { // with "other"
			t.Errorf("metrics name %d plugins", len(names))
		}
	}
	r := f.reload()
	if total := len(errorTexts(cfg.Problems)); len(r.Problems) != mostListed || r.MoreProblems != total-mostListed {
		t.Errorf("the report lists %d problems and %d more, of %d", len(r.Problems), r.MoreProblems, total)
	}
	check(f)
	again := beginWith(t, Options{Config: cfg, Source: &policy.LoadOptions{ConfigFile: fs.src.ConfigFile}}, makers{"good": one(&fakePlugin{})})
	again.rt.accept()
	told := func(e Event) bool { _, ok := e.(ConfigProblem); return ok }
	again.eventually("the problems", func() bool { return len(again.events(told)) > mostListed })
	if got := len(again.events(told)); got != mostListed+1 {
		t.Errorf("%d lines about problems", got)
	}
	check(again)
}
