package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// read returns a file of testdata under its base name.
func read(t *testing.T, path ...string) policy.SourceFile {
	t.Helper()
	full := filepath.Join(append([]string{"testdata"}, path...)...)
	data, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	return policy.SourceFile{Path: filepath.Base(full), Data: data}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/%s: %v", dir, err)
	}
	return files
}

func TestEachMistakeInAPluginHasAMessageWithPlaceAndRemedy(t *testing.T) {
	t.Parallel()
	config := read(t, "config.yaml")
	for _, path := range list(t, "bad") {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := policy.Parse([]policy.SourceFile{config, read(t, "bad", name)}, policy.LoadOptions{ConfigFile: "config.yaml"})
			if err != nil {
				t.Fatalf("a plugin's mistake made the Supervisor document unusable: %v", err)
			}
			if len(c.Invalid) == 0 {
				t.Fatalf("accepted: %d plugins", len(c.Plugins))
			}
			for _, i := range c.Invalid {
				if len(i.Problems.Errors()) == 0 || i.File != name {
					t.Errorf("invalid without an error or in the wrong file: %+v", i)
				}
			}
			checkProblems(t, c.Problems, name)
			compareGolden(t, strings.TrimSuffix(path, ".yaml")+".golden", c.Problems.Error()+"\n")
		})
	}
}

func TestEachMistakeInTheSupervisorDocumentHasAMessageWithPlaceAndRemedy(t *testing.T) {
	t.Parallel()
	for _, path := range list(t, "badconfig") {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := policy.Parse([]policy.SourceFile{read(t, "badconfig", name)}, policy.LoadOptions{ConfigFile: name})
			if err == nil || c != nil {
				t.Fatalf("Parse = %v, %v; want nil and an error", c, err)
			}
			problems, ok := err.(policy.Problems) //nolint:errorlint // the documented type, not wrapped
			if !ok {
				t.Fatalf("the error is a %T, not Problems", err)
			}
			checkProblems(t, problems, name)
			compareGolden(t, strings.TrimSuffix(path, ".yaml")+".golden", err.Error()+"\n")
		})
	}
}

// checkProblems checks what holds for every message.
func checkProblems(t *testing.T, problems policy.Problems, file string) {
	t.Helper()
	if len(problems.Errors()) == 0 {
		t.Error("no error among the problems")
	}
	for _, p := range problems {
		text := p.Error()
		switch {
		case p.File != file || p.Line == 0:
			t.Errorf("no file and line: %q", text)
		case p.Severity == policy.Error && p.Remedy == "":
			t.Errorf("no remedy: %q", text)
		case strings.Contains(text, "failed to"), strings.Contains(p.Message, "\n"), strings.HasSuffix(text, "."):
			t.Errorf("not in the voice of errors: %q", text)
		}
	}
}
