package plugin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

const architecture = "../../ARCHITECTURE.md"

// The page shows the table of the code.
func TestTheDiagramInTheArchitecturePageIsTheTable(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- diagram:begin -->\n", "<!-- diagram:end -->"
	file := filepath.FromSlash(architecture)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 || strings.Contains(after, end) || strings.Contains(after, begin) {
		t.Fatalf("%s: exactly one %q followed by %q is needed", file, begin, end)
	}
	want := "```mermaid\n" + plugin.Diagram() + "```\n"
	if got == want {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, cmp.Diff(want, got))
}

// A table with an edge that nothing takes is not the table of this machine.
func TestEveryEdgeOfTheTableIsTaken(t *testing.T) {
	t.Parallel()
	table, taken := tableEdges(), map[string]bool{}
	if len(table) < 20 {
		t.Fatalf("the diagram has only %d edges: it is not read as it is written", len(table))
	}
	for _, file := range conversations(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, w, err := replay(string(b))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for e := range w.edges {
			taken[e] = true
		}
	}
	var missing []string
	for e := range table {
		if !taken[e] {
			missing = append(missing, e)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("no golden conversation takes %s", strings.Join(missing, ", "))
	}
}
