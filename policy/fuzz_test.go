package policy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// FuzzParse checks what holds for any two files: a value or an error and never both or neither; no message without
// a file; the same answer twice; and that a valid plugin, printed, parses to the same plugin.
func FuzzParse(f *testing.F) {
	config, err := os.ReadFile(filepath.Join("testdata", "config.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	seeds := 0
	add := func(config, plugins []byte) {
		f.Add(config, plugins)
		seeds++
	}
	for _, pattern := range []string{"*.yaml", "bad/*.yaml", "badconfig/*.yaml"} {
		paths, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(paths) == 0 {
			f.Fatalf("no seeds in testdata/%s: %v", pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			add(config, data)
			add(data, []byte(plugin("p")))
		}
	}
	add([]byte(supervisorYAML), []byte(plugin("p", conditions(`pod.name == "x"`), "config: {a: [1, 2.5, ~, {b: c}]}")))
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	f.Fuzz(func(t *testing.T, config, plugins []byte) {
		files := []policy.SourceFile{{Path: "c", Data: config}, {Path: "p", Data: plugins}}
		o := policy.LoadOptions{ConfigFile: "c"}
		c, err := policy.Parse(files, o)
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", c, err)
		}
		again, errAgain := policy.Parse(files, o)
		if err != nil {
			if errAgain == nil || err.Error() != errAgain.Error() {
				t.Fatalf("two answers:\n%v\n%v", err, errAgain)
			}
			return
		}
		if diff := cmp.Diff(c.Problems.Error(), again.Problems.Error()); diff != "" || c.Hash != again.Hash {
			t.Fatalf("two answers:\n%s", diff)
		}
		for _, p := range c.Problems.Errors() {
			if p.File == "" || p.Message == "" {
				t.Fatalf("a message without a file: %+v", p)
			}
		}
		for _, p := range c.Plugins {
			checkFixedPoint(t, c, p)
			p.MatchContainer(&api.PodSandbox{}, &api.Container{})
			p.ExplainContainer(nil, nil)
		}
	})
}

// checkFixedPoint prints the plugin and parses it again.
func checkFixedPoint(t *testing.T, c *policy.Config, p *policy.Plugin) {
	t.Helper()
	supervisor, err := c.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.Parse([]policy.SourceFile{{Path: "c", Data: supervisor}, {Path: "p", Data: first}}, policy.LoadOptions{ConfigFile: "c"})
	if err != nil {
		t.Fatalf("the printed Supervisor document is refused: %v\n%s", err, supervisor)
	}
	q := again.Plugin(p.Name)
	if q == nil {
		t.Fatalf("the printed plugin is refused: %v\n%s", again.Problems, first)
	}
	second, err := q.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Fatalf("printed differently (-first +second):\n%s", cmp.Diff(string(first), string(second)))
	}
	if p.ConfigData() != q.ConfigData() || p.Events() != q.Events() {
		t.Fatalf("another plugin: %q, %q", p.ConfigData(), q.ConfigData())
	}
}
