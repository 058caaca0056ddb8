// Package envinjector is the plugin of the command env-injector: it sets environment variables on containers.
//
// It owns its configuration and nothing else: no state is kept per container. Its handlers are safe for concurrent use. A
// configuration that is wrong fails Configure with what to write instead; nothing else can fail.
package envinjector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

// Config is the plugin's configuration.
type Config struct {
	// Env are the variables to set.
	Env map[string]string `json:"env"`
	// Annotations are added to the container.
	Annotations map[string]string `json:"annotations"`
	// KeepExisting leaves variables alone that the container already has. Default: they are replaced.
	KeepExisting bool `json:"keepExisting"`
}

// ParseConfig reads a configuration from JSON. Unknown fields are an error.
func ParseConfig(text string) (Config, error) {
	var c Config
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Config{}, fmt.Errorf("read config: field %q is a %s: put the value in quotes", typeErr.Field, typeErr.Value)
		}
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	if len(c.Env) == 0 && len(c.Annotations) == 0 {
		return Config{}, errors.New(`read config: nothing to inject: set {"env": {"NAME": "value"}}`)
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return Config{}, fmt.Errorf("read config: %q is no name of an environment variable", name)
		}
	}
	return c, nil
}

// Plugin sets environment variables. The zero value has no configuration and sets none.
type Plugin struct {
	mu     sync.Mutex // guards config
	config Config
}

// Main runs the plugin and exits.
func Main() { plugins.Main(&Plugin{}) }

// Configure takes the configuration. It may come again, then it replaces the one before.
func (p *Plugin) Configure(_ context.Context, config, _, _ string) (api.EventMask, error) {
	c, err := ParseConfig(config)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = c
	return 0, nil
}

// CreateContainer sets the variables, in the order of their names.
func (p *Plugin) CreateContainer(
	_ context.Context, _ *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.mu.Lock()
	config := p.config
	p.mu.Unlock()
	adjust := &api.ContainerAdjustment{}
	for _, name := range slices.Sorted(maps.Keys(config.Env)) {
		if !config.KeepExisting || !hasEnv(c, name) {
			adjust.AddEnv(name, config.Env[name])
		}
	}
	for key, value := range config.Annotations {
		adjust.AddAnnotation(key, value)
	}
	return adjust, nil, nil
}

func hasEnv(c *api.Container, name string) bool {
	return slices.ContainsFunc(c.GetEnv(), func(kv string) bool {
		got, _, _ := strings.Cut(kv, "=")
		return got == name
	})
}
