package policy

import (
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Load reads the Supervisor document and the Plugin manifests.
//
// It returns a Config also when plugin manifests are wrong: those are in Config.Invalid. The error
// is not nil only when the Supervisor document cannot be used; it is then a Problems value that
// lists everything found wrong, and the Config is nil.
func Load(o LoadOptions) (*Config, error) { return nil, nil }

// Parse is Load on files in memory: the file whose path is o.ConfigFile holds the Supervisor
// document, all others are Plugin manifests.
func Parse(files []SourceFile, o LoadOptions) (*Config, error) { return nil, nil }

// TimeoutWarnings says which plugins' timeouts do not fit together in the time that the runtime
// gives for one request. Load has done so for DefaultRuntimeTimeout.
func (c *Config) TimeoutWarnings(runtimeTimeout time.Duration) Problems { return nil }

// Events is the narrowing of the subscription. 0 is no narrowing.
func (p *Plugin) Events() api.EventMask { return p.events }

// Timeout bounds a call for the event.
func (p *Plugin) Timeout(e api.Event) time.Duration { return 0 }

// StartTimeout bounds the time from the start of the process to its registration.
func (p *Plugin) StartTimeout() time.Duration { return 0 }

// ConfigureTimeout bounds the Configure call.
func (p *Plugin) ConfigureTimeout() time.Duration { return 0 }

// SynchronizeTimeout bounds the Synchronize call, all its parts together.
func (p *Plugin) SynchronizeTimeout() time.Duration { return 0 }

// OverdueAfter is the age at which a call for the event that still runs is a hang.
func (p *Plugin) OverdueAfter(e api.Event) time.Duration { return 0 }

// Blocking says whether the runtime waits for the plugin at this event.
func (p *Plugin) Blocking(e api.Event) bool { return false }

// Fails says whether a failure of the plugin at this event refuses the request.
func (p *Plugin) Fails(e api.Event) bool { return false }

// Critical says whether the pod is protected from being refused because of this plugin.
func (p *Plugin) Critical(pod *api.PodSandbox) bool { return false }

// MatchPod decides whether the plugin hears of the pod's own events.
func (p *Plugin) MatchPod(pod *api.PodSandbox) Decision { return Decision{} }

// MatchContainer decides whether the plugin hears of the container's events.
func (p *Plugin) MatchContainer(pod *api.PodSandbox, c *api.Container) Decision { return Decision{} }

// ExplainPod says of each part of the selection whether it matches the pod.
func (p *Plugin) ExplainPod(pod *api.PodSandbox) []PartResult { return nil }

// ExplainContainer says of each part of the selection whether it matches the container.
func (p *Plugin) ExplainContainer(pod *api.PodSandbox, c *api.Container) []PartResult { return nil }

// Adjustable lists the fields that the plugin was granted, in NRI's order.
func (p *Plugin) Adjustable() []Field { return nil }

// Forbidden lists the fields set in the adjustment that the plugin was not granted. Nil is fine.
func (p *Plugin) Forbidden(adj *api.ContainerAdjustment) []Field { return nil }

// ForbiddenUpdate lists the fields set in the update that the plugin was not granted. Nil is fine.
func (p *Plugin) ForbiddenUpdate(u *api.ContainerUpdate) []Field { return nil }

// ConfigData is what goes to the plugin's Configure.
func (p *Plugin) ConfigData() string { return p.configData }

// MayReject says whether the plugin may refuse a container on purpose.
func (p *Plugin) MayReject() bool { return p.Spec.Permissions.Reject }

// UpdateScope says which containers the plugin's updates may name.
func (p *Plugin) UpdateScope() UpdateScope { return p.Spec.Permissions.Update }
