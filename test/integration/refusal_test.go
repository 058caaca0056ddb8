package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// strictTeam may use Fail and rejections.
const strictTeam = `
  teams:
    net: {contact: "#net", allow: {failurePolicyFail: true, reject: true, includeCritical: true}}
`

// life runs a pod and its container through every event and returns the error of each.
func life(ctx context.Context, rt *harness.Runtime, pod *api.PodSandbox) map[string]error {
	c := harness.Container(pod, "main")
	errs := map[string]error{}
	errs["RunPodSandbox"] = rt.RunPod(ctx, pod)
	errs["UpdatePodSandbox"] = rt.UpdatePod(ctx, pod, &api.LinuxResources{}, &api.LinuxResources{})
	_, errs["CreateContainer"] = rt.Create(ctx, pod, c)
	errs["StartContainer"] = rt.StartContainer(ctx, pod, c)
	_, errs["UpdateContainer"] = rt.Update(ctx, pod, c, shares(5))
	_, errs["StopContainer"] = rt.StopContainer(ctx, pod, c)
	errs["RemoveContainer"] = rt.RemoveContainer(ctx, pod, c)
	errs["RemovePodSandbox"] = rt.RemovePod(ctx, pod)
	return errs
}

func TestFailActsAtTheEventsThatItNamesAndNeverAtAnEnd(t *testing.T) {
	t.Parallel()
	all := []string{"RunPodSandbox", "UpdatePodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"}
	for _, tt := range []struct {
		name   string
		events string
		fails  []string
	}{
		{"default", "", []string{"CreateContainer", "UpdateContainer"}},
		{"only updates", "failurePolicyEvents: [UpdateContainer]", []string{"UpdateContainer"}},
		{"pods too", "failurePolicyEvents: [RunPodSandbox, UpdatePodSandbox, CreateContainer, StartContainer]", []string{"RunPodSandbox", "UpdatePodSandbox", "CreateContainer", "StartContainer"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := harness.NewRuntime(t)
			var faults []string
			for _, e := range all {
				faults = append(faults, fmt.Sprintf("{event: %[1]s, action: error, annotation: \"fail=%[1]s\"}", e))
			}
			extra := "  failurePolicy: Fail\n  " + tt.events
			manifest := chaosPlugin(t, "strict", "10", ", faults: ["+strings.Join(faults, ", ")+"]", extra)
			manifest = strings.Replace(manifest, "breaker: {openDuration: 200ms}", "breaker: {consecutiveFailures: 1000, failureRatio: {threshold: 1}}", 1)
			start(t, rt, strictTeam, manifest, "strict")
			for _, e := range all {
				pod := harness.Pod("default", strings.ToLower(e), "chaos", "strict")
				pod.Annotations["fail"] = e
				want := false
				for _, f := range tt.fails {
					want = want || f == e
				}
				for event, err := range life(t.Context(), rt, pod) {
					switch {
					case want && event == e && err == nil:
						t.Errorf("the plugin failed at %s, and it did not fail", e)
					case want && event == e:
						for _, part := range []string{`plugin "strict"`, `team "net"`, "#net", "error"} {
							if !strings.Contains(err.Error(), part) {
								t.Errorf("%s failed with %q, which lacks %q", e, err, part)
							}
						}
					case err != nil:
						t.Errorf("the plugin failed at %s, and %s failed with %v", e, event, err)
					}
				}
			}
		})
	}
}

