package supervisor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// unselected returns what creates a container that none of n plugins selects.
func unselected(tb testing.TB, n int) (create func()) {
	tb.Helper()
	var text string
	for i := range n {
		text += fmt.Sprintf("---\napiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p%d}\nspec:\n  team: ml\n  index: \"%d\"\n  exec: {path: /opt/x}\n  selector: {podSelector: {matchLabels: {gpu: \"yes\"}}}\n", i, 10+i%90)
	}
	config := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {teams: {ml: {}}}\n"
	cfg, err := policy.Parse([]policy.SourceFile{{Path: "c", Data: []byte(config)}, {Path: "p", Data: []byte(text)}}, policy.LoadOptions{ConfigFile: "c"})
	if err != nil || len(cfg.Plugins) != n {
		tb.Fatal(err, cfg)
	}
	se := &session{sup: New(Options{Config: cfg}), budget: time.Second, timeout: 2 * time.Second}
	pod := &api.PodSandbox{Id: "p", Name: "p", Namespace: "default", Labels: map[string]string{"app": "x"}}
	ctr := &api.Container{Id: "c", PodSandboxId: "p", Name: "main"}
	return func() {
		if _, _, err := se.createContainer(context.Background(), pod, ctr); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestAPluginThatDoesNotSelectAContainerCostsItNoMemory: the way of an event that nobody selects allocates the same for a hundred plugins as for one.
func TestAPluginThatDoesNotSelectAContainerCostsItNoMemory(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	one, hundred := unselected(t, 1), unselected(t, 100)
	few, many := testing.AllocsPerRun(200, one), testing.AllocsPerRun(200, hundred)
	t.Logf("%v allocations", many)
	if many > few {
		t.Errorf("%v allocations with 100 plugins, %v with one", many, few)
	}
	if most := 12.0; many > most {
		t.Errorf("%v allocations, want at most %v", many, most)
	}
}

// BenchmarkAContainerThatNobodySelects is the creation of a container on a node with ten plugins that do not select it.
func BenchmarkAContainerThatNobodySelects(b *testing.B) {
	create := unselected(b, 10)
	b.ReportAllocs()
	for b.Loop() {
		create()
	}
}
