package isolation

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/api"
)

// ErrNoControl is returned by Health, Describe and SetLogLevel for a plugin without a control service (protocol NRI).
var ErrNoControl = errors.New("plugin has no control service")

// Registration is what the plugin said in RegisterPlugin.
type Registration struct {
	Name, Index string
	// NRIVersion is the version of the NRI module that the plugin is built with; empty for plugins older than that field.
	NRIVersion string
}

// Description is what a plugin built with the SDK says about itself.
type Description struct {
	// Version is the plugin's own version, SDKVersion and NRIVersion those of the modules it is built with.
	Version, SDKVersion, NRIVersion string
	// Events are the NRI events that it has handlers for, by NRI's names, in NRI's order.
	Events []string
}

// Instance is one incarnation of one plugin process. Its methods are safe for concurrent use.
type Instance struct{}

// Start executes the plugin and returns when it is ready to be configured: its handshake is done (protocol GoPlugin) and
// it called RegisterPlugin on its NRI connection. It blocks until then, until ctx ends, or until the process exits. ctx
// bounds the start only, not the life of the process.
//
// On error, a *StartError, nothing is left running.
func Start(ctx context.Context, s Spec) (*Instance, error) { return nil, errors.New("todo") }

// PID is the process id. It stays the same after the exit, when it may belong to somebody else.
func (i *Instance) PID() int { return 0 }

// Plugin is the NRI client of the plugin, for raw calls. A plugin that only knows StateChange gets that instead of the
// dedicated calls. After the connection is closed every call returns an error that wraps ttrpc.ErrClosed.
func (i *Instance) Plugin() api.PluginService { return nil }

// Configure configures the plugin.
func (i *Instance) Configure(ctx context.Context, req *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	return nil, nil
}

// Synchronize tells the plugin the state, in as many parts as ttrpc's limit of 4 MiB a message needs, and returns the
// updates that the plugin answers the last part with. ctx spans all parts.
func (i *Instance) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// Health asks the control service whether the plugin is well: nil, the plugin's reason, or ErrNoControl.
func (i *Instance) Health(ctx context.Context) error { return nil }

// Describe asks the control service what the plugin is. The error is ErrNoControl for a plugin without one.
func (i *Instance) Describe(ctx context.Context) (Description, error) { return Description{}, nil }

// SetLogLevel changes the level the plugin logs at: trace, debug, info, warn or error.
func (i *Instance) SetLogLevel(ctx context.Context, level string) error { return nil }

// Registration is what the plugin said in RegisterPlugin.
func (i *Instance) Registration() Registration { return Registration{} }

// ConnClosed is closed when the NRI connection ended, by either side.
func (i *Instance) ConnClosed() <-chan struct{} { return nil }

// Done is closed when the process is reaped, every goroutine of the instance has ended, and its directory is removed.
func (i *Instance) Done() <-chan struct{} { return nil }

// Exit is how the incarnation ended. It is complete once Done is closed; before that it is the zero value.
func (i *Instance) Exit() Exit { return Exit{} }

// Stop ends the incarnation: Shutdown call and control Stop, then SIGTERM, then SIGKILL to the group, each bounded by
// Spec.StopGrace; ctx cuts the polite phases short. It returns when the instance is done, or with Alive set when
// SIGKILL did not end the process in time.
func (i *Instance) Stop(ctx context.Context) Exit { return Exit{} }

// Kill sends SIGKILL to the group at once and returns like Stop. reason becomes the Exit's unless the process had
// already ended or another reason came first.
func (i *Instance) Kill(reason Reason) Exit { return Exit{} }
