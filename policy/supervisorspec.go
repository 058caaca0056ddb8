package policy

import "k8s.io/apimachinery/pkg/api/resource"

// SupervisorSpec is the configuration of the supervisor itself.
type SupervisorSpec struct {
	// Runtime is the connection to the container runtime.
	Runtime RuntimeSpec `json:"runtime"`
	// Startup says how long plugins may delay the registration with the runtime.
	Startup StartupSpec `json:"startup"`
	// PluginDirs are the folders with Plugin manifests. Files ending in .yaml or .yml are read, others not.
	PluginDirs []string `json:"pluginDirs"`
	// RunDir holds sockets and the private folders of the plugins. Never a folder under /tmp.
	RunDir string `json:"runDir"`
	// StateDir holds pinned decisions, missed work, manual states and the last good configuration.
	StateDir string `json:"stateDir"`
	// Metrics is the HTTP listener for metrics and health.
	Metrics MetricsSpec `json:"metrics"`
	// Admin is the socket that the command line talks to.
	Admin AdminSpec `json:"admin"`
	// Audit is the record of who changed what.
	Audit AuditSpec `json:"audit"`
	// Tracing exports spans by OTLP.
	Tracing TracingSpec `json:"tracing"`
	// AnnotateMissed puts nri-supervisor.dev/missed on containers that run without a plugin's work.
	AnnotateMissed bool `json:"annotateMissed"`
	// FileTrust says whether binaries and manifests that others can write are refused: strict or off.
	FileTrust FileTrust `json:"fileTrust"`
	// Critical names the pods that no plugin may keep from running.
	Critical CriticalSpec `json:"critical"`
	// RequiredPlugins must have succeeded for every container.
	RequiredPlugins []string `json:"requiredPlugins"`
	// Defaults is any part of a Plugin's spec. It lies beneath the spec of each plugin: maps merge, lists replace.
	Defaults RawObject `json:"defaults,omitzero" schema:"PluginSpec"`
	// Teams sets the ceiling of each team, by team name. A plugin of a team that is not here is an error.
	Teams map[string]Team `json:"teams,omitzero"`
}

// RuntimeSpec is the connection to the container runtime.
type RuntimeSpec struct {
	// Socket is the path of the runtime's NRI socket.
	Socket string `json:"socket"`
	// Name is the plugin name under which the supervisor registers.
	Name string `json:"name"`
	// Index is the NRI index under which the supervisor registers: two digits.
	Index string `json:"index"`
	// Validate subscribes to ValidateContainerAdjustment, a second request for every container.
	Validate bool `json:"validate"`
}

// StartupSpec says how long plugins may delay the registration with the runtime.
type StartupSpec struct {
	// WaitForPlugins is the longest wait for the plugins' handshakes after a boot. 0s does not wait.
	WaitForPlugins Duration `json:"waitForPlugins" check:"notNegative"`
}

// MetricsSpec is the HTTP listener for metrics and health.
type MetricsSpec struct {
	// Address is host:port; empty listens nowhere.
	Address string `json:"address"`
	// TLS is the listener's certificate.
	TLS TLSSpec `json:"tls"`
}

// TLSSpec is a server certificate.
type TLSSpec struct {
	// CertFile is the path of the certificate chain in PEM.
	CertFile string `json:"certFile"`
	// KeyFile is the path of the private key in PEM.
	KeyFile string `json:"keyFile"`
	// ClientCAFile is the path of the authorities of which clients must show a certificate, for everything but the probes.
	ClientCAFile string `json:"clientCAFile"`
}

// AdminSpec is the socket that the command line talks to.
type AdminSpec struct {
	// Socket is the path of the admin socket. Default: admin.sock in runDir.
	Socket string `json:"socket"`
	// Roles says who may do what.
	Roles RolesSpec `json:"roles"`
}

// RolesSpec lists members as uid:N or gid:N.
type RolesSpec struct {
	// View may read.
	View []string `json:"view"`
	// Operate may also trip, reset, restart, enable, disable and unquarantine plugins.
	Operate []string `json:"operate"`
	// Admin may do everything. Root may in any case.
	Admin []string `json:"admin"`
}

// AuditSpec is the record of who changed what.
type AuditSpec struct {
	// Path is the file; empty means audit.jsonl in stateDir.
	Path string `json:"path"`
	// MaxSize is the size at which the file is rotated.
	MaxSize resource.Quantity `json:"maxSize"`
	// MaxFiles is how many rotated files are kept.
	MaxFiles int `json:"maxFiles"`
}

// TracingSpec exports spans by OTLP.
type TracingSpec struct {
	// Endpoint is the URL of an OTLP collector that speaks HTTP, such as "http://127.0.0.1:4318"; without a path, /v1/traces is meant. Empty is off.
	Endpoint string `json:"endpoint"`
	// Ratio is the share of events that are traced, 0 to 1, where the runtime does not trace them itself.
	Ratio float64 `json:"ratio"`
}

// CriticalSpec names the pods that are never refused by Fail, by a rejection or by requiredPlugins,
// unless a plugin says includeCritical.
type CriticalSpec struct {
	// Namespaces are globs.
	Namespaces []string `json:"namespaces"`
	// StaticPods protects pods that the kubelet read from a file or URL.
	StaticPods bool `json:"staticPods"`
}

// Team is the ceiling of one team: what its plugins can ever see, change and ask for.
type Team struct {
	// Contact tells people whom to ask, for example a channel. It is shown in messages.
	Contact string `json:"contact"`
	// Namespaces are globs: all that the team's plugins can ever see. Left out: every namespace.
	Namespaces []string `json:"namespaces,omitzero"`
	// Permissions is the most that the team's plugins can be granted.
	Permissions TeamPermissions `json:"permissions"`
	// Allow lists what the team's plugins may ask for.
	Allow TeamAllow `json:"allow"`
	// MaxTimeout bounds each per-event timeout of the team's plugins. 0s or left out: no bound.
	MaxTimeout Duration `json:"maxTimeout" check:"notNegative"`
	// IndexRange is the first and the last NRI index the team may use, both included. Left out: every index.
	IndexRange []string `json:"indexRange,omitzero"`
	// ExecPaths are globs for the binaries the team may run; * stays within one folder, ** crosses folders. What a link leads to must
	// match as well. Left out: every path.
	ExecPaths []string `json:"execPaths,omitzero"`
	// MinimumProfile is the weakest sandbox profile the team's plugins may ask for.
	MinimumProfile Profile `json:"minimumProfile,omitempty"`
	// Resources is the most that the team's plugins may ask for.
	Resources ResourcesSpec `json:"resources"`
	// LaneShare bounds the time for which the team's plugins together keep events waiting.
	LaneShare *LaneShareSpec `json:"laneShare,omitempty"`
}

// TeamPermissions is the most that a team's plugins can be granted.
type TeamPermissions struct {
	// Adjust lists NRI field names and the groups memory, cpu and *.
	// Left out: everything except OciHooks, SeccompPolicy, Namespace and Sysctl.
	Adjust []Grant `json:"adjust,omitzero"`
}

// TeamAllow lists what a team's plugins may ask for.
type TeamAllow struct {
	// FailurePolicyFail allows failurePolicy Fail.
	FailurePolicyFail bool `json:"failurePolicyFail"`
	// Reject allows permissions.reject.
	Reject bool `json:"reject"`
	// IncludeCritical allows includeCritical.
	IncludeCritical bool `json:"includeCritical"`
	// Attach allows plugins that dial the supervisor instead of being started by it.
	Attach bool `json:"attach"`
}
