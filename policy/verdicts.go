package policy

import (
	"time"

	"github.com/containerd/nri/pkg/api"
)

const (
	// minOverdue is the least age of a hang when overdueAfter is not given.
	minOverdue = 5 * time.Second
	// overdueFactor is how many timeouts make a hang when overdueAfter is not given.
	overdueFactor = 10
)

// Events is the narrowing of what the plugin subscribes to. 0 is no narrowing.
func (p *Plugin) Events() api.EventMask { return p.events }

// Timeout bounds a call for the event. It is never 0, and never more than the team's maxTimeout. An
// unknown event has the default timeout.
func (p *Plugin) Timeout(e api.Event) time.Duration {
	if e <= api.Event_UNKNOWN || e >= api.Event_LAST {
		e = api.Event_UNKNOWN
	}
	return p.timeouts[e]
}

// StartTimeout bounds the time from the start of the process to its registration.
func (p *Plugin) StartTimeout() time.Duration { return p.Spec.Timeouts.Start.Std() }

// Attaches says that the plugin runs elsewhere and dials us: Spec.Attach is set and Spec.Exec is not.
func (p *Plugin) Attaches() bool { return p.Spec.Attach != nil }

// ConfigureTimeout bounds the Configure call.
func (p *Plugin) ConfigureTimeout() time.Duration { return p.Spec.Timeouts.Configure.Std() }

// SynchronizeTimeout bounds the Synchronize call, all its parts together.
func (p *Plugin) SynchronizeTimeout() time.Duration { return p.Spec.Timeouts.Synchronize.Std() }

// OverdueAfter is the age at which a call for the event that still runs is a hang: what the manifest
// says, else ten times the event's timeout and at least 5 s.
func (p *Plugin) OverdueAfter(e api.Event) time.Duration {
	if p.Spec.OverdueAfter > 0 {
		return p.Spec.OverdueAfter.Std()
	}
	return max(overdueFactor*p.Timeout(e), minOverdue)
}

// Blocking says whether the runtime waits for the plugin at this event. Events that are not
// blocking are queued.
func (p *Plugin) Blocking(e api.Event) bool { return inMask(p.blocking, e) }

// Fails says whether a failure of the plugin at this event refuses the request. It is false for all
// Stop*, Remove* and Post* events. What protects critical pods is asked separately, see Critical.
func (p *Plugin) Fails(e api.Event) bool { return inMask(p.fails, e) }

// Critical says whether the pod is protected from being refused because of this plugin: it is in a
// critical namespace or a static pod, and the plugin does not say includeCritical. A nil pod is an
// empty one.
func (p *Plugin) Critical(pod *api.PodSandbox) bool {
	if p.Spec.IncludeCritical {
		return false
	}
	return p.critical.matchKnown(pod.GetNamespace()) || (p.staticPods && isStatic(pod))
}

// isStatic says whether the kubelet read the pod from a file or URL. The kubelet writes this annotation
// to every pod, over what its author wrote (kubelet, pkg/kubelet/types, ConfigSourceAnnotationKey).
func isStatic(pod *api.PodSandbox) bool {
	source, ok := pod.GetAnnotations()["kubernetes.io/config.source"]
	return ok && source != "api"
}

// ConfigData is what goes to the plugin's Configure: spec.config as JSON, spec.configText as it is, or what
// the file of spec.configFrom held when it was loaded. When none is given it is {} for a plugin built
// with the SDK, and empty for a stock plugin, which is what a runtime sends then.
func (p *Plugin) ConfigData() string { return p.configData }

// MaySee says whether the team's ceiling lets the plugin see the pod at all. Unlike a selection it is never pinned: what the ceiling takes away is gone at once.
// A nil pod is an empty one.
func (p *Plugin) MaySee(pod *api.PodSandbox) bool { return p.matchesTeam(pod) }

// MayReject says whether the plugin may refuse a container on purpose.
func (p *Plugin) MayReject() bool { return p.Spec.Permissions.Reject }

// UpdateScope says which containers the plugin's updates may name.
func (p *Plugin) UpdateScope() UpdateScope { return p.Spec.Permissions.Update }

func inMask(m api.EventMask, e api.Event) bool {
	return e > api.Event_UNKNOWN && e < api.Event_LAST && m.IsSet(e)
}
