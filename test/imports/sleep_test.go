package imports_test

import (
	"go/ast"
	"slices"
	"testing"
)

// TestATestSleepsOnFakeTimeOnly refuses time.Sleep to the tests of a folder that makes no testing/synctest bubble: on real time a sleep is
// either too short or too long. Files that are not tests are golangci-lint's (forbidigo).
func TestATestSleepsOnFakeTimeOnly(t *testing.T) {
	t.Parallel()
	bubbles, sleepers := map[string]bool{}, []source{}
	for _, f := range sources(t) {
		if !f.test {
			continue
		}
		if slices.Contains(f.imports(), "testing/synctest") {
			bubbles[f.dir] = true
		}
		if calls(f.syntax, "time", "Sleep") {
			sleepers = append(sleepers, f)
		}
	}
	for _, f := range sleepers {
		if !bubbles[f.dir] {
			t.Errorf("%s sleeps on real time: wait for a channel or a condition, or put the test into a testing/synctest bubble", f.name)
		}
	}
	if len(bubbles) == 0 {
		t.Error("no test makes a bubble: this test no longer sees what it is about")
	}
}

// calls reports whether the file uses pkg.name, for a package that is imported under its own name.
func calls(file *ast.File, pkg, name string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg {
				found = true
			}
		}
		return !found
	})
	return found
}
