package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// conditions renders a selector with the expressions as conditions c0, c1, ….
func conditions(expressions ...string) string {
	var b strings.Builder
	b.WriteString("selector: {matchConditions: [")
	for i, e := range expressions {
		fmt.Fprintf(&b, "{name: c%d, expression: %q},", i, e)
	}
	return b.String() + "]}"
}

func TestTheTruthTableOfMatchConditions(t *testing.T) {
	t.Parallel()
	const yes, no, fails = "true", "false", `pod.labels["missing"] == "x"`
	for _, tt := range []struct {
		name        string
		expressions []string
		selected    bool
		err         bool
		detail      string
	}{
		{"no condition", nil, true, false, ""},
		{"true", []string{yes}, true, false, ""},
		{"false", []string{no}, false, false, "c0"},
		{"error", []string{fails}, false, true, "c0"},
		{"true and true", []string{yes, yes}, true, false, ""},
		{"true and false", []string{yes, no}, false, false, "c1"},
		{"true and error", []string{yes, fails}, false, true, "c1"},
		{"error and true", []string{fails, yes}, false, true, "c0"},
		{"error and false is no match", []string{fails, no}, false, false, "c1"},
		{"false and error is no match", []string{no, fails}, false, false, "c0"},
		{"error and error names the first", []string{fails, fails}, false, true, "c0"},
		{"error, true, false", []string{fails, yes, no}, false, false, "c2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := one(t, conditions(tt.expressions...))
			for _, d := range []policy.Decision{p.MatchPod(&api.PodSandbox{}), p.MatchContainer(&api.PodSandbox{}, &api.Container{})} {
				if d.Selected != tt.selected || (d.Err != nil) != tt.err || d.Detail != tt.detail {
					t.Errorf("got %+v", d)
				}
				if d.Err != nil && !strings.HasPrefix(d.Err.Error(), `evaluate match condition "`+tt.detail+`": `) {
					t.Errorf("err = %v", d.Err)
				}
			}
		})
	}
}

func TestConditionsSeeNRIsOwnMessages(t *testing.T) {
	t.Parallel()
	pod := &api.PodSandbox{Id: "p1", Name: "n", Namespace: "ns", RuntimeHandler: "h", Labels: map[string]string{"a": "b"}, Ips: []string{"10.0.0.1"}}
	c := &api.Container{
		Name: "main", Args: []string{"python", "x.py"}, Env: []string{"A=1"},
		Mounts: []*api.Mount{{Destination: "/data", Type: "bind"}},
		Linux:  &api.LinuxContainer{Resources: &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(int64(1024))}}},
	}
	for expression, want := range map[string]bool{
		`pod.runtime_handler == "h" && pod.ips.size() == 1`:         true,
		`pod.labels[?"accelerator"].orValue("") == "gpu"`:           false,
		`pod.labels[?"a"].orValue("") == "b"`:                       true,
		`"a" in pod.labels && pod.labels["a"] == "b"`:               true,
		`container.args.exists(a, a.endsWith(".py"))`:               true,
		`container.mounts.exists(m, m.destination == "/data")`:      true,
		`container.linux.resources.memory.limit.value > 1000`:       true,
		`has(container.linux.resources.cpu)`:                        false,
		`container.env.exists(e, e.matches("^A="))`:                 true,
		`pod.namespace.matches("^ml-")`:                             false,
		`pod.labels["missing"] == "x" || true`:                      true,
		`pod.labels["missing"] == "x" && false`:                     false,
		`container.rlimits.all(r, r.soft < 10u)`:                    true,
		`container.state == 0`:                                      true,
		`container.pod_sandbox_id == "" && pod.id == "p1"`:          true,
		`[1, 2].all(container, container > 0) && pod.name == "n"`:   true,
		`pod.?labels["a"].orValue("") == "b"`:                       true,
		`container.image.name == "" && container.user.uid == 0u`:    true,
		`duration("1s") < duration("2s") && size(pod.labels) == 1`:  true,
		`pod.annotations.all(k, k.startsWith("nothing to check"))`:  true,
		`container.hooks.prestart.size() == 0 && container.pid==0u`: true,
	} {
		p := one(t, conditions(expression))
		if d := p.MatchContainer(pod, c); d.Err != nil || d.Selected != want {
			t.Errorf("%s: %+v, want %v", expression, d, want)
		}
	}
}

