package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

const (
	runPod      = api.Event_RUN_POD_SANDBOX
	createCtr   = api.Event_CREATE_CONTAINER
	startCtr    = api.Event_START_CONTAINER
	postStart   = api.Event_POST_START_CONTAINER
	updateCtr   = api.Event_UPDATE_CONTAINER
	stopCtr     = api.Event_STOP_CONTAINER
	removeCtr   = api.Event_REMOVE_CONTAINER
	validateCtr = api.Event_VALIDATE_CONTAINER_ADJUSTMENT
)

// events lists NRI's names of the events for which the verdict is true.
func events(verdict func(api.Event) bool) string {
	var out []string
	for e := api.Event_UNKNOWN - 1; e <= api.Event_LAST+1; e++ {
		if verdict(e) {
			out = append(out, e.PrettyName())
		}
	}
	return strings.Join(out, " ")
}

func TestTheRuntimeWaitsForTheDefaultEventsAndThoseOfTheManifest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, delivery, want string }{
		{"default", "{}", "RunPodSandbox StopPodSandbox CreateContainer StartContainer UpdateContainer StopContainer UpdatePodSandbox ValidateContainerAdjustment"},
		{
			"changed both ways", "{PostStartContainer: sync, StartContainer: async, RunPodSandbox: async, CreateContainer: sync}",
			"StopPodSandbox CreateContainer PostStartContainer UpdateContainer StopContainer UpdatePodSandbox ValidateContainerAdjustment",
		},
	} {
		if got := events(one(t, "delivery: "+tt.delivery).Blocking); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestFailActsAtTheEventsOfTheManifestAndNeverAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, lines, want string }{
		{"Ignore", "failurePolicyEvents: [RunPodSandbox]", ""},
		{"Fail", "failurePolicy: Fail", "CreateContainer UpdateContainer ValidateContainerAdjustment"},
		{"Fail at pods", "failurePolicy: Fail\nfailurePolicyEvents: [RunPodSandbox, StartContainer]", "RunPodSandbox StartContainer"},
		{"Fail nowhere", "failurePolicy: Fail\nfailurePolicyEvents: []", ""},
	} {
		if got := events(one(t, tt.lines).Fails); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestEventsNarrowTheSubscription(t *testing.T) {
	t.Parallel()
	if got := one(t).Events(); got != 0 {
		t.Errorf("no narrowing = %b", got)
	}
	got := one(t, "events: [RemoveContainer, CreateContainer]").Events()
	if want := api.MustParseEventMask("CreateContainer,RemoveContainer"); got != want {
		t.Errorf("events = %b, want %b", got, want)
	}
}

func TestTimeoutsPerEventElseTheDefault(t *testing.T) {
	t.Parallel()
	p := one(t, "timeouts: {default: 1s, CreateContainer: 2s, start: 3s, configure: 4s, synchronize: 5s}")
	for got, want := range map[time.Duration]time.Duration{
		p.Timeout(createCtr): 2 * time.Second, p.Timeout(removeCtr): time.Second, p.Timeout(api.Event_UNKNOWN): time.Second, p.Timeout(-1): time.Second, p.Timeout(99): time.Second,
		p.StartTimeout(): 3 * time.Second, p.ConfigureTimeout(): 4 * time.Second, p.SynchronizeTimeout(): 5 * time.Second,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAHangIsTenTimeoutsAndAtLeastFiveSecondsUnlessTheManifestSays(t *testing.T) {
	t.Parallel()
	p := one(t, "timeouts: {default: 100ms, CreateContainer: 800ms}")
	if got := p.OverdueAfter(removeCtr); got != 5*time.Second {
		t.Errorf("short timeout: %s", got)
	}
	if got := p.OverdueAfter(createCtr); got != 8*time.Second {
		t.Errorf("long timeout: %s", got)
	}
	if got := one(t, "overdueAfter: 2s").OverdueAfter(createCtr); got != 2*time.Second {
		t.Errorf("given: %s", got)
	}
}

func TestTheTeamsMaxTimeoutCutsDefaultsAndRefusesWhatTheManifestSays(t *testing.T) {
	t.Parallel()
	supervisor := supervisorYAML + "    fast: {maxTimeout: 200ms}\n  defaults: {timeouts: {CreateContainer: 1s}}\n"
	c := parse(t, supervisor, plugin("p", "team: fast"), plugin("q", "team: fast", "timeouts: {default: 100ms, UpdateContainer: 200ms}"),
		plugin("r", "team: fast", "timeouts: {default: 201ms}"))
	p := valid(t, c, "p")
	if p.Timeout(createCtr) != 200*time.Millisecond || p.Timeout(removeCtr) != 200*time.Millisecond || p.Spec.Timeouts.Default.Std() != 200*time.Millisecond {
		t.Errorf("timeouts = %+v", p.Spec.Timeouts)
	}
	if q := valid(t, c, "q"); q.Timeout(removeCtr) != 100*time.Millisecond || q.Timeout(updateCtr) != 200*time.Millisecond {
		t.Errorf("timeouts = %+v", q.Spec.Timeouts)
	}
	if c.Plugin("r") != nil {
		t.Error("a timeout above the ceiling is accepted")
	}
}

func TestCriticalPodsAreProtectedUnlessThePluginMayIncludeThem(t *testing.T) {
	t.Parallel()
	static := map[string]string{"kubernetes.io/config.source": "file"}
	ordinary := map[string]string{"kubernetes.io/config.source": "api"}
	supervisor := supervisorYAML + "  critical: {namespaces: [\"sys-*\"], staticPods: false}\n"
	for _, tt := range []struct {
		name, supervisor, lines string
		pod                     *api.PodSandbox
		want                    bool
	}{
		{"kube-system", supervisorYAML, "", &api.PodSandbox{Namespace: "kube-system"}, true},
		{"another namespace", supervisorYAML, "", &api.PodSandbox{Namespace: "default", Annotations: ordinary}, false},
		{"static pod", supervisorYAML, "", &api.PodSandbox{Namespace: "default", Annotations: static}, true},
		{"included", supervisorYAML, "includeCritical: true", &api.PodSandbox{Namespace: "kube-system", Annotations: static}, false},
		{"own list", supervisor, "", &api.PodSandbox{Namespace: "sys-a"}, true},
		{"own list without the default", supervisor, "", &api.PodSandbox{Namespace: "kube-system", Annotations: static}, false},
		{"no namespace", supervisorYAML, "", &api.PodSandbox{}, false},
		{"no pod", supervisorYAML, "", nil, false},
	} {
		p := valid(t, parse(t, tt.supervisor, plugin("p", tt.lines)), "p")
		if got := p.Critical(tt.pod); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestRejectingAndUpdatingNeedWhatTheManifestSays(t *testing.T) {
	t.Parallel()
	if p := one(t); p.MayReject() || p.UpdateScope() != policy.UpdateSelected {
		t.Errorf("default: reject %v, update %s", p.MayReject(), p.UpdateScope())
	}
	if p := one(t, "permissions: {reject: true, update: own}"); !p.MayReject() || p.UpdateScope() != policy.UpdateOwn {
		t.Errorf("given: reject %v, update %s", p.MayReject(), p.UpdateScope())
	}
}

func TestTimeoutsThatDoNotFitTogetherAreAWarningWithTheNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		plugins []string
		runtime time.Duration
		want    []string
	}{
		{"fit", []string{plugin("a"), plugin("b"), plugin("c")}, 2 * time.Second, nil},
		{"exactly", []string{plugin("a", "timeouts: {default: 900ms}"), plugin("b", "timeouts: {default: 900ms}")}, 2 * time.Second, nil},
		{"one too long", []string{plugin("a", "timeouts: {default: 1s, CreateContainer: 1900ms}")}, 2 * time.Second, []string{
			"plugins.yaml:1: warning: spec.timeouts: the timeout of 1.9s at CreateContainer is more than the 1.8s that remain of the runtime's 2s; write 1.8s or less, or raise the runtime's plugin_request_timeout",
		}},
		{"together", []string{plugin("a", "timeouts: {default: 100ms, CreateContainer: 1s}"), plugin("b", "timeouts: {default: 100ms, CreateContainer: 801ms}")}, 2 * time.Second, []string{
			"warning: spec.timeouts: at CreateContainer the timeouts of 2 plugins (a 1s, b 801ms) add up to 1.801s, more than the 1.8s that remain of the runtime's 2s; shorten them, or know that when all of these are slow on one container the last ones are cut short",
		}},
		{"parallel ones count once", []string{plugin("a", "parallel: true", "timeouts: {default: 1s}"), plugin("b", "parallel: true", "timeouts: {default: 1s}")}, 2 * time.Second, nil},
		{"parallel ones beside one that is not", []string{plugin("a", "parallel: true", "timeouts: {default: 1s}", "events: [CreateContainer]"), plugin("b", "timeouts: {default: 1s}")}, 2 * time.Second, []string{
			"warning: spec.timeouts: at CreateContainer the timeouts of 2 plugins (a 1s, b 1s) add up to 2s, more than the 1.8s that remain of the runtime's 2s; shorten them, or know that when all of these are slow on one container the last ones are cut short",
		}},
		{"other events", []string{plugin("a", "events: [StartContainer]", "timeouts: {default: 1s}"), plugin("b", "events: [CreateContainer]", "timeouts: {default: 1s}")}, 2 * time.Second, nil},
		{"queued events", []string{plugin("a", "events: [PostStartContainer]", "timeouts: {default: 5s}")}, 2 * time.Second, nil},
		{"queued events of two", []string{plugin("a", "events: [PostStartContainer]", "timeouts: {default: 5s}"), plugin("b", "events: [PostStartContainer]", "timeouts: {default: 5s}")}, 2 * time.Second, nil},
		{"a faster runtime", []string{plugin("a", "events: [RunPodSandbox, CreateContainer]", "timeouts: {default: 90ms}")}, 100 * time.Millisecond, []string{
			"plugins.yaml:1: warning: spec.timeouts: the timeout of 90ms at RunPodSandbox, CreateContainer is more than the 80ms that remain of the runtime's 100ms; write 80ms or less, or raise the runtime's plugin_request_timeout",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := parse(t, supervisorYAML, tt.plugins...)
			if len(c.Invalid) > 0 {
				t.Fatal(c.Problems)
			}
			var got []string
			for _, p := range c.TimeoutWarnings(tt.runtime) {
				got = append(got, p.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.runtime == policy.DefaultRuntimeTimeout && len(c.Problems) != len(tt.want) {
				t.Errorf("Parse reported %v", c.Problems)
			}
		})
	}
}
