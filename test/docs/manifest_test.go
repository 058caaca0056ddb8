//go:build manuals

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	team = regexp.MustCompile(`(?m)^  team: ([a-z-]+)`)
	// absent is what check says of a program that is not there.
	absent = regexp.MustCompile(`no such file or directory; install the binary there`)
)

// TestEveryManifestOfTheManualsIsOneThatCheckAccepts: but for its program, which is not there. Its team may everything.
func TestEveryManifestOfTheManualsIsOneThatCheckAccepts(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	shown := 0
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, _ := parse(string(text))
		for _, s := range steps {
			if s.verb != verbOther || !strings.Contains(s.text, "kind: Plugin\n") {
				continue
			}
			shown++
			config := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  teams:\n"
			var teams []string
			for _, m := range team.FindAllStringSubmatch(s.text, -1) {
				if !slices.Contains(teams, m[1]) {
					teams = append(teams, m[1])
					config += "    " + m[1] + ": {allow: {failurePolicyFail: true, reject: true, includeCritical: true, attach: true}}\n"
				}
			}
			dir := filepath.Join(r.dir, fmt.Sprint(shown))
			r.write(filepath.Join(dir, "config.yaml"), config, 0o644)
			r.write(filepath.Join(dir, "plugin.yaml"), s.text, 0o644)
			out, _ := r.bash(fmt.Sprintf("cd %d; nri-supervisor check --config config.yaml plugin.yaml || true; cd ..", shown))
			for line := range strings.Lines(r.unrooted(out)) {
				if strings.HasPrefix(line, "plugin.yaml:") && !absent.MatchString(line) || strings.HasPrefix(line, "config.yaml:") {
					t.Errorf("%s:%d: %s", filepath.Base(file), s.line, line)
				}
			}
			if !strings.Contains(out, " valid, ") {
				t.Errorf("%s:%d: check says %s", filepath.Base(file), s.line, out)
			}
		}
	}
	if shown < 7 {
		t.Errorf("only %d blocks have manifests", shown)
	}
}
