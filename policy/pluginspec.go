package policy

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PluginSpec is what a team declares about its plugin.
type PluginSpec struct {
	// Team is the owner. It must be declared in the Supervisor document.
	Team string `json:"team"`
	// Index is the NRI index: two digits, quoted. Plugins are called in ascending order, equal ones by name.
	Index string `json:"index"`
	// Parallel lets plugins of the same index that all say so be called at once on the same view.
	Parallel bool `json:"parallel"`
	// Exec starts the plugin as a process of ours. Exactly one of exec and attach.
	Exec *ExecSpec `json:"exec,omitempty"`
	// Attach lets the plugin dial us as if we were the runtime. Exactly one of exec and attach.
	Attach *AttachSpec `json:"attach,omitempty"`
	// Config is an object, sent to the plugin's Configure as JSON. At most one of config, configText and configFrom.
	Config RawObject `json:"config,omitzero"`
	// ConfigText is sent to the plugin's Configure as it is.
	ConfigText string `json:"configText,omitempty"`
	// ConfigFrom sends the content of a file to the plugin's Configure.
	ConfigFrom *ConfigFrom `json:"configFrom,omitempty"`
	// Events narrows what the plugin subscribes to. Empty: all of that.
	Events []EventName `json:"events,omitzero"`
	// Delivery changes for which events the runtime waits.
	Delivery map[EventName]Delivery `json:"delivery,omitzero"`
	// Selector says which pods and containers the plugin hears of. Required; {} is everything the team may see.
	Selector *Selector `json:"selector,omitempty"`
	// Permissions says what the plugin may change.
	Permissions PermissionsSpec `json:"permissions"`
	// FailurePolicy says what a failure of the plugin means for the container: Ignore or Fail.
	FailurePolicy FailurePolicy `json:"failurePolicy"`
	// FailurePolicyEvents are the events at which Fail acts.
	FailurePolicyEvents []EventName `json:"failurePolicyEvents"`
	// IncludeCritical lets Fail and rejections act on critical pods too.
	IncludeCritical bool `json:"includeCritical"`
	// Timeouts bound the calls to the plugin.
	Timeouts TimeoutsSpec `json:"timeouts"`
	// OverdueAfter is the age at which a call still running is a hang. Empty: ten timeouts, at least 5s.
	OverdueAfter Duration `json:"overdueAfter,omitzero" check:"positive,optional"`
	// Breaker says when the plugin is no longer called because it fails.
	Breaker BreakerSpec `json:"breaker"`
	// LaneShare bounds the time for which the plugin keeps events waiting.
	LaneShare LaneShareSpec `json:"laneShare"`
	// Quarantine keeps a pod away from a plugin that fails on it.
	Quarantine QuarantineSpec `json:"quarantine"`
	// Health is the probing of SDK plugins.
	Health HealthSpec `json:"health"`
	// Restart is the backoff between incarnations.
	Restart RestartSpec `json:"restart"`
	// UpdateStrategy says how a new version takes over.
	UpdateStrategy UpdateStrategySpec `json:"updateStrategy"`
	// Resources limits the plugin's process.
	Resources ResourcesSpec `json:"resources"`
	// Sandbox confines the plugin's process.
	Sandbox SandboxSpec `json:"sandbox"`
}

// RawObject is a JSON object, kept as the plugin will receive it: keys sorted, no white space.
// Empty means that none was given.
type RawObject []byte

// MarshalJSON returns the object itself, {} when empty.
func (r RawObject) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("{}"), nil
	}
	return json.RawMessage(r).MarshalJSON()
}

// ExecSpec starts the plugin as a process of ours.
type ExecSpec struct {
	// Path is the absolute path of the binary.
	Path string `json:"path"`
	// Args are its arguments, without the binary itself.
	Args []string `json:"args,omitzero"`
	// Env is its environment. Nothing is inherited from the supervisor but PATH and HOME.
	Env []EnvVar `json:"env,omitzero"`
	// SHA256 pins the binary: 64 hexadecimal digits. Empty: any content.
	SHA256 string `json:"sha256,omitempty"`
	// Protocol is go-plugin for plugins built with the SDK, nri for unmodified stock plugins.
	Protocol Protocol `json:"protocol"`
}

// EnvVar is one environment variable, with value or valueFrom.
type EnvVar struct {
	// Name is the name of the variable. Names that start with NRI_PLUGIN_ are the supervisor's.
	Name string `json:"name"`
	// Value is the value; it may be empty.
	Value string `json:"value,omitempty"`
	// ValueFrom takes the value from elsewhere when the plugin starts.
	ValueFrom *EnvSource `json:"valueFrom,omitempty"`
}

// EnvSource is where the value of an environment variable comes from. Exactly one field is set.
type EnvSource struct {
	// FileRef is the absolute path of a file whose content is the value, without one trailing newline.
	FileRef string `json:"fileRef,omitempty"`
	// FieldRef is a fact about the node: nodeName.
	FieldRef NodeField `json:"fieldRef,omitempty"`
}

