package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// reaching is a process that reaches every path like this.
type reaching isolation.Reach

func (r reaching) Reach(string) (isolation.Reach, error) { return isolation.Reach(r), nil }

// ended is a process that cannot be asked any more.
type ended struct{}

func (ended) Reach(string) (isolation.Reach, error) {
	return isolation.Unreached, errors.New("no such process")
}

func TestAPluginExecutesNothingThatAProcessOfAnotherCouldChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	standard, writes := isolation.Standard(nil), reaching(isolation.ReachedWritable)
	user := standard
	user.User, user.Capabilities = &isolation.User{UID: 1000}, nil
	powerful := user
	powerful.Capabilities = []string{"DAC_OVERRIDE"}
	strictRoot := isolation.Strict(nil)
	strictRoot.User, strictRoot.OwnUser = &isolation.User{}, false
	strictLists := strictRoot
	strictLists.ReadWrite = []string{dir}
	elsewhere, knows := standard, standard
	elsewhere.PrivateTmp = nil
	knows.PrivateTmp, knows.Protect = nil, append(slices.Clone(standard.Protect), program)
	_, defaults := policy.DefaultSpecs()
	plugin := func(name string) *policy.Plugin {
		p := &policy.Plugin{Name: name, Team: "t", Spec: defaults, FileTrust: policy.TrustStrict}
		p.Spec.Exec = &policy.ExecSpec{Path: program}
		return p
	}
	for name, tt := range map[string]struct {
		confine isolation.Confinement
		process interface {
			Reach(path string) (isolation.Reach, error)
		}
		change func(is, was *policy.Plugin)
		refuse bool
	}{
		"root that can write there":               {standard, writes, nil, true},
		"root that sees it read-only":             {standard, reaching(isolation.ReachedReadOnly), nil, false},
		"root that does not see it":               {standard, reaching(isolation.Unreached), nil, false},
		"root that may have it elsewhere":         {elsewhere, reaching(isolation.ReachedElsewhere), nil, true},
		"root that has a folder of its own there": {standard, reaching(isolation.ReachedElsewhere), nil, false},
		"a user":                                  {user, writes, nil, false},
		"a user that no mode stops":               {powerful, writes, nil, true},
		"strict":                                  {isolation.Strict(nil), writes, nil, false},
		"strict and root":                         {strictRoot, writes, nil, false},
		"strict and root that lists it":           {strictLists, writes, nil, true},
		"none, which the node trusts":             {isolation.None(), writes, nil, false},
		"being started, with private folders":     {standard, nil, nil, false},
		"being started, and does not know it":     {elsewhere, nil, nil, true},
		"being started, and knows it, a script":   {knows, nil, func(is, _ *policy.Plugin) { is.Spec.Exec.Path = "/bin/sh" }, false},
		"being started, and knows it":             {knows, nil, nil, false},
		"ended a moment ago, and did not know it": {elsewhere, ended{}, nil, true},
		"pinned": {standard, writes, func(is, _ *policy.Plugin) { is.Spec.Exec.SHA256 = "00" }, false},
		"pinned, with an environment": {standard, writes, func(is, _ *policy.Plugin) {
			is.Spec.Exec.SHA256 = "00"
			is.Spec.Exec.Env = []policy.EnvVar{{Name: "LD_PRELOAD", Value: program}}
		}, true},
		"without the check":       {standard, writes, func(is, _ *policy.Plugin) { is.FileTrust = policy.TrustOff }, false},
		"its own earlier process": {standard, writes, func(is, was *policy.Plugin) { is.Name = was.Name }, false},
		"its own earlier process, with other limits": {standard, writes, func(is, was *policy.Plugin) {
			is.Name = was.Name
			is.Spec.Resources.Limits.PIDs = new(*resource.NewQuantity(9, resource.DecimalSI))
		}, false},
		"its own earlier process, confined more":       {standard, writes, func(is, was *policy.Plugin) { is.Name = was.Name; is.Spec.Sandbox.Profile = policy.ProfileNone }, true},
		"another team's process of that name":          {standard, writes, func(is, was *policy.Plugin) { is.Name, is.Team = was.Name, "other" }, true},
		"a plugin that attaches, and executes nothing": {standard, writes, func(is, _ *policy.Plugin) { is.Spec.Exec = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is, was := plugin("late"), plugin("early")
			if tt.change != nil {
				tt.change(is, was)
			}
			files := func() []loadedFile {
				if is.Spec.Exec == nil {
					return loadedFiles(nil, is, nil)
				}
				return loadedFiles(nil, is, writtenEnv(is.Spec.Exec))
			}
			var r runners
			run, err := r.admit(was, tt.confine, nil)
			if err != nil {
				t.Fatal(err)
			}
			run.process = tt.process
			_, err = r.admit(is, isolation.None(), files())
			if (err != nil) != tt.refuse {
				t.Fatalf("%v, want a refusal: %v", err, tt.refuse)
			}
			if err != nil && !strings.Contains(err.Error(), `"`+program+`": plugin early runs and can change it: move it below /opt`) {
				t.Error(err)
			}
			r.leave(run)
			if _, again := r.admit(is, isolation.None(), files()); (again != nil) != tt.refuse || again != nil && !strings.Contains(again.Error(), "plugin early could change it") {
				t.Errorf("when the other one has ended: %v, before %v", again, err)
			}
		})
	}
}

