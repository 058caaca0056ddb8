package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them; never in CI")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("output differs from %s (-want +got); go test -update writes it anew:\n%s", path, diff)
	}
}

// anyStamp finds an instant in the output for people.
var anyStamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// sameStamps replaces every instant, so that outputs of different moments compare.
func sameStamps(s string) string {
	return anyMoment.ReplaceAllString(anyStamp.ReplaceAllString(s, "2000-01-01T00:00:00Z"), ", 1 Jan")
}

// anyMoment finds an instant in the last column of a table.
var anyMoment = regexp.MustCompile(`(?m), (\d\d:\d\dZ|\d{1,2} [A-Z][a-z]{2}( \d{4})?)$`)
