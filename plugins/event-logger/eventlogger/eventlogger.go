// Package eventlogger is the plugin of the command event-logger: it logs events and changes nothing.
//
// It owns its configuration and the format of its lines. Its handlers are safe for concurrent use. It does not validate
// adjustments, since a validator that fails makes containers fail.
package eventlogger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins"
)

// Config is the plugin's configuration. The zero value logs all events.
type Config struct {
	// Events are the events to log, by NRI's names; empty means all.
	Events []string `json:"events"`
	// Labels and Annotations add those of the pod to each line.
	Labels      bool `json:"labels"`
	Annotations bool `json:"annotations"`
}

// Plugin logs events. Make one with New.
type Plugin struct {
	log *slog.Logger

	mu     sync.Mutex // guards config
	config Config
}

// New returns a plugin that logs to log.
func New(log *slog.Logger) *Plugin { return &Plugin{log: log} }

// Main runs the plugin, logging to stderr, and exits.
func Main() {
	var level slog.LevelVar
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: &level}))
	plugins.Main(New(log), plugins.WithLogLevel(&level))
}

// Configure takes the configuration and subscribes to the events that it names.
func (p *Plugin) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	var c Config
	d := json.NewDecoder(strings.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read config: %w", err)
	}
	mask, err := api.ParseEventMask(c.Events...)
	if err != nil {
		return 0, fmt.Errorf("read config: events: %w", err)
	}
	p.mu.Lock()
	p.config = c
	p.mu.Unlock()
	p.log.Info("configured", "runtime", runtime, "version", version, "events", c.Events)
	return mask, nil
}

// Synchronize logs what there is.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	p.log.Info("Synchronize", "pods", len(pods), "containers", len(ctrs))
	for _, pod := range pods {
		p.event("Synchronize", pod, nil)
	}
	for _, c := range ctrs {
		p.event("Synchronize", nil, c)
	}
	return nil, nil
}

// Shutdown logs that the plugin is asked to end.
func (p *Plugin) Shutdown(context.Context) { p.log.Info("Shutdown") }

func (p *Plugin) event(name string, pod *api.PodSandbox, c *api.Container) {
	p.mu.Lock()
	config := p.config
	p.mu.Unlock()
	var attrs []any
	if pod != nil {
		attrs = append(attrs, "pod", pod.GetNamespace()+"/"+pod.GetName(), "podID", pod.GetId())
		if config.Labels {
			attrs = append(attrs, "labels", pod.GetLabels())
		}
		if config.Annotations {
			attrs = append(attrs, "annotations", pod.GetAnnotations())
		}
	}
	if c != nil {
		attrs = append(attrs, "container", c.GetName(), "containerID", c.GetId())
	}
	p.log.Info(name, attrs...)
}