func TestAProcessThatHasEndedIsRememberedForEachTeamThatHadItsName(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	_, defaults := policy.DefaultSpecs()
	of := func(team string) *policy.Plugin {
		p := &policy.Plugin{Name: "p", Team: team, Spec: defaults, FileTrust: policy.TrustStrict}
		p.Spec.Exec = &policy.ExecSpec{Path: program}
		return p
	}
	standard := isolation.Standard(nil)
	standard.PrivateTmp = nil // it can write to the test's folder
	var r runners
	for _, team := range []string{"a", "b", "a"} {
		run, err := r.admit(of(team), standard, nil)
		if err != nil {
			t.Fatal(err)
		}
		run.process = ended{}
		r.leave(run)
	}
	if n := len(r.past["p"]); n != 2 {
		t.Errorf("%d processes are remembered, want one for each team", n)
	}
	for _, team := range []string{"a", "b"} { // the other one's process could change it
		is := of(team)
		if _, err := r.admit(is, standard, loadedFiles(nil, is, nil)); err == nil {
			t.Errorf("the plugin of team %s executes what the one of the other team could change", team)
		}
	}
}

func TestWhatLeadsToWhatAPluginExecutesIsKeptFromOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(dir+"/v2/bin", 0o755), os.WriteFile(dir+"/v2/bin/program", []byte("#!"+dir+"/interpreter -x\n"), 0o755), os.Mkdir(dir+"/links", 0o755),
		os.WriteFile(dir+"/interpreter", nil, 0o755), os.Symlink("../v2", dir+"/links/current"), os.WriteFile(dir+"/library.so", nil, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	spec, defaults := policy.DefaultSpecs()
	p := &policy.Plugin{Name: "p", Spec: defaults, FileTrust: policy.TrustStrict}
	p.Spec.Exec = &policy.ExecSpec{Path: dir + "/links/current/bin/program", Env: []policy.EnvVar{{Name: "LD_PRELOAD", Value: dir + "/library.so " + dir + "/missing.so"}}}
	c := newConfinements(&spec, nil).with(p)
	for _, path := range []string{dir + "/links", dir + "/v2/bin/program", dir + "/interpreter", dir + "/library.so"} {
		if !slices.Contains(c.kept, path) {
			t.Errorf("%s is not kept: %q", path, c.kept)
		}
	}
	if slices.Contains(c.kept, dir) {
		t.Errorf("the folder in which something is missing is kept as a whole: %q", c.kept)
	}
}

func TestASocketIsSeenByWhoMayConnect(t *testing.T) {
	t.Parallel()
	standard, user := isolation.Standard(nil), isolation.Standard(nil)
	user.User, user.Capabilities = &isolation.User{UID: 1000}, nil
	for name, tt := range map[string]struct {
		confine isolation.Confinement
		reach   isolation.Reach
		uids    []int64
		seen    bool
	}{
		"root":                      {standard, isolation.ReachedReadOnly, []int64{0}, true},
		"root that sees nothing":    {standard, isolation.Unreached, []int64{0}, false},
		"root for a user's":         {standard, isolation.ReachedWritable, []int64{1000}, false},
		"the user":                  {user, isolation.ReachedReadOnly, []int64{1000}, true},
		"a user for root's":         {user, isolation.ReachedReadOnly, []int64{0}, false},
		"strict for root's":         {isolation.Strict(nil), isolation.ReachedReadOnly, []int64{0}, false},
		"none, which sees them all": {isolation.None(), isolation.ReachedWritable, []int64{0}, false},
	} {
		var r runners
		run, err := r.admit(&policy.Plugin{Name: "early"}, tt.confine, nil)
		if err != nil {
			t.Fatal(err)
		}
		run.process = reaching(tt.reach)
		if got := r.sees(&policy.Plugin{Name: "late"}, "/srv/late/nri.sock", tt.uids); (got == "early") != tt.seen {
			t.Errorf("%s: %q, want seen: %v", name, got, tt.seen)
		}
	}
}