func TestARejectionNeedsPermissionAndSparesCriticalPods(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	rejects := `, faults: [{event: CreateContainer, action: "reject:no GPU left"}]`
	sup := start(t, rt, strictTeam,
		chaosPlugin(t, "may", "10", rejects, "  permissions: {reject: true}")+
			chaosPlugin(t, "may-not", "20", rejects, "")+
			chaosPlugin(t, "may-all", "30", rejects, "  permissions: {reject: true}\n  includeCritical: true"),
		"may", "may-not", "may-all")
	static := func(p *api.PodSandbox) *api.PodSandbox {
		p.Annotations["kubernetes.io/config.source"] = "file"
		return p
	}
	for _, tt := range []struct {
		name    string
		pod     *api.PodSandbox
		refused bool
	}{
		{"with permission", harness.Pod("default", "a", "chaos", "may"), true},
		{"without permission", harness.Pod("default", "b", "chaos", "may-not"), false},
		{"critical namespace", harness.Pod("kube-system", "c", "chaos", "may"), false},
		{"static pod", static(harness.Pod("default", "d", "chaos", "may")), false},
		{"critical included", harness.Pod("kube-system", "e", "chaos", "may-all"), true},
		{"not selected", harness.Pod("default", "f"), false},
	} {
		_, err := rt.Create(t.Context(), tt.pod, harness.Container(tt.pod, "main"))
		switch {
		case tt.refused && err == nil:
			t.Errorf("%s: the container was created", tt.name)
		case tt.refused:
			for _, part := range []string{"no GPU left", tt.pod.GetLabels()["chaos"], `team "net"`, "#net"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: message %q lacks %q", tt.name, err, part)
				}
			}
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if n := sup.Metric(`nri_supervisor_plugin_calls_total{event="CreateContainer",outcome="rejected",plugin="may"}`); n != "3" {
		t.Errorf("rejections = %q, want 3", n)
	}
	if n := sup.Metric(`nri_supervisor_plugin_calls_total{event="CreateContainer",outcome="error",plugin="may-not"}`); n != "1" {
		t.Errorf("errors of the plugin without permission = %q, want 1", n)
	}
	sup.WaitLine(1, "plugin refused a container", map[string]any{"plugin": "may", "pod": "a", "honoured": true})
	sup.WaitLine(1, "plugin refused a container", map[string]any{"plugin": "may", "pod": "c", "honoured": false})
}

func TestAValidatorJudgesWhatTheHostedPluginsDid(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	judge, mute := newProbe(t, "judge"), newProbe(t, "mute")
	sup := start(t, rt, strictTeam,
		judge.manifest("80", `, "validate": true`, "  permissions: {reject: true}\n  failurePolicy: Ignore")+
			mute.manifest("81", `, "validate": true, "refuse": "I may not"`, "  failurePolicy: Ignore\n  selector: {podSelector: {matchLabels: {probe: judge}}}")+
			strings.Replace(gpuEnv(t), "team: ml-infra", "team: net", 1), "judge", "mute", "gpu-env")
	pod := harness.Pod("default", "fine", "probe", "judge", "accelerator", "gpu")
	c, rpl := created(t, rt, pod)
	if env(rpl.GetAdjust())["GPU"] != "1" {
		t.Errorf("env %v, want GPU", env(rpl.GetAdjust()))
	}
	l := judge.wait(1, "ValidateContainerAdjustment", c.GetId())
	if len(l.Owners) != 1 || !strings.Contains(l.Owners[0], "GPU") || !strings.Contains(l.Owners[0], "gpu-env") {
		t.Errorf("the validator saw the owners %v, want gpu-env for GPU", l.Owners)
	}
	if !strings.Contains(l.Plugins, "gpu-env") {
		t.Errorf("the validator saw the plugins %q", l.Plugins)
	}
	bad := harness.Pod("default", "bad", "probe", "judge", "accelerator", "gpu")
	bad.Annotations["probe/refuse"] = "not here"
	if _, err := rt.Create(t.Context(), bad, harness.Container(bad, "main")); err == nil {
		t.Error("the validator refused and the container was created")
	} else if !strings.Contains(err.Error(), "not here") || !strings.Contains(err.Error(), `"judge"`) {
		t.Errorf("message %q names neither the plugin nor its reason", err)
	}
	critical := harness.Pod("kube-system", "dns", "probe", "judge")
	critical.Annotations["probe/refuse"] = "not here"
	if _, err := rt.Create(t.Context(), critical, harness.Container(critical, "main")); err != nil {
		t.Errorf("a critical pod was refused: %v", err)
	}
	if n := sup.Sum("nri_supervisor_plugin_calls_total", `plugin="mute"`, `outcome="forbidden"`, `event="ValidateContainerAdjustment"`); n == 0 {
		t.Error("the refusals of a validator without permission are not counted as forbidden")
	}
}
