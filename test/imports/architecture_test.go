package imports_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page promises that each invariant is held by the test that it names.
func TestEachTestThatTheArchitecturePageNamesExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(data, -1) {
			exists[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 10 {
		t.Errorf("the page names %d tests, want one for each of its invariants", len(named))
	}
	for _, m := range named {
		if !exists[string(m[1])] {
			t.Errorf("the page names %s, which does not exist", m[1])
		}
	}
}
