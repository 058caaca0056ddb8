package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// noticed is a reloader that tells of the changes that the watch noticed.
type noticed struct {
	config *policy.Config
	causes chan string
}

func (n *noticed) Config() *policy.Config { return n.config }

func (n *noticed) Reload(context.Context, string) (supervisor.ReloadReport, error) {
	return supervisor.ReloadReport{}, nil
}

func (n *noticed) ReloadChanged(_ context.Context, cause string) (bool, error) {
	select {
	case n.causes <- cause:
	default:
	}
	return false, nil
}

// TestAManifestThatIsALinkIsFollowed: what changes is a file in a folder that the configuration does not name.
func TestAManifestThatIsALinkIsFollowed(t *testing.T) {
	t.Parallel()
	manifests, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "gpu-v1.yaml")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(manifests, "gpu.yaml")); err != nil {
		t.Fatal(err)
	}
	n := &noticed{config: &policy.Config{Supervisor: policy.SupervisorSpec{PluginDirs: []string{manifests}}}, causes: make(chan string, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { watchFiles(ctx, &policy.LoadOptions{}, nil, n, nil, zap.NewNop()) })
	write := time.NewTicker(time.Second) // more than once: the watch begins at some time
	defer write.Stop()
	limit := time.After(30 * time.Second) // a look without a notice comes after a minute
	for {
		select {
		case cause := <-n.causes:
			if cause != "watch" {
				t.Errorf("noticed by %q", cause)
			}
			return
		case <-write.C:
			if err := os.WriteFile(target, []byte("kind: Plugin"), 0o600); err != nil {
				t.Fatal(err)
			}
		case <-limit:
			t.Fatal("a change of the link's target was not noticed")
		}
	}
}
