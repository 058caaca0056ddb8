package breaker_test

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestImports keeps the guard free of everything that acts: it decides and does not
// do. Its only dependency is gobreaker.
func TestImports(t *testing.T) {
	t.Parallel()
	forbidden := map[string]string{
		"os":        "the guard touches no process and no file",
		"os/exec":   "processes belong to isolation",
		"net":       "the guard talks to nobody",
		"log":       "the guard hands out transitions and logs nothing",
		"log/slog":  "the guard hands out transitions and logs nothing",
		"context":   "no method waits, so there is nothing to cancel",
		"math/rand": "math/rand/v2 is safe for concurrent use without a seed",
	}
	allowed := map[string]string{
		"github.com/sony/gobreaker/v2": "the breaker itself",
	}
	used := map[string]bool{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			used[path] = true
			if reason, ok := forbidden[path]; ok {
				t.Errorf("%s imports %q: %s", name, path, reason)
			}
			if _, ok := allowed[path]; !ok && strings.Contains(path, ".") {
				t.Errorf("%s imports %q: only the standard library and gobreaker are allowed", name, path)
			}
		}
	}
	for path, reason := range allowed {
		if !used[path] {
			t.Errorf("nothing imports %q (%s): take it off the list", path, reason)
		}
	}
}