func TestAConditionThatMentionsContainerAppliesToContainerEventsOnly(t *testing.T) {
	t.Parallel()
	for expression, onPods := range map[string]bool{
		`pod.name == "x"`:                                 true,
		`pod.name == "container"`:                         true,
		`container.name == "x"`:                           false,
		`pod.name == "x" && container.name == "y"`:        false,
		`pod.ips.exists(i, i == container.name)`:          false,
		`pod.name == "x" ? true : has(container.linux)`:   false,
		`pod.labels[?container.name].orValue("") == "y"`:  false,
		`[container.name].all(n, n == "y")`:               false,
		`{"k": container.name}["k"] == "y"`:               false,
		`pod.labels == {"container": "x", "name": "yes"}`: true,
	} {
		p := one(t, conditions(expression))
		if refused := !p.MatchPod(&api.PodSandbox{Name: "z"}).Selected; refused != onPods {
			t.Errorf("%s: looked at on pod events: %v, want %v", expression, refused, onPods)
		}
	}
}

func TestTheCostLimitStopsAnExpressionAndIsAnError(t *testing.T) {
	t.Parallel()
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("10.0.0.%d", i)
	}
	pod := &api.PodSandbox{Ips: many}
	p := one(t, conditions(`pod.ips.all(a, pod.ips.all(b, a != b || a == b))`))
	d := p.MatchPod(pod)
	if d.Selected || d.Err == nil || !strings.Contains(d.Err.Error(), "costs more than the limit of 10000") {
		t.Errorf("%+v", d)
	}
}

func TestTheCostLimitOfAPluginBoundsAllItsConditionsTogether(t *testing.T) {
	t.Parallel()
	ips := make([]string, 1000)
	pod := &api.PodSandbox{Ips: ips}
	// Each costs some 5,000 units, so that the eleventh or so exceeds 50,000.
	dear := `pod.ips.all(a, a == "")`
	few, many := make([]string, 4), make([]string, 20)
	for i := range few {
		few[i] = dear
	}
	for i := range many {
		many[i] = dear
	}
	if d := one(t, conditions(few...)).MatchPod(pod); !d.Selected {
		t.Errorf("few: %+v", d)
	}
	d := one(t, conditions(many...)).MatchPod(pod)
	if d.Selected || d.Err == nil || !strings.Contains(d.Err.Error(), "together cost more than the limit of 50000") {
		t.Errorf("many: %+v", d)
	}
}

func TestTooManyOrTooLongConditionsAreRefused(t *testing.T) {
	t.Parallel()
	many := make([]string, 65)
	for i := range many {
		many[i] = "true"
	}
	for name, tt := range map[string]struct{ selector, want string }{
		"many": {conditions(many...), "65 conditions are more than the limit of 64"},
		"long": {conditions("true || " + strings.Repeat("true || ", 3000) + "true"), "more than the limit of 16384"},
		"deep": {conditions(strings.Repeat("(", 400) + "true" + strings.Repeat(")", 400)), "bad expression"},
	} {
		c := parse(t, supervisorYAML, plugin("p", tt.selector))
		if len(c.Invalid) != 1 || !strings.Contains(c.Problems.Error(), tt.want) {
			t.Errorf("%s: %v", name, c.Problems)
		}
	}
}

func TestAPatternFromThePodThatIsNoRegularExpressionIsAnError(t *testing.T) {
	t.Parallel()
	p := one(t, conditions(`pod.name.matches(pod.annotations["pattern"])`))
	d := p.MatchPod(&api.PodSandbox{Annotations: map[string]string{"pattern": "("}})
	if d.Selected || d.Err == nil {
		t.Errorf("%+v", d)
	}
}
