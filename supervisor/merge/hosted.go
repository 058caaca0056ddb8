package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
)

const (
	// maxIdle bounds the adaptations kept for later. In a node's life a few
	// numbers of selected plugins recur; an adaptation takes about 0.15 ms to build.
	maxIdle = 64

	// noPlugins is where the adaptation looks for plugins to launch, which it
	// does even with external connections off. Nobody can create a file there.
	noPlugins = "/proc/self/no-plugins"

	// placeDigits is the width of a place in the adaptation's sort key. Builtin
	// plugins are sorted by index only, and not stably, so every one has an
	// index of its own. 5 digits are 100,000 members.
	placeDigits = 5

	// hostedBase is the name that every builtin plugin has. Who it stands for is
	// known by its place, so that an adaptation serves any set of that size.
	hostedBase = "hosted"
)

// shape is what an adaptation is built for.
type shape struct {
	members int
	audited bool // with a validator, which also tells the owners
}

// hosted is one embedded adaptation. It belongs to one event at a time.
type hosted struct {
	shape      shape
	adaptation *adaptation.Adaptation
	event      *event
}

// take hands out an idle adaptation of the shape, or a new one.
func (e *Engine) take(s shape) (*hosted, error) {
	e.mu.Lock()
	for i, h := range slices.Backward(e.idle) {
		if h.shape == s {
			e.idle = slices.Delete(e.idle, i, i+1)
			e.mu.Unlock()
			return h, nil
		}
	}
	e.mu.Unlock()
	return newHosted(s)
}

// give takes an adaptation back and lets go of the one unused for longest if
// there are too many.
func (e *Engine) give(h *hosted) {
	e.mu.Lock()
	surplus := h
	if !e.closed {
		surplus = nil
		e.idle = append(e.idle, h)
		if len(e.idle) > maxIdle {
			surplus = e.idle[0]
			e.idle = slices.Delete(e.idle, 0, 1)
		}
	}
	e.mu.Unlock()
	if surplus != nil {
		surplus.adaptation.Stop()
	}
}

func newHosted(s shape) (*hosted, error) {
	h := &hosted{shape: s}
	plugins := make([]*builtin.BuiltinPlugin, 0, s.members+1)
	for place := range s.members {
		plugins = append(plugins, &builtin.BuiltinPlugin{
			Index: placeIndex(place),
			Base:  hostedBase,
			Handlers: builtin.BuiltinHandlers{
				CreateContainer: func(_ context.Context, req *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
					return h.event.turnCreate(place, req), nil
				},
				UpdateContainer: func(_ context.Context, req *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
					return h.event.turnUpdate(place, req), nil
				},
				StopContainer: func(_ context.Context, req *api.StopContainerRequest) (*api.StopContainerResponse, error) {
					return h.event.turnStop(place, req), nil
				},
			},
		})
	}
	if s.audited {
		plugins = append(plugins, &builtin.BuiltinPlugin{
			Index: placeIndex(s.members),
			Base:  hostedBase,
			Handlers: builtin.BuiltinHandlers{
				ValidateContainerAdjustment: func(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
					h.event.audit(req)
					return nil
				},
			},
		})
	}

	a, err := adaptation.New("nri-supervisor", "merge",
		// Builtin plugins need no synchronization: not offering any is fine.
		func(context.Context, adaptation.SyncCB) error { return nil },
		func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithPluginPath(noPlugins),
		adaptation.WithPluginConfigPath(noPlugins),
		adaptation.WithDisabledExternalConnections(),
		adaptation.WithBuiltinPlugins(plugins...),
	)
	if err != nil {
		return nil, fmt.Errorf("build adaptation for %d members: %w", s.members, err)
	}
	if err := a.Start(); err != nil {
		a.Stop()
		return nil, fmt.Errorf("start adaptation for %d members: %w", s.members, err)
	}
	h.adaptation = a
	return h, nil
}

// placeIndex gives the sort key of a place.
func placeIndex(place int) string { return fmt.Sprintf("%0*d", placeDigits, place) }

// placeOf finds the place in the name that the adaptation gives a builtin plugin.
func placeOf(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, "-"+hostedBase)
	if !ok || len(digits) < placeDigits {
		return 0, false
	}
	place, err := strconv.ParseUint(digits, 10, 31)
	return int(place), err == nil
}
