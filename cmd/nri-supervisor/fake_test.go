package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// fakeNow is the moment of the golden outputs.
func fakeNow() time.Time { return admintest.Now() }

// fakeAPI is a supervisor on whose one plugin actions have an effect.
type fakeAPI struct {
	admintest.Fake
	tripped bool // the plugin, guarded as the state is
}

func (f *fakeAPI) Explain(_ context.Context, namespace, pod, container string) ([]supervisor.Explanation, error) {
	if namespace != "ml-train" {
		return nil, fmt.Errorf("explain %s/%s: %w", namespace, pod, supervisor.ErrNotExplained)
	}
	return explained(container), nil
}

func (f *fakeAPI) Record(ctx context.Context, _ supervisor.RecordFilter, _ uint32, each func(*recording.Event, uint64) error) error {
	for i, name := range []string{"Synchronize", "RunPodSandbox", "StopPodSandbox"} {
		if err := each(&recording.Event{Name: name, Pod: &api.PodSandbox{Namespace: "a/b", Name: "../c"}}, uint64(i)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeAPI) Act(name, action string, uid uint32) error {
	err := f.Change(func(st *supervisor.Status) error { return f.act(st, name, action) })
	if err == nil {
		f.Note("%s %s uid %d", action, name, uid)
	}
	return err
}

func (f *fakeAPI) act(st *supervisor.Status, name, action string) error {
	i := slices.IndexFunc(st.Plugins, func(p supervisor.PluginStatus) bool { return p.Name == name && len(p.Problems) == 0 })
	if i < 0 {
		return fmt.Errorf("%w: %q", supervisor.ErrUnknownPlugin, name)
	}
	p := &st.Plugins[i]
	off := p.State == "disabled"
	if action == "restart" && off {
		return fmt.Errorf("restart plugin %q: it is disabled; enable it instead", name)
	}
	switch action {
	case "disable":
		off, p.State = true, "disabled"
	case "enable":
		if off {
			off, p.State = false, "starting"
		}
	case "trip":
		f.tripped = true
	case "reset":
		f.tripped = false
	case "unquarantine":
		p.Quarantined = nil
	}
	switch {
	case off:
		p.Breaker.State = "disabled"
	case f.tripped:
		p.Breaker.State = "forced_open"
	default:
		p.Breaker.State = "closed"
	}
	return nil
}

func shortDir(t *testing.T) string {
	t.Helper()
	return admintest.ShortDir(t)
}

func serveFake(t *testing.T, api admin.API) (socket string) {
	t.Helper()
	return admintest.Served(t, api)
}

// command runs the program.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), args, &out, &errOut)
	return code, out.String(), errOut.String()
}

// screen is a terminal that nobody has resized.
type screen struct{ bytes.Buffer }

// Columns is its width.
func (*screen) Columns() int { return usualWidth }

// onScreen is command for a person who looks at a terminal.
func onScreen(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out screen
	var errOut bytes.Buffer
	code = run(t.Context(), args, &out, &errOut)
	return code, out.String(), errOut.String()
}

// wellBehaved is a supervisor without any trouble.
func wellBehaved(now time.Time) supervisor.Status {
	return supervisor.Status{
		Version: "v1.2.3", Started: now.Add(-76*time.Hour - 30*time.Minute),
		Runtime: supervisor.RuntimeStatus{
			Connected: true, Since: now.Add(-2*time.Hour - 10*time.Minute - 30*time.Second), Sessions: 2, Name: "containerd", Version: "v2.4.2",
			NRIVersion: "v0.12.5", RequestTimeout: "2s", Socket: "/var/run/nri/nri.sock",
		},
		Config: supervisor.ConfigStatus{Hash: "3f2a9c4d1b7e8a6053f2a9c4d1b7e8a6053f2a9c4d1b7e8a6053f2a9c4d1b7e8"},
		Pods:   120, Ctrs: 241,
		Plugins: []supervisor.PluginStatus{
			{
				Name: "gpu-env", Team: "ml-infra", Contact: "#ml-infra", Index: "20", State: "ready", PID: 4711, Since: now.Add(-2*time.Hour - 30*time.Second),
				Identity:    &supervisor.Identity{Version: "v0.4.0", NRIVersion: "v0.12.5", SHA256: "00ff"},
				Breaker:     supervisor.BreakerView{State: "closed", Since: now.Add(-76*time.Hour - 30*time.Minute)},
				LaneSeconds: 1.25, ManifestFile: "/etc/nri-supervisor/plugins.d/gpu-env.yaml",
			},
		},
	}
}

// troubled is a supervisor with a plugin for each kind of trouble.
func troubled(now time.Time) supervisor.Status {
	st := wellBehaved(now)
	until := now.Add(2*time.Minute + 30*time.Second)
	st.Config.Problems = []string{
		"/etc/nri-supervisor/plugins.d/broken.yaml:7: spec.index: 5 is a number, not a string of two digits; write index: \"05\"",
		"warning: spec.timeouts: the timeouts of 4 plugins add up to 2s;\nshorten them",
	}
	st.Bypass = &until
	st.Refused, st.RefusedUnhosted = 6, 2
	st.Plugins[0].Quarantined = []string{"ml-training/poison-0"}
	st.Plugins[0].MissedInService = []supervisor.ReasonSum{{Reason: "conflict", Count: 2, First: now.Add(-14*time.Minute - 30*time.Second)}}
	st.Plugins[0].Conflicts = []supervisor.Rival{{Plugin: "cuda-fix", Team: "hpc", Count: 2, At: now.Add(-3*time.Minute - 30*time.Second), Fields: []string{"Env[LD_PRELOAD]"}}}
	st.Plugins[0].Missed, st.Plugins[0].MissedBy = 3, []supervisor.ReasonSum{{Reason: "conflict", Count: 2}, {Reason: "not_ready", Count: 1}}
	st.Plugins = append(
		st.Plugins,
		supervisor.PluginStatus{
			Name: "netpol", Team: "network", Contact: "netpol-oncall@example.com", Index: "30", State: "crash_loop", Since: now.Add(-3*time.Minute - 30*time.Second), NextStart: now.Add(90 * time.Second),
			Restarts: 5, Breaker: supervisor.BreakerView{
				State: "open", Cause: "exit", Since: now.Add(-4*time.Minute - 30*time.Second), WaitsFor: supervisor.WaitStart,
				Opening: &supervisor.Opening{At: now.Add(-4*time.Minute - 30*time.Second), Cause: "exit", Last: &supervisor.Failure{
					At: now.Add(-4*time.Minute - 30*time.Second), Event: "CreateContainer", Namespace: "ml-training", Pod: "bert-0", Container: "trainer", Reason: "exit_code", Detail: "exit code 2",
				}},
			},
			FailsClosed: true, Refused: 4, RefusedBy: []supervisor.ReasonSum{{Reason: "not_ready", Count: 3}, {Reason: "unavailable", Count: 1}}, RefusedAt: now.Add(-90 * time.Second),
			Missed: 12, MissedBy: []supervisor.ReasonSum{{Reason: "not_ready", Count: 12}}, LastError: "exit code 2 after 1.5s \x1b[31m(exit_code)",
			ManifestFile: "/etc/nri-supervisor/plugins.d/netpol.yaml",
			Exits: []supervisor.ExitRecord{
				{Reason: "start_failed", Detail: "handshake: no reply in 10s", At: now.Add(-9 * time.Minute)},
				{
					PID: 4812, Reason: "exit_code", Detail: "exit code 2 after 1.5s (exit_code)", At: now.Add(-4*time.Minute - 30*time.Second), InFlight: "CreateContainer of ml-training/bert-0/trainer (container ctr-1, pod pod-1)",
					Output: []string{"panic: runtime error: invalid memory address or nil pointer dereference", "\tmain.go:12 \x1b]0;owned\x07\u202e\xff"},
				},
			},
		},
		supervisor.PluginStatus{
			Name: "slow", Team: "network", Index: "31", State: "ready", PID: 4900, Since: now.Add(-2*time.Hour - 30*time.Second),
			Breaker: supervisor.BreakerView{
				State: "open", Cause: "probe", Since: now.Add(-3*time.Minute - 30*time.Second), OpenUntil: &until, WaitsFor: supervisor.WaitTime,
				Opening: &supervisor.Opening{
					At: now.Add(-50*time.Hour - 30*time.Minute), Cause: "consecutive_failures", Again: 3,
					First: &supervisor.Failure{At: now.Add(-50*time.Hour - 31*time.Minute), Event: "CreateContainer", Namespace: "shop", Pod: "cart-7d9f", Container: "app", Reason: "timeout", Detail: "no answer in 500ms"},
					Last:  &supervisor.Failure{At: now.Add(-3*time.Minute - 30*time.Second), Event: "RunPodSandbox", Namespace: "shop", Pod: "cart-8e0a", Reason: "error", Detail: "no such device"},
				},
			},
		},
		supervisor.PluginStatus{
			Name: "tried", Team: "network", Index: "31", State: "ready", PID: 4902, Since: now.Add(-2*time.Hour - 30*time.Second),
			Breaker: supervisor.BreakerView{
				State: "half_open", Cause: "started", Since: now.Add(-1*time.Minute - 30*time.Second), WaitsFor: supervisor.WaitCall,
				Opening: &supervisor.Opening{At: now.Add(-3*time.Minute - 30*time.Second), Cause: "hung", Last: &supervisor.Failure{At: now.Add(-3*time.Minute - 30*time.Second), Event: "StopContainer", Namespace: "shop", Pod: "cart-7d9f", Container: "app", Reason: "hung"}},
			},
			FailsClosed: true,
		},
		supervisor.PluginStatus{
			Name: "held", Team: "network", Index: "32", State: "ready", PID: 4901, Since: now.Add(-2*time.Hour - 30*time.Second),
			Breaker: supervisor.BreakerView{State: "forced_open", Cause: "manual", Since: now.Add(-5*time.Minute - 30*time.Second)},
			Missed:  1, MissedBy: []supervisor.ReasonSum{{Reason: "breaker_open", Count: 1}},
		},
		supervisor.PluginStatus{
			Name: "old", Team: "storage", Index: "40", State: "disabled", Since: now.Add(-50*time.Hour - 30*time.Minute),
			Breaker: supervisor.BreakerView{State: "disabled", Cause: "manual", Since: now.Add(-50*time.Hour - 30*time.Minute)},
		},
		supervisor.PluginStatus{
			Name: "broken", Team: "storage", Contact: "#storage", State: "invalid", ManifestFile: "/etc/nri-supervisor/plugins.d/broken.yaml", Since: st.Started,
			Problems: st.Config.Problems[:1], LastError: st.Config.Problems[0],
		},
	)
	return st
}

// missing is some missing work.
func missing(now time.Time) []supervisor.MissedWork {
	return []supervisor.MissedWork{
		{Namespace: "ml-training", Pod: "bert-0", Container: "trainer", ContainerID: "c1", Plugin: "gpu-env", Team: "ml-infra", Reason: "timeout", At: now.Add(-3*time.Minute - 30*time.Second)},
		{Namespace: "ml-training", Pod: "bert-0", Container: "trainer", ContainerID: "c1", Plugin: "netpol", Team: "network", Reason: "not_ready", At: now.Add(-3*time.Minute - 30*time.Second)},
		{Namespace: "shop", Pod: "cart-7d9f", Container: "app", ContainerID: "c2", Plugin: "netpol", Team: "network", Reason: "supervisor_down", At: now.Add(-26*time.Hour - 30*time.Minute)},
	}
}
