package policy

import "k8s.io/apimachinery/pkg/api/resource"

// TimeoutsSpec bounds the calls to a plugin. An event without a timeout of its own has the default one.
type TimeoutsSpec struct {
	// Default bounds each event that has no timeout of its own.
	Default Duration `json:"default" check:"positive"`
	// Start bounds the time from the start of the process to its registration.
	Start Duration `json:"start" check:"positive"`
	// Configure bounds the Configure call.
	Configure Duration `json:"configure" check:"positive"`
	// Synchronize bounds the Synchronize call, all its parts together.
	Synchronize Duration `json:"synchronize" check:"positive"`
	// RunPodSandbox bounds this event.
	RunPodSandbox Duration `json:"RunPodSandbox,omitzero" check:"positive"`
	// UpdatePodSandbox bounds this event.
	UpdatePodSandbox Duration `json:"UpdatePodSandbox,omitzero" check:"positive"`
	// PostUpdatePodSandbox bounds this event.
	PostUpdatePodSandbox Duration `json:"PostUpdatePodSandbox,omitzero" check:"positive"`
	// StopPodSandbox bounds this event.
	StopPodSandbox Duration `json:"StopPodSandbox,omitzero" check:"positive"`
	// RemovePodSandbox bounds this event.
	RemovePodSandbox Duration `json:"RemovePodSandbox,omitzero" check:"positive"`
	// CreateContainer bounds this event.
	CreateContainer Duration `json:"CreateContainer,omitzero" check:"positive"`
	// PostCreateContainer bounds this event.
	PostCreateContainer Duration `json:"PostCreateContainer,omitzero" check:"positive"`
	// StartContainer bounds this event.
	StartContainer Duration `json:"StartContainer,omitzero" check:"positive"`
	// PostStartContainer bounds this event.
	PostStartContainer Duration `json:"PostStartContainer,omitzero" check:"positive"`
	// UpdateContainer bounds this event.
	UpdateContainer Duration `json:"UpdateContainer,omitzero" check:"positive"`
	// PostUpdateContainer bounds this event.
	PostUpdateContainer Duration `json:"PostUpdateContainer,omitzero" check:"positive"`
	// StopContainer bounds this event.
	StopContainer Duration `json:"StopContainer,omitzero" check:"positive"`
	// RemoveContainer bounds this event.
	RemoveContainer Duration `json:"RemoveContainer,omitzero" check:"positive"`
	// ValidateContainerAdjustment bounds this event.
	ValidateContainerAdjustment Duration `json:"ValidateContainerAdjustment,omitzero" check:"positive"`
}

// BreakerSpec says when a plugin is no longer called because it fails.
type BreakerSpec struct {
	// ConsecutiveFailures in a row open the breaker. At least 1.
	ConsecutiveFailures int `json:"consecutiveFailures" check:"positive"`
	// FailureRatio opens the breaker by the share of failures.
	FailureRatio FailureRatioSpec `json:"failureRatio"`
	// SlowCall opens the breaker by the share of slow calls.
	SlowCall SlowCallSpec `json:"slowCall"`
	// OpenDuration is how long the breaker stays open the first time. It doubles at each re-opening.
	OpenDuration Duration `json:"openDuration" check:"positive"`
	// MaxOpenDuration bounds the doubling.
	MaxOpenDuration Duration `json:"maxOpenDuration" check:"positive"`
}

// FailureRatioSpec opens the breaker by the share of failures within a window.
type FailureRatioSpec struct {
	// Threshold is the share of failures, above 0 and up to 1.
	Threshold float64 `json:"threshold" check:"ratio"`
	// MinimumCalls is how many calls the window must hold. At least 1.
	MinimumCalls int `json:"minimumCalls" check:"positive"`
	// Window is the time looked back on.
	Window Duration `json:"window" check:"positive"`
}

// SlowCallSpec opens the breaker by the share of slow calls.
type SlowCallSpec struct {
	// Duration is what a slow call takes at least. 0s is off.
	Duration Duration `json:"duration" check:"notNegative"`
	// Ratio is the share of slow calls, above 0 and up to 1.
	Ratio float64 `json:"ratio" check:"ratio"`
	// MinimumCalls is how many calls must have been made. At least 1.
	MinimumCalls int `json:"minimumCalls" check:"positive"`
}

// LaneShareSpec bounds the time for which a plugin keeps events waiting, as a token bucket.
type LaneShareSpec struct {
	// Ratio is the share of time, 0 to 1. 0 is off.
	Ratio float64 `json:"ratio" check:"ratioOrZero"`
	// Burst is the size of the bucket.
	Burst Duration `json:"burst" check:"positive"`
}

// QuarantineSpec keeps a pod away from a plugin that fails on it.
type QuarantineSpec struct {
	// After is the number of failures, crashes and hangs on one pod. At least 1.
	After int `json:"after" check:"positive"`
	// Duration is how long the pod is kept away.
	Duration Duration `json:"duration" check:"positive"`
}

// HealthSpec is the probing of SDK plugins.
type HealthSpec struct {
	// Period is the time between two probes.
	Period Duration `json:"period" check:"positive"`
	// Timeout bounds one probe.
	Timeout Duration `json:"timeout" check:"positive"`
	// FailureThreshold is how many failed probes in a row count. At least 1.
	FailureThreshold int `json:"failureThreshold" check:"positive"`
}