// TestAFileThatWasReplacedIsNotBelievedWhenOthersMayHaveDoneIt: the rename takes away with the old file what kept it from others, and who did it may have ended since.
func TestAFileThatWasReplacedIsNotBelievedWhenOthersMayHaveDoneIt(t *testing.T) {
	t.Parallel()
	standard, strict := isolation.Standard(nil), isolation.Strict(nil)
	for name, tt := range map[string]struct {
		other  isolation.Confinement
		refuse bool
	}{"standard": {standard, true}, "strict": {strict, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := sharedFolder(t)
			program := filepath.Join(folder, "program")
			write := func(path, text string) {
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(program, "one")
			is := &policy.Plugin{Name: "late"}
			is.Spec.Exec = &policy.ExecSpec{Path: program}
			knows := tt.other
			knows.Protect = append(slices.Clone(knows.Protect), program)
			var r runners
			r.know(loadedFiles(nil, is, nil))
			run, err := r.admit(&policy.Plugin{Name: "early"}, knows, nil)
			if err != nil {
				t.Fatal(err)
			}
			run.process = reaching(isolation.ReachedReadOnly)
			if _, err := r.admit(is, isolation.None(), loadedFiles(nil, is, nil)); err != nil {
				t.Errorf("as it was: %v", err)
			}
			r.leave(run)
			write(program+".new", "two")
			if err := os.Rename(program+".new", program); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := r.admit(is, isolation.None(), loadedFiles(nil, is, nil)); (err != nil) != tt.refuse {
					t.Errorf("replaced: %v, want a refusal: %v", err, tt.refuse)
				}
			}
		})
	}
}

func TestAPluginThatExitedAtItsStartMayHaveChangedFiles(t *testing.T) {
	t.Parallel()
	for phase, refuse := range map[isolation.Phase]bool{isolation.PhaseHandshake: true, isolation.PhaseRegister: true, isolation.PhaseBinary: false, isolation.PhaseSandbox: false} {
		var r runners
		run, err := r.admit(&policy.Plugin{Name: "early", Team: "t"}, isolation.Standard(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.failed(run, &isolation.StartError{Phase: phase, Err: errors.New("it exited")})
		file := loadedFile{path: "/srv/late", what: "executable", at: []string{"/srv/late"}}
		if _, err := r.admit(&policy.Plugin{Name: "late", Team: "u"}, isolation.None(), []loadedFile{file}); (err != nil) != refuse {
			t.Errorf("a start that failed in phase %s: %v, want a refusal: %v", phase, err, refuse)
		}
	}
}

func TestAFileWithASecondNameIsNotBelievedBesideAPluginOfRoot(t *testing.T) {
	t.Parallel()
	folder := sharedFolder(t)
	for _, err := range []error{os.WriteFile(folder+"/late", nil, 0o755), os.Link(folder+"/late", folder+"/link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	knows := isolation.Standard(nil)
	knows.Protect = append(slices.Clone(knows.Protect), folder+"/late")
	var r runners
	run, err := r.admit(&policy.Plugin{Name: "early"}, knows, nil)
	if err != nil {
		t.Fatal(err)
	}
	run.process = reaching(isolation.ReachedReadOnly)
	late := func() error {
		is := &policy.Plugin{Name: "late"}
		is.Spec.Exec = &policy.ExecSpec{Path: folder + "/late"}
		_, err := r.admit(is, isolation.None(), loadedFiles(nil, is, nil))
		return err
	}
	if err := late(); err == nil || !strings.Contains(err.Error(), "the file has 2 names, hard links, and plugin early could change it by another one") {
		t.Errorf("with a second name: %v", err)
	}
	if err := os.Remove(folder + "/link"); err != nil {
		t.Fatal(err)
	}
	if err := late(); err != nil {
		t.Errorf("with one name: %v", err)
	}
}
