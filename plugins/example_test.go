package plugins_test

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

// teamEnv is a complete plugin.
type teamEnv struct{}

// CreateContainer sets a variable on each container that the plugin is selected for.
func (teamEnv) CreateContainer(
	_ context.Context, pod *api.PodSandbox, _ *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	team, ok := pod.GetLabels()["team"]
	if !ok {
		return nil, nil, plugins.NotInterested(plugins.Pod)
	}
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("TEAM", team)
	return adjust, nil, nil
}

// Example is the main function of a plugin.
func Example() {
	plugins.Main(teamEnv{})
}
