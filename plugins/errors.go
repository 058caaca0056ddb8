package plugins

import "github.com/nri-supervisor/nri-supervisor/plugins/wire"

// Scope is how much of a pod a plugin is not interested in.
type Scope = wire.Scope

const (
	// Pod is the whole pod of the request, with all its containers.
	Pod = wire.ScopePod
	// Container is the container of the request.
	Container = wire.ScopeContainer
)

// Reject returns an error that refuses a container on purpose. reason is shown to the person whose container does not start.
// It is not a failure of the plugin. Under nri-supervisor it needs permissions.reject; without it, it counts as an error.
// Under a plain runtime it fails the request, as any error does there.
func Reject(reason string) error { return &wire.RejectError{Reason: reason} }

// NotInterested returns an error for RunPodSandbox (scope Pod) or CreateContainer (either scope) that says: leave me out for
// this pod or container. The supervisor then sends no further event for it. A plain runtime sees an empty answer instead.
// An adjustment or updates returned together with it are dropped.
func NotInterested(scope Scope) error { return &wire.NotInterestedError{Scope: scope} }

// NotInterestedIn returns the like of NotInterested for Synchronize: the ids of the pods (with all their containers) and of the
// containers that the plugin does not care about. Updates returned together with it are dropped.
func NotInterestedIn(podIDs, containerIDs []string) error {
	return &wire.NotInterestedError{Pods: podIDs, Containers: containerIDs}
}