// AttachSpec lets the plugin dial us as if we were the runtime.
type AttachSpec struct {
	// Socket is the path of the socket that we listen on for this plugin. Default: attach/NAME/nri.sock in runDir.
	Socket string `json:"socket,omitempty"`
	// AllowUIDs are the users that may connect, by the numbers of the host. Left out: root, [0].
	AllowUIDs []int64 `json:"allowUIDs,omitzero"`
}

// ConfigFrom names where the plugin's configuration comes from.
type ConfigFrom struct {
	// File is the absolute path of a file whose content is sent as it is.
	File string `json:"file"`
}

// Selector says which pods and containers a plugin hears of. All given parts must match.
type Selector struct {
	// Namespaces matches the pod's namespace. The team's ceiling applies as well.
	Namespaces *NamespaceSelector `json:"namespaces,omitempty"`
	// PodSelector matches the pod's labels, as Kubernetes label selectors do.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// RuntimeHandlers are the runtime handlers, exact names, one of which the pod must have. Empty: any.
	RuntimeHandlers []string `json:"runtimeHandlers,omitzero"`
	// Containers matches the container. It is not looked at on pod events.
	Containers *ContainerSelector `json:"containers,omitempty"`
	// MatchConditions are CEL expressions. All must be true.
	MatchConditions []MatchCondition `json:"matchConditions,omitzero"`
	// When is a condition of the OCI hooks schema. It is not looked at on pod events.
	When *WhenSpec `json:"when,omitempty"`
}

// NamespaceSelector matches the pod's namespace by globs: * is any run of characters, ? is one.
type NamespaceSelector struct {
	// Include lists globs of which one must match. Empty: every namespace.
	Include []string `json:"include,omitzero"`
	// Exclude lists globs of which none may match. Exclude wins.
	Exclude []string `json:"exclude,omitzero"`
}

// ContainerSelector matches the container by globs: * is any run of characters, ? is one.
type ContainerSelector struct {
	// Names lists globs of which one must match the container's name. Empty: any name.
	Names []string `json:"names,omitzero"`
	// Images lists globs of which one must match the image reference. Empty: any image. Needs a runtime with NRI 0.13 or later.
	Images []string `json:"images,omitzero"`
}

// MatchCondition is one CEL expression over pod and container.
type MatchCondition struct {
	// Name identifies the condition in messages. It is unique within the plugin.
	Name string `json:"name"`
	// Expression is CEL, must yield a bool, and may use pod and container, NRI's own messages.
	Expression string `json:"expression"`
}

// WhenSpec is a condition of the OCI hooks schema 1.0.0. At least one field is given; all given ones must match.
type WhenSpec struct {
	// Always true matches, false never matches.
	Always *bool `json:"always,omitempty"`
	// Annotations maps a regular expression for a key to one for its value.
	Annotations map[string]string `json:"annotations,omitzero"`
	// Commands are regular expressions of which one must match the first argument.
	Commands []string `json:"commands,omitzero"`
	// HasBindMounts true matches a container with a bind mount that the kubelet or the runtime did not add; false never matches.
	HasBindMounts *bool `json:"hasBindMounts,omitempty"`
}

// PermissionsSpec says what a plugin may change.
type PermissionsSpec struct {
	// Adjust lists NRI field names and the groups memory, cpu and *. Left out: what the team's ceiling grants.
	Adjust []Grant `json:"adjust,omitzero"`
	// Override allows removing or replacing what another hosted plugin set.
	Override bool `json:"override"`
	// Update says which containers the plugin's updates may name: selected, own or none.
	Update UpdateScope `json:"update"`
	// Reject allows the plugin to refuse a container on purpose.
	Reject bool `json:"reject"`
	// Env narrows which variables may be set.
	Env *EnvPermission `json:"env,omitempty"`
	// Mounts narrows which mounts may be made.
	Mounts *MountPermission `json:"mounts,omitempty"`
	// Annotations narrows which annotations may be set.
	Annotations *AnnotationPermission `json:"annotations,omitempty"`
	// Devices narrows which devices may be added.
	Devices *DevicePermission `json:"devices,omitempty"`
	// Rules are CEL expressions over reply, pod and container that must all be true.
	Rules []MatchCondition `json:"rules,omitzero"`
}

// EnvPermission narrows which variables may be set.
type EnvPermission struct {
	// Names are globs.
	Names []string `json:"names"`
}

// MountPermission narrows which mounts may be made.
type MountPermission struct {
	// Sources are globs.
	Sources []string `json:"sources,omitzero"`
	// Destinations are globs.
	Destinations []string `json:"destinations,omitzero"`
}

// AnnotationPermission narrows which annotations may be set.
type AnnotationPermission struct {
	// Keys are globs.
	Keys []string `json:"keys"`
}

// DevicePermission narrows which devices may be added.
type DevicePermission struct {
	// Paths are globs.
	Paths []string `json:"paths"`
}
