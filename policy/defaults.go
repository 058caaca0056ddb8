package policy

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultSupervisorSpec is the Supervisor document without any setting.
func defaultSupervisorSpec() SupervisorSpec {
	maxSize := resource.MustParse("64Mi")
	_ = maxSize.String() // caches the text, so that later readers do not write
	return SupervisorSpec{
		Runtime:         RuntimeSpec{Socket: "/var/run/nri/nri.sock", Name: "nri-supervisor", Index: "50"},
		Startup:         StartupSpec{WaitForPlugins: Duration(10 * time.Second)},
		PluginDirs:      []string{"/etc/nri-supervisor/plugins.d"},
		RunDir:          "/run/nri-supervisor",
		StateDir:        "/var/lib/nri-supervisor",
		Metrics:         MetricsSpec{Address: "127.0.0.1:9464"},
		Admin:           AdminSpec{Roles: RolesSpec{View: []string{}, Operate: []string{}, Admin: []string{"uid:0"}}},
		Audit:           AuditSpec{MaxSize: maxSize, MaxFiles: 4},
		Tracing:         TracingSpec{Ratio: 0.01},
		AnnotateMissed:  true,
		FileTrust:       TrustStrict,
		Critical:        CriticalSpec{Namespaces: []string{"kube-system"}, StaticPods: true},
		RequiredPlugins: []string{},
	}
}

// adminSocketName is the admin socket in runDir when admin.socket is not given.
const adminSocketName = "admin.sock"

// defaultPluginSpec is a Plugin's spec without any setting.
// The numbers are judgements, not measurements: short enough that one slow plugin leaves the runtime room in its
// 2 s, long enough that a plugin that reads a file or asks the node is not cut off.
func defaultPluginSpec() PluginSpec {
	return PluginSpec{
		Permissions:         PermissionsSpec{Update: UpdateSelected},
		FailurePolicy:       Ignore,
		FailurePolicyEvents: []EventName{"CreateContainer", "UpdateContainer"},
		Timeouts: TimeoutsSpec{
			Default:     Duration(500 * time.Millisecond),
			Start:       Duration(10 * time.Second),
			Configure:   Duration(5 * time.Second),
			Synchronize: Duration(30 * time.Second),
		},
		Breaker: BreakerSpec{
			ConsecutiveFailures: 3,
			FailureRatio:        FailureRatioSpec{Threshold: 0.5, MinimumCalls: 10, Window: Duration(30 * time.Second)},
			SlowCall:            SlowCallSpec{Ratio: 1, MinimumCalls: 10},
			OpenDuration:        Duration(5 * time.Second),
			MaxOpenDuration:     Duration(5 * time.Minute),
		},
		LaneShare:  LaneShareSpec{Burst: Duration(300 * time.Millisecond)},
		Quarantine: QuarantineSpec{After: 3, Duration: Duration(10 * time.Minute)},
		Health:     HealthSpec{Period: Duration(5 * time.Second), Timeout: Duration(time.Second), FailureThreshold: 3},
		Restart: RestartSpec{
			Backoff: Duration(time.Second), MaxBackoff: Duration(time.Minute), StableAfter: Duration(time.Minute),
			CrashLoop: CrashLoopSpec{Exits: 5, Within: Duration(time.Minute), RetryEvery: Duration(5 * time.Minute)},
		},
		UpdateStrategy: UpdateStrategySpec{Type: RollingUpdate},
		Sandbox:        SandboxSpec{Profile: ProfileStandard, Network: NetworkHost, Seccomp: SeccompDefault},
	}
}

// DefaultSpecs returns both specs with nothing but the built-in defaults in them: what the JSON Schema
// is generated from, and what a document without any setting means.
func DefaultSpecs() (SupervisorSpec, PluginSpec) { return defaultSupervisorSpec(), defaultPluginSpec() }
