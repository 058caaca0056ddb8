package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// nodeDir is a folder with a configuration and manifests, as an administrator has it.
type nodeDir struct {
	t   *testing.T
	dir string
}

func newNodeDir(t *testing.T) nodeDir {
	t.Helper()
	d := nodeDir{t, t.TempDir()}
	if err := os.Mkdir(filepath.Join(d.dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.write("config.yaml", "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  pluginDirs: [p]\n  defaults: {timeouts: {default: 300ms}}\n  teams: {t: {contact: \"#t\"}}\n")
	return d
}

func (d nodeDir) path(name string) string { return filepath.Join(d.dir, name) }

func (d nodeDir) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(d.path(name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d nodeDir) load(o policy.LoadOptions) *policy.Config {
	d.t.Helper()
	o.ConfigFile = d.path("config.yaml")
	cfg, err := policy.Load(o)
	if err != nil {
		d.t.Fatal(err)
	}
	return cfg
}

func manifestOf(name, spec string) string {
	return "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: " + name + "}\nspec: {team: t, index: \"10\", exec: {path: /bin/true, args: [\"a: b\", \"\\u2028\\\"\"]}, " + spec + "}\n"
}

func good(cfg *policy.Config) []policy.GoodManifest {
	out := make([]policy.GoodManifest, 0, len(cfg.Plugins))
	for _, p := range cfg.Plugins {
		out = append(out, p.Good())
	}
	return out
}

func pluginNames(cfg *policy.Config) string {
	var out []string
	for _, p := range cfg.Plugins {
		n := p.Name
		if p.LastGood {
			n += "(last good)"
		}
		out = append(out, n)
	}
	return strings.Join(out, " ")
}

func TestABrokenManifestKeepsItsLastGoodVersion(t *testing.T) {
	t.Parallel()
	config := `selector: {podSelector: {matchLabels: {"on": "yes"}}}, config: {n: 1, f: 1.5, s: "07", b: true, z: null, l: [1, x]}, quarantine: {after: 7}`
	for name, test := range map[string]struct {
		change func(d nodeDir)
		want   string
	}{
		"nothing happened": {func(nodeDir) {}, "a b"},
		"a wrong field":    {func(d nodeDir) { d.write("p/a.yaml", manifestOf("a", "selector: {}, nonsense: 1")) }, "a(last good) b"},
		"no YAML at all":   {func(d nodeDir) { d.write("p/a.yaml", "kind: [") }, "a(last good) b"},
		"nothing in the file, as after a full disk": {func(d nodeDir) { d.write("p/a.yaml", "") }, "a(last good) b"},
		"zeros in the file, as after a power cut":   {func(d nodeDir) { d.write("p/a.yaml", "\x00\x00\x00\n") }, "a(last good) b"},
		"a folder in its place": {func(d nodeDir) {
			if err := errors.Join(os.Remove(d.path("p/a.yaml")), os.Mkdir(d.path("p/a.yaml"), 0o755)); err != nil {
				d.t.Fatal(err)
			}
		}, "a(last good) b"},
		"commented out": {func(d nodeDir) { d.write("p/a.yaml", "# "+strings.ReplaceAll(manifestOf("a", config), "\n", "\n# ")) }, "b"},
		"one name twice": {func(d nodeDir) {
			d.write("p/c.yaml", manifestOf("a", "selector: {}"))
		}, "a(last good) b"},
		"removed": {func(d nodeDir) {
			if err := os.Remove(d.path("p/a.yaml")); err != nil {
				d.t.Fatal(err)
			}
		}, "b"},
		"moved to another file, and the old one broken": {func(d nodeDir) {
			d.write("p/c.yaml", manifestOf("a", "selector: {}"))
			d.write("p/a.yaml", "kind: [")
		}, "a b"},
		"the folder is gone": {func(d nodeDir) {
			if err := os.Rename(d.path("p"), d.path("q")); err != nil {
				d.t.Fatal(err)
			}
		}, "a(last good) b(last good)"},
		"the team's ceiling forbids it now": {func(d nodeDir) {
			d.write("config.yaml", "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  pluginDirs: [p]\n  teams: {t: {indexRange: [\"50\", \"60\"]}}\n")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newNodeDir(t)
			d.write("p/a.yaml", manifestOf("a", config))
			d.write("p/b.yaml", manifestOf("b", "selector: {}"))
			before := d.load(policy.LoadOptions{})
			if pluginNames(before) != "a b" {
				t.Fatal(before.Problems)
			}
			test.change(d)
			after := d.load(policy.LoadOptions{LastGood: good(before)})
			if got := pluginNames(after); got != test.want {
				t.Fatalf("plugins %q, want %q: %v", got, test.want, after.Problems)
			}
			p := after.Plugin("a")
			if p == nil || !p.LastGood {
				return
			}
			was := before.Plugin("a")
			if diff := cmp.Diff(was.Spec, p.Spec); diff != "" {
				t.Errorf("the last good version is another (-was +is):\n%s", diff)
			}
			if was.ConfigData() != p.ConfigData() || was.File != p.File || was.Line != p.Line {
				t.Errorf("was %s:%d %s, is %s:%d %s", was.File, was.Line, was.ConfigData(), p.File, p.Line, p.ConfigData())
			}
			if diff := cmp.Diff(was.Good(), p.Good()); diff != "" {
				t.Errorf("what is kept of it changes (-was +is):\n%s", diff)
			}
			if len(after.Problems.Errors()) == 0 {
				t.Error("nothing is reported")
			}
		})
	}
}

func TestAConfigurationThatWasGoodStandsInForABrokenOne(t *testing.T) {
	t.Parallel()
	d := newNodeDir(t)
	d.write("p/a.yaml", manifestOf("a", "selector: {}"))
	before := d.load(policy.LoadOptions{})
	d.write("config.yaml", "kind: [")
	if _, err := policy.Load(policy.LoadOptions{ConfigFile: d.path("config.yaml")}); err == nil {
		t.Fatal("the broken configuration was accepted")
	}
	d.write("p/b.yaml", manifestOf("b", "selector: {}"))
	after := d.load(policy.LoadOptions{Supervisor: before.Document, LastGood: good(before)})
	if got := pluginNames(after); got != "a b" {
		t.Errorf("plugins %q: %v", got, after.Problems)
	}
	if diff := cmp.Diff(before.Supervisor, after.Supervisor); diff != "" {
		t.Errorf("the configuration is another (-was +is):\n%s", diff)
	}
}

func TestAManifestWhoseBinaryIsGoneGoesOnOnlyWhileItRuns(t *testing.T) {
	t.Parallel()
	d := newNodeDir(t)
	d.write("bin", "#!/bin/true\n")
	if err := os.Chmod(d.path("bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.write("p/a.yaml", strings.Replace(manifestOf("a", "selector: {}"), "/bin/true", d.path("bin"), 1))
	before := d.load(policy.LoadOptions{CheckFiles: true})
	if pluginNames(before) != "a" {
		t.Fatal(before.Problems)
	}
	if err := os.Remove(d.path("bin")); err != nil {
		t.Fatal(err)
	}
	kept := good(before)
	if got := pluginNames(d.load(policy.LoadOptions{CheckFiles: true, LastGood: kept})); got != "" {
		t.Errorf("after a restart: %q", got)
	}
	kept[0].Hosted = true
	if got := pluginNames(d.load(policy.LoadOptions{CheckFiles: true, LastGood: kept})); got != "a(last good)" {
		t.Errorf("while it is hosted: %q", got)
	}
}
