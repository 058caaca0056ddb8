package policy

import (
	"encoding/json"
	"time"
)

// Duration is a span of time, written in manifests as a Go duration string such as
// "500ms" or "1m30s". What the zero value means is said at each field.
type Duration time.Duration

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String renders the duration in Go's notation, such as "1.5s".
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON renders the duration as a string in Go's notation.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// FailurePolicy says what a plugin's failure means for the container. It is a closed set.
type FailurePolicy string

const (
	// Ignore goes on as if the plugin were not there, and records the missed work.
	Ignore FailurePolicy = "Ignore"
	// Fail refuses the request with a message that names the plugin.
	Fail FailurePolicy = "Fail"
)

// Values lists the closed set.
func (FailurePolicy) Values() []string { return []string{string(Ignore), string(Fail)} }

// Protocol says how the plugin process is spoken to. It is a closed set.
type Protocol string

const (
	// GoPlugin is NRI on an inherited socket plus the go-plugin control plane of the SDK.
	GoPlugin Protocol = "go-plugin"
	// NRI is an unmodified stock NRI plugin on an inherited socket.
	NRI Protocol = "nri"
)

// Values lists the closed set.
func (Protocol) Values() []string { return []string{string(GoPlugin), string(NRI)} }

// Delivery says whether the runtime waits for a plugin's handling of an event. It is a closed set.
type Delivery string

const (
	// Sync makes the runtime wait for the plugin.
	Sync Delivery = "sync"
	// Async queues the event, so that it never delays the runtime.
	Async Delivery = "async"
)

// Values lists the closed set.
func (Delivery) Values() []string { return []string{string(Sync), string(Async)} }

// UpdateScope says which containers a plugin's updates may name. It is a closed set.
type UpdateScope string

const (
	// UpdateSelected allows every container that the plugin has selected.
	UpdateSelected UpdateScope = "selected"
	// UpdateOwn allows only the container of the event in flight.
	UpdateOwn UpdateScope = "own"
	// UpdateNone allows no update.
	UpdateNone UpdateScope = "none"
)

// Values lists the closed set.
func (UpdateScope) Values() []string {
	return []string{string(UpdateSelected), string(UpdateOwn), string(UpdateNone)}
}

// FileTrust says whether files that others can write are refused. It is a closed set.
type FileTrust string

const (
	// TrustStrict refuses binaries and manifests that group or others can write, or that
	// neither root nor the user running the supervisor owns.
	TrustStrict FileTrust = "strict"
	// TrustOff checks nothing.
	TrustOff FileTrust = "off"
)

// Values lists the closed set.
func (FileTrust) Values() []string { return []string{string(TrustStrict), string(TrustOff)} }

// Profile is a preset of confinement. It is a closed set.
type Profile string

const (
	// ProfileNone is the process hygiene that every plugin gets, and nothing more.
	ProfileNone Profile = "none"
	// ProfileStandard drops what no plugin needs.
	ProfileStandard Profile = "standard"
	// ProfileStrict gives the plugin a user of its own, no capability and no network.
	ProfileStrict Profile = "strict"
)

// Values lists the closed set.
func (Profile) Values() []string {
	return []string{string(ProfileNone), string(ProfileStandard), string(ProfileStrict)}
}

// UpdateStrategyType says how a new version of a plugin takes over. It is a closed set.
type UpdateStrategyType string

const (
	// RollingUpdate warms the new process up while the old one serves.
	RollingUpdate UpdateStrategyType = "RollingUpdate"
	// Recreate stops the old process before the new one starts.
	Recreate UpdateStrategyType = "Recreate"
)

// Values lists the closed set.
func (UpdateStrategyType) Values() []string {
	return []string{string(RollingUpdate), string(Recreate)}
}

// Network is the network a plugin sees. It is a closed set.
type Network string

const (
	// NetworkHost is the host's network.
	NetworkHost Network = "host"
	// NetworkNone is an empty network namespace.
	NetworkNone Network = "none"
)

// Values lists the closed set.
func (Network) Values() []string { return []string{string(NetworkHost), string(NetworkNone)} }

// Seccomp is the system call filter of a plugin. It is a closed set.
type Seccomp string

const (
	// SeccompDefault is the profile's filter.
	SeccompDefault Seccomp = "default"
	// SeccompUnconfined is no filter.
	SeccompUnconfined Seccomp = "unconfined"
)

// Values lists the closed set.
func (Seccomp) Values() []string { return []string{string(SeccompDefault), string(SeccompUnconfined)} }

// NodeField is a fact about the node that an environment variable can be taken from. It is a closed set.
type NodeField string

// NodeName is the name of the node: $NODE_NAME of the supervisor, else its host name.
const NodeName NodeField = "nodeName"

// Values lists the closed set.
func (NodeField) Values() []string { return []string{string(NodeName)} }
