package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/plugins"
	"github.com/nri-supervisor/nri-supervisor/plugins/chaos/chaosplugin"
	"github.com/nri-supervisor/nri-supervisor/plugins/env-injector/envinjector"
)

// demoPlugin is one team's plugin.
type demoPlugin struct {
	name, team, index string
	does              string // once its fault is on
	action            string // of the chaos plugin; empty: it is healthy
	labelKey          string
	labelValue        string // of the pods that it is for
	env               string // the variable on a container that shows its work, NAME=VALUE
}

func demoGPU() demoPlugin {
	return demoPlugin{
		name: "gpu-env", team: "ml-infra", index: "20", does: "none",
		labelKey: "accelerator", labelValue: "gpu", env: "NVIDIA_VISIBLE_DEVICES=all",
	}
}

func demoNet() demoPlugin {
	return demoPlugin{
		name: "net-tuner", team: "network", index: "30", does: "hangs", action: "hang",
		labelKey: "network", labelValue: "tuned", env: "NET_TUNER=done",
	}
}

func demoVol() demoPlugin {
	return demoPlugin{
		name: "vol-audit", team: "storage", index: "40", does: "crashes", action: "panic",
		labelKey: "storage", labelValue: "audited", env: "VOL_AUDIT=done",
	}
}

// demoPlugins are all plugins of the demo, in calling order.
func demoPlugins() []demoPlugin { return []demoPlugin{demoGPU(), demoNet(), demoVol()} }

// demoBroken are those with a fault.
func demoBroken() []demoPlugin { return []demoPlugin{demoNet(), demoVol()} }

// selects tells whether the pod is meant for the plugin: what its manifest's selector says, decided without the supervisor.
func (p demoPlugin) selects(pod demoPod) bool { return pod.Labels[p.labelKey] == p.labelValue }

func newDemoPlugin() *cobra.Command {
	var socket, config string
	cmd := &cobra.Command{
		Use: "plugin NAME", Short: "Be one of the demo's plugins", Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("demo plugin: it takes the name of one plugin, and no %d", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			for _, p := range demoPlugins() {
				if p.name == args[0] {
					return p.serve(socket, config)
				}
			}
			return usageError{fmt.Errorf("demo plugin: there is no plugin %q", args[0])}
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the runtime to connect to when no supervisor started this process")
	cmd.Flags().StringVar(&config, "config", "", "file with the configuration when no supervisor started this process")
	return cmd
}

// serve is the whole life of a plugin process, as a team would write it: the SDK and a handler.
func (p demoPlugin) serve(socket, config string) error {
	opts := []plugins.Option{plugins.WithName(p.name), plugins.WithIndex(p.index), plugins.WithVersion(version)}
	hosted := plugins.Hosted()
	if !hosted {
		if !filepath.IsAbs(socket) { // never the host's own runtime, which is the SDK's default
			return usageError{errors.New("demo plugin: --socket has to be an absolute path")}
		}
		opts = append(opts, plugins.WithSocket(socket))
	}
	if p.action == "" {
		return plugins.Serve(&envinjector.Plugin{}, opts...)
	}
	return plugins.Serve(&demoChaos{Plugin: chaosplugin.New(), plugin: p, filters: !hosted, configFile: config}, opts...)
}

// demoChaos is the chaos plugin with a name of its own on the variable that it sets.
type demoChaos struct {
	*chaosplugin.Plugin
	plugin demoPlugin
	// filters leaves pods alone that are not meant for the plugin. Every plugin must do that for itself when no supervisor selects for it.
	filters    bool
	configFile string
}

// Configure takes the configuration, or the file's when the runtime has none to give, as for every plugin that it did not launch.
func (c *demoChaos) Configure(ctx context.Context, config, runtime, version string) (api.EventMask, error) {
	if config == "" && c.configFile != "" {
		data, err := os.ReadFile(c.configFile)
		if err != nil {
			return 0, fmt.Errorf("read config: %w", err)
		}
		config = string(data)
	}
	return c.Plugin.Configure(ctx, config, runtime, version)
}

// CreateContainer sets the plugin's variable on the container, unless a fault keeps it from that.
func (c *demoChaos) CreateContainer(
	ctx context.Context, pod *api.PodSandbox, ctr *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) { //nolint:unparam // the signature is NRI's
	if c.filters && pod.GetLabels()[c.plugin.labelKey] != c.plugin.labelValue {
		return nil, nil, nil
	}
	if _, _, err := c.Plugin.CreateContainer(ctx, pod, ctr); err != nil {
		return nil, nil, err
	}
	adjust := &api.ContainerAdjustment{}
	key, value, _ := strings.Cut(c.plugin.env, "=")
	adjust.AddEnv(key, value)
	return adjust, nil, nil
}
