package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// sharedFolder is one in which plugins of root may write: what lies in /tmp is each plugin's own.
func sharedFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/srv", "nri-supervisor-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// TestWhatAPluginWroteIsBelievedOnlyByItselfAsItWas: its own start is no reason for others to believe the file, nor for itself when it is confined less.
func TestWhatAPluginWroteIsBelievedOnlyByItselfAsItWas(t *testing.T) {
	t.Parallel()
	folder := sharedFolder(t)
	program := filepath.Join(folder, "program")
	plugin := func(name string, profile policy.Profile) *policy.Plugin {
		p := &policy.Plugin{Name: name, Team: "t", FileTrust: policy.TrustStrict}
		p.Spec.Sandbox.Profile, p.Spec.Exec = profile, &policy.ExecSpec{Path: program}
		return p
	}
	knows := isolation.Standard(nil)
	knows.Protect = append(slices.Clone(knows.Protect), program)
	a, b, n := plugin("a", policy.ProfileStandard), plugin("a", policy.ProfileNone), plugin("n", policy.ProfileNone)
	var r runners
	start := func(p *policy.Plugin, c isolation.Confinement) error {
		run, err := r.admit(p, c, loadedFiles(nil, p, nil))
		if err == nil {
			run.process = reaching(isolation.ReachedReadOnly)
			r.leave(run)
		}
		return err
	}
	for range 2 { // as it was, and replaced
		if err := errors.Join(os.WriteFile(program+".new", nil, 0o700), os.Rename(program+".new", program), start(a, knows)); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range map[string]*policy.Plugin{"another": n, "it without a profile": b} {
		if err := start(p, isolation.None()); err == nil || !strings.Contains(err.Error(), "plugin a could change it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := start(a, knows); err != nil {
		t.Errorf("as it was: %v", err)
	}
}

func TestWhatAPluginListsIsNotKeptFromIt(t *testing.T) {
	t.Parallel()
	lists := func(c isolation.Confinement, paths ...string) isolation.Confinement {
		c.ReadWrite = paths
		return c
	}
	standard, strict := isolation.Standard(nil), isolation.Strict(nil)
	strict.User, strict.OwnUser = &isolation.User{}, false
	for path, tt := range map[string]struct {
		confine isolation.Confinement
		might   bool
	}{
		"/opt/no-such-list/program":      {lists(standard, "/srv"), false},
		"/opt/no-such-folder/program":    {lists(standard, "/opt/no-such-folder"), true},
		"/opt/no-such-file":              {lists(standard, "/opt/no-such-file"), true},
		"/opt/no-such-sibling":           {lists(standard, "/opt/no-such"), false},
		"/opt/no-such-below-all":         {lists(standard, "/"), false}, // adds nothing
		"/opt/no-such-strict":            {lists(strict, "/opt"), true},
		"/opt/no-such-strict-all":        {lists(strict, "/"), true},
		"/tmp/no-such-temporary/program": {lists(standard, "/tmp/no-such-temporary"), true},
		"/tmp/no-such-own":               {standard, false},
		"/srv/no-such":                   {standard, true},
		"/srv/no-such-strict":            {strict, false},
	} {
		knows := tt.confine
		knows.Protect = append(slices.Clone(knows.Protect), path)
		o := runner{plugin: &policy.Plugin{Name: "early"}, confine: knows}
		if got := o.mightWrite(path); got != tt.might {
			t.Errorf("%s: %v", path, got)
		}
		f := loadedFile{path: path, at: []string{path}, names: 2}
		if got := f.namedBy(&policy.Plugin{Name: "late"}, []runner{o}); (got != "") != tt.might {
			t.Errorf("%s with a second name: %q", path, got)
		}
	}
}

func TestAFileWithASecondNameIsRefusedWhicheverPluginIsStartedFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, err := range []error{os.WriteFile(dir+"/program", nil, 0o755), os.Link(dir+"/program", dir+"/link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	late, lists := &policy.Plugin{Name: "late"}, &policy.Plugin{Name: "lists"}
	late.Spec.Exec, lists.Spec.Exec = &policy.ExecSpec{Path: dir + "/program"}, &policy.ExecSpec{Path: "/bin/sh"}
	late.Spec.Sandbox.Profile = policy.ProfileNone
	lists.Spec.Sandbox = policy.SandboxSpec{Profile: policy.ProfileStandard, ReadWritePaths: []string{dir}}
	confine := confinements{looks: &filelook.Looks{}}
	cfg := &policy.Config{Plugins: []*policy.Plugin{late, lists}}
	var r runners
	r.configure(cfg.Plugins, confine)
	const says = "the file has 2 names, hard links, and plugin lists could change it by another one"
	if _, err := r.admit(late, isolation.None(), loadedFiles(nil, late, nil)); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("before the other one is started: %v", err)
	}
	if u := unsettledOf(cfg, late, confine); u == nil {
		t.Error("check says nothing")
	} else if message, remedy := u.problem(); !strings.Contains(message, says) || !strings.Contains(remedy, "install a copy") {
		t.Errorf("check says %s: %s", message, remedy)
	}
	r.configure(cfg.Plugins[:1], confine)
	if _, err := r.admit(late, isolation.None(), loadedFiles(nil, late, nil)); err != nil {
		t.Errorf("when the other one is gone from the configuration: %v", err)
	}
}
