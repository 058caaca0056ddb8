package supervisor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// BenchmarkAContainerThatNobodySelects is the creation of a container on a node with ten plugins that do not select it.
func BenchmarkAContainerThatNobodySelects(b *testing.B) {
	var text string
	for i := range 10 {
		text += fmt.Sprintf("---\napiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p%d}\nspec:\n  team: ml\n  index: \"%d\"\n  exec: {path: /opt/x}\n  selector: {podSelector: {matchLabels: {gpu: \"yes\"}}}\n", i, 20+i)
	}
	config := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {teams: {ml: {}}}\n"
	cfg, err := policy.Parse([]policy.SourceFile{{Path: "c", Data: []byte(config)}, {Path: "p", Data: []byte(text)}}, policy.LoadOptions{ConfigFile: "c"})
	if err != nil || len(cfg.Plugins) != 10 {
		b.Fatal(err, cfg)
	}
	se := &session{sup: New(Options{Config: cfg}), budget: time.Second, timeout: 2 * time.Second}
	pod := &api.PodSandbox{Id: "p", Name: "p", Namespace: "default", Labels: map[string]string{"app": "x"}}
	ctr := &api.Container{Id: "c", PodSandboxId: "p", Name: "main"}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := se.createContainer(context.Background(), pod, ctr); err != nil {
			b.Fatal(err)
		}
	}
}
