package supervisor

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// Launcher starts plugins. It must be safe for concurrent use.
type Launcher interface {
	// Launch starts one incarnation of the plugin and returns when it is registered and can be configured. ctx bounds the start only. On error nothing is left running. The incarnation
	// of a plugin that attaches is a connection: Launch waits for it.
	Launch(ctx context.Context, p *policy.Plugin, h Hooks) (Incarnation, error)
}

// Hooks are what an incarnation calls. They do not block.
type Hooks struct {
	// Update takes unsolicited container updates, and returns those that will not be tried.
	Update func(ctx context.Context, updates []*api.ContainerUpdate) (failed []*api.ContainerUpdate, err error)
	// Output takes one line of the plugin's output.
	Output func(OutputLine)
	// OutOfMemory is told how many processes of the plugin the kernel killed for want of memory while the plugin itself went on.
	OutOfMemory func(killed int)
	// Refused is told of connections that were turned away from the socket of a plugin that attaches.
	Refused func(Refused)
	// Waiting is told when a further connection of a plugin that attaches waits to be launched.
	Waiting func()
	// Over is closed when the plugin is never launched again.
	Over <-chan struct{}
}

// Refused is a connection that was turned away.
type Refused struct {
	UID  uint32 // of the peer, by the host's numbers
	PID  int    // of the peer; 0 if it is not known
	Why  string
	More int // further ones since the last report that were not reported
}

// OutputLine is one line that a plugin wrote.
type OutputLine struct {
	PID       int    // of the process that wrote it; 0: not known
	Stream    string // stdout or stderr
	Level     string // trace, debug, info, warn, error, or empty
	Text      string
	Truncated bool
	Dropped   int // lines left out before this one by the rate limit
}

// Incarnation is one process of a plugin, or one connection of a plugin that attaches. It must be safe for concurrent use.
type Incarnation interface {
	// PID of the process; 0 if it is not known.
	PID() int
	// Plugin is the NRI service of the plugin. A call whose context has a method Late(error) returns with that context's error when the context is done, and Late is told, once, how it ended in
	// the plugin after all: nil, or why there was no reply. A reply that takes long to decode is decoded by what such a context's Aside(func()) is given.
	Plugin() api.PluginService
	// CallContext returns a context that carries the deadline to the plugin and is never cancelled itself, so that a late reply is seen.
	CallContext(ctx context.Context, deadline time.Time) context.Context
	// Synchronize tells the plugin the state, in parts if need be.
	Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error)
	// InPlace reports whether the plugin may be synchronized more than once on its connection and has health checks: plugins built with the SDK.
	InPlace() bool
	// Health asks the plugin how it is. Only with InPlace.
	Health(ctx context.Context) error
	// Identity says what runs.
	Identity() Identity
	// Disconnected is closed when the NRI connection has ended.
	Disconnected() <-chan struct{}
	// Done is closed when the process is gone and everything of it is cleaned up.
	Done() <-chan struct{}
	// Exit says how it ended; valid after Done.
	Exit() Exit
	// Stop ends the process in order, in bounded time. ctx cuts the polite phases short.
	Stop(ctx context.Context)
	// Kill ends it at once.
	Kill(why string)
}

// Measured is an Incarnation that says what it uses. Safe for concurrent use; it must not block.
type Measured interface {
	Usage() Usage
}

// Usage is what an incarnation uses of its limits.
type Usage struct {
	// Memory in bytes; 0: not known.
	Memory uint64
	// MemoryLimit in bytes; 0: there is none.
	MemoryLimit uint64
}

// Identity says what a plugin process is. Unknown fields are empty.
type Identity struct {
	Version    string `json:"version,omitempty"`    // the plugin's own version, told by SDK plugins
	NRIVersion string `json:"nriVersion,omitempty"` // of the NRI library that it was built with
	SHA256     string `json:"sha256,omitempty"`     // of the executed file, lower-case hex
	// Reduced is what this host could not apply of the profile; empty for a plugin that has all of it.
	Reduced string `json:"reduced,omitempty"`
	// Name and Index are what the plugin registered as, where its manifest says something else. The manifest's count.
	Name  string `json:"name,omitempty"`
	Index string `json:"index,omitempty"`
}

// Exit says how a process ended.
type Exit struct {
	Reason string // clean, exit_code, signal, oom, hung, health, start_failed, stopped, disconnected
	Detail string // for people: "exit code 3", "signal killed"
	Output []string
	At     time.Time
	Uptime time.Duration
}

// StartFailure may be implemented by a Launcher's error to tell how the process ended.
type StartFailure interface {
	error
	StartExit() Exit
}
