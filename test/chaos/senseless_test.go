package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/senseless.txt anew; read the diff before committing it")

// senselessCells are the cells of the matrix that make no sense, one a line: the fault, the moment, and why.
func senselessCells() []string {
	var out []string
	for _, r := range rows() {
		for _, m := range moments() {
			if r.senseless == nil {
				continue
			}
			if why := r.senseless(m); why != "" {
				out = append(out, fmt.Sprintf("%s | %s | %s", r.name, m, why))
			}
		}
	}
	return out
}

// TestCellsThatMakeNoSenseAreKnown keeps a fault from losing a moment unseen.
func TestCellsThatMakeNoSenseAreKnown(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "senseless.txt")
	got := strings.Join(senselessCells(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the cells that make no sense differ from %s (-want +got); go test -update writes it anew:\n%s", file, d)
	}
}
