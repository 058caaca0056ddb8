// Command example is the plugin of docs/writing-a-plugin.md: it gives the containers of a GPU team what their libraries need.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

// gpuEnv implements the handlers that it needs. Their signatures are those of github.com/containerd/nri/pkg/stub.
type gpuEnv struct {
	mu    sync.Mutex        // handlers may run at the same time
	model string            // from the configuration
	known map[string]string // id of each container that got a GPU → its name
}

func main() { plugins.Main(&gpuEnv{}) }

// Configure receives the manifest's config as JSON. It may be called again: the new configuration replaces the old one.
func (p *gpuEnv) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	var c struct{ Model string }
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return 0, fmt.Errorf("read config: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.model = c.Model
	fmt.Printf("configured for model %q on %s %s\n", c.Model, runtime, version)
	return 0, nil // 0 subscribes to all events that have a handler
}

// Synchronize receives all the pods and containers that this plugin is selected for. It may be called again: forget
// everything you knew, this is the truth.
func (p *gpuEnv) Synchronize(_ context.Context, _ []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = make(map[string]string)
	for _, c := range ctrs {
		p.known[c.GetId()] = c.GetName()
	}
	return nil, nil
}

// CreateContainer returns what to change in the container.
func (p *gpuEnv) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if strings.HasPrefix(c.GetName(), "istio-") {
		return nil, nil, plugins.NotInterested(plugins.Container) // no further event for this one
	}
	if pod.GetAnnotations()["example.com/gpu"] == "forbidden" {
		return nil, nil, plugins.Reject("GPUs are forbidden for this pod") // needs permissions.reject
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[c.GetId()] = c.GetName()
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("GPU_MODEL", p.model)
	return adjust, nil, nil
}

// RemoveContainer may come for containers that this plugin never heard of.
func (p *gpuEnv) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, c.GetId())
	return nil
}

// Health is optional. A plugin that is not healthy several times in a row is replaced.
func (p *gpuEnv) Health(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		return fmt.Errorf("not synchronized yet")
	}
	return nil
}

// Shutdown is optional. It is called at most once, when the plugin is stopped.
func (p *gpuEnv) Shutdown(context.Context) { fmt.Println("bye") }
