package store

import (
	"cmp"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Ref names a container, or a pod when Container is empty. The zero value names nothing.
type Ref struct {
	// Pod is the id of the pod sandbox.
	Pod string
	// Container is the id of the container, unique only inside its pod; empty = the pod itself.
	Container string
}

// IsPod reports whether the Ref names a pod rather than a container.
func (r Ref) IsPod() bool { return r.Container == "" }

// String returns "POD" or "POD/CONTAINER", for messages to people.
func (r Ref) String() string {
	if r.IsPod() {
		return r.Pod
	}
	return r.Pod + "/" + r.Container
}

// Compare orders by pod id, then by container id; a pod comes before its containers.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Pod, o.Pod), cmp.Compare(r.Container, o.Container))
}

// Phase is how far the life of a container has come, as far as the runtime has told. It is a closed set.
type Phase uint8

// The phases of a container. A pod is always PhaseCreated. A container only moves forward; a new creation starts over.
const (
	// PhaseCreating lasts from the CreateContainer request until the runtime shows by a later event that the container exists.
	PhaseCreating Phase = iota
	// PhaseCreated is a container that exists, started or not.
	PhaseCreated
	// PhaseStopped is a container whose stop or exit the runtime has told; it waits for its removal.
	PhaseStopped
)

// String returns "creating", "created" or "stopped".
func (p Phase) String() string {
	switch p {
	case PhaseCreating:
		return "creating"
	case PhaseCreated:
		return "created"
	case PhaseStopped:
		return "stopped"
	default:
		return fmt.Sprintf("phase(%d)", uint8(p))
	}
}

// Pin is the decision about one plugin, taken once for a pod or container and valid for its life. Only pins that say something are stored:
// the plugin is selected, or its selector could not be evaluated.
type Pin struct {
	// Plugin is the plugin's name.
	Plugin string
	// Selected says that the plugin receives the events.
	Selected bool
	// MatchErr says that evaluating the selector ended in an error.
	MatchErr bool
	// Recomputed says that the original decision was lost and this one was taken later, possibly under another policy.
	Recomputed bool
}

// Work is what became of one plugin's work on the creation of one container. The store interprets nothing but Plugin, Reason and Missed.
type Work struct {
	// Plugin is the plugin's name; a container has at most one Work per plugin.
	Plugin string
	// Outcome is how the call ended, or empty if there was no call.
	Outcome string
	// Reason is why the work is missing, or empty.
	Reason string
	// At is when it was decided.
	At time.Time
	// Missed says that the container runs without the plugin's work.
	Missed bool
	// Rejected says that the plugin refused the container on purpose.
	Rejected bool
}

// Entry is all that the store knows about one pod or one container at one moment. It is a copy; what it points to is shared and read-only.
type Entry struct {
	// Ref names the pod (Container empty) or the container.
	Ref Ref
	// Pod is the pod, or the pod of the container; never nil.
	Pod *api.PodSandbox
	// Container is nil for a pod.
	Container *api.Container
	// Phase of the container; PhaseCreated for a pod.
	Phase Phase
	// Pinned says that a decision was taken, be it that no plugin is selected.
	Pinned bool
	// Pins are the stored decisions in the order in which they were given.
	Pins []Pin
	// Work is the record per plugin in the order in which it was first set; nil for a pod.
	Work []Work
}

// Observed is what an observation of a container came to.
type Observed struct {
	// Ref is where the container is stored from now on.
	Ref Ref
	// Pod is the container's pod, completed; never nil.
	Pod *api.PodSandbox
	// Container is the container, completed; never nil.
	Container *api.Container
	// New says that the Ref was not known before, or that a creation began a new life for it.
	New bool
	// Replaced is the former life that a creation ended, nil if there was none.
	Replaced *Entry
}

// Diff is what [Store.Replace] changed, each list sorted by id.
type Diff struct {
	// NewPods were not known before.
	NewPods []*api.PodSandbox
	// GonePods are known no longer; their containers are in GoneContainers.
	GonePods []Entry
	// NewContainers were not known before.
	NewContainers []*api.Container
	// GoneContainers are known no longer.
	GoneContainers []Entry
}

// MissedContainer is one plugin's work that is missing from one living container.
type MissedContainer struct {
	// Ref names the container.
	Ref Ref
	// Namespace is the Kubernetes namespace of the pod, empty on Docker.
	Namespace string
	// PodName is the name of the pod.
	PodName string
	// Container is the name of the container in its pod.
	Container string
	// Plugin is the plugin whose work is missing.
	Plugin string
	// Reason is why.
	Reason string
	// At is when it was decided.
	At time.Time
}

// MissedKey is what missing work is counted by.
type MissedKey struct {
	// Plugin is the plugin whose work is missing.
	Plugin string
	// Reason is why.
	Reason string
}