// RestartSpec is the backoff between incarnations of a plugin.
type RestartSpec struct {
	// Backoff is the first wait. It doubles.
	Backoff Duration `json:"backoff" check:"positive"`
	// MaxBackoff bounds the doubling.
	MaxBackoff Duration `json:"maxBackoff" check:"positive"`
	// StableAfter is how long an incarnation must live for the backoff to start anew.
	StableAfter Duration `json:"stableAfter" check:"positive"`
	// CrashLoop says when a plugin counts as crash-looping.
	CrashLoop CrashLoopSpec `json:"crashLoop"`
}

// CrashLoopSpec says when a plugin counts as crash-looping.
type CrashLoopSpec struct {
	// Exits within the window make a crash loop. At least 1.
	Exits int `json:"exits" check:"positive"`
	// Within is the window.
	Within Duration `json:"within" check:"positive"`
	// RetryEvery is the wait between attempts in a crash loop.
	RetryEvery Duration `json:"retryEvery" check:"positive"`
}

// UpdateStrategySpec says how a new version of a plugin takes over.
type UpdateStrategySpec struct {
	// Type is RollingUpdate or Recreate.
	Type UpdateStrategyType `json:"type"`
}

// ResourcesSpec limits a plugin's process.
type ResourcesSpec struct {
	// Limits are the upper bounds.
	Limits ResourceLimits `json:"limits"`
}

// ResourceLimits are upper bounds in Kubernetes quantities. Left out: no bound.
type ResourceLimits struct {
	// Memory in bytes.
	Memory *resource.Quantity `json:"memory,omitempty"`
	// CPU in cores.
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// PIDs is the number of processes and threads.
	PIDs *resource.Quantity `json:"pids,omitempty"`
	// NoFile is the number of open files.
	NoFile *resource.Quantity `json:"nofile,omitempty"`
	// AS is the address space of each process in bytes. A Go program reserves more than 1Gi that it does not use: bound its memory instead.
	AS *resource.Quantity `json:"as,omitempty"`
	// Data is the heap, the data and the private mappings of each process in bytes.
	Data *resource.Quantity `json:"data,omitempty"`
	// FSize is the size of each file that is written, in bytes.
	FSize *resource.Quantity `json:"fsize,omitempty"`
	// MemLock is the memory that each process may lock, in bytes.
	MemLock *resource.Quantity `json:"memlock,omitempty"`
	// MsgQueue is the size of all POSIX message queues of the plugin's user, in bytes.
	MsgQueue *resource.Quantity `json:"msgqueue,omitempty"`
	// NProc is the number of processes and threads of the plugin's user. It needs a user other than root, whom the kernel exempts; pids bounds any plugin.
	NProc *resource.Quantity `json:"nproc,omitempty"`
	// SigPending is the number of queued signals of the plugin's user.
	SigPending *resource.Quantity `json:"sigpending,omitempty"`
	// Stack is the stack of each process in bytes.
	Stack *resource.Quantity `json:"stack,omitempty"`
}

// RLimit is a limit that the kernel keeps for each process, by its name in manifests; setrlimit(2) describes each.
type RLimit struct {
	// Name is the field of ResourceLimits.
	Name string
	// Limit is the field itself.
	Limit **resource.Quantity
	// Least is the smallest value with which a plugin can come up.
	Least int64
}

// RLimits lists the limits that the kernel keeps for each process, those left out as well.
func (l *ResourceLimits) RLimits() []RLimit {
	return []RLimit{
		{"nofile", &l.NoFile, minNoFile},
		{"as", &l.AS, minMemory},
		{"data", &l.Data, minMemory},
		{"fsize", &l.FSize, 0},
		{"memlock", &l.MemLock, 0},
		{"msgqueue", &l.MsgQueue, 0},
		{"nproc", &l.NProc, minPIDs},
		{"sigpending", &l.SigPending, 0},
		{"stack", &l.Stack, minStack},
	}
}

// SandboxSpec confines a plugin's process: a profile and overrides of it.
type SandboxSpec struct {
	// Profile is none, standard or strict.
	Profile Profile `json:"profile"`
	// User is a name or number. Empty: the profile's.
	User string `json:"user,omitempty"`
	// Group is a name or number. Empty: the profile's.
	Group string `json:"group,omitempty"`
	// SupplementalGroups are names or numbers.
	SupplementalGroups []string `json:"supplementalGroups,omitzero"`
	// Capabilities changes the profile's set.
	Capabilities CapabilitiesSpec `json:"capabilities"`
	// Network is host or none. Left out: host, and none with the profile strict.
	Network Network `json:"network"`
	// ReadOnlyPaths can be read and not written; strict hides all that is neither the system's nor listed.
	ReadOnlyPaths []string `json:"readOnlyPaths,omitzero"`
	// ReadWritePaths can be written to, whatever the profile protects.
	ReadWritePaths []string `json:"readWritePaths,omitzero"`
	// Seccomp is default or unconfined.
	Seccomp Seccomp `json:"seccomp"`
}

// CapabilitiesSpec changes a profile's set of capabilities.
type CapabilitiesSpec struct {
	// Add lists capability names, without CAP_. It comes after drop.
	Add []string `json:"add,omitzero"`
	// Drop lists capability names, without CAP_, or ALL.
	Drop []string `json:"drop,omitzero"`
}
