package supervisor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// annotated is a pod that p selects, with annotations: pairs of key and value.
func annotated(id string, pairs ...string) *api.PodSandbox {
	p := pod(id, "x", "1")
	p.Annotations = map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Annotations[pairs[i]] = pairs[i+1]
	}
	return p
}

func requiring(list string) string {
	return "  requiredPlugins: [" + list + "]\n  teams:\n    t: {contact: \"#t\", allow: {failurePolicyFail: true, reject: true, includeCritical: true}}\n"
}

// TestARequiredPluginMustHaveSucceededForTheContainer: failing, lost, forbidden, opted out, not selected, unknown: all are refused with words for people.
func TestARequiredPluginMustHaveSucceededForTheContainer(t *testing.T) {
	t.Parallel()
	fails := func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return nil, errors.New("boom")
	}
	cfg := loadWith(t, requiring("must"), [2]string{"a-other", sel("x")}, [2]string{"must", sel("x") + "  permissions: {env: {names: [M]}}\n"})
	reply := fails
	f, s := serve(t, cfg, makers{
		"a-other": one(setEnv("A", "1")),
		"must":    one(&fakePlugin{create: func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) { return reply(r) }}),
	})
	for _, p := range f.s.Status().Plugins {
		if p.FailsClosed != (p.Name == "must") {
			t.Errorf("status of %s: containers are refused without it: %v", p.Name, p.FailsClosed)
		}
	}
	for _, tt := range []struct {
		name  string
		reply func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error)
		pod   *api.PodSandbox
		want  string
	}{
		{"success", setEnv("M", "1").create, annotated("ok"), ""},
		{"nothing to change is a success", func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) { return nil, nil }, annotated("nil"), ""},
		{"opted out", func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, &wire.NotInterestedError{Scope: wire.ScopeContainer}
		}, annotated("out"), "it is not interested in this container"},
		{"an error", fails, annotated("err"), `plugin "must" of team "t" (contact: #t) is required by requiredPlugins and did not do its work: error: boom`},
		{"a forbidden reply", setEnv("A", "2").create, annotated("forbidden"), "forbidden: it does what it was not granted: Env[A] by permissions.env.names"},
		{"a critical pod", fails, &api.PodSandbox{Id: "crit", Name: "dns", Namespace: "kube-system", Labels: map[string]string{"x": "1"}}, ""},
		{"not selected", fails, pod("plain"), "its selector does not select this container"},
		{"tolerated", fails, annotated("tol", policy.TolerateAnnotation, "true"), ""},
		{"tolerated for another container", fails, annotated("tol2", policy.TolerateAnnotation+"/container.other", "true"), "required by requiredPlugins"},
		{"not tolerated", fails, annotated("tol3", policy.TolerateAnnotation, "false"), "required by requiredPlugins"},
		{"tolerance that is neither", fails, annotated("tol4", policy.TolerateAnnotation, "perhaps"), "neither true nor false"},
	} {
		reply = tt.reply
		_, err := s.create(tt.pod, ctr(tt.pod.GetId(), "c-"+tt.pod.GetId()))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: refused: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: the error is %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestARequiredPluginThatIsNotHostedIsCountedByName as long as the configuration names it; names in annotations are anybody's.
func TestARequiredPluginThatIsNotHostedIsCountedByName(t *testing.T) {
	t.Parallel()
	const teams = "  teams: {t: {}}\n"
	const required = "  requiredPlugins: [ghost]\n"
	files := filesOf(t, loadWith(t, teams+required, [2]string{"p", sel("x")}))
	f, s := serveFiles(t, files, makers{"p": one(&fakePlugin{})})
	counted := func(plugin string) float64 {
		return f.counted("fallbacks_total", "plugin", plugin, "team", OtherSeries, "action", actionFail, "reason", ReasonRequired)
	}
	if _, err := s.create(pod("a"), ctr("a", "a")); err == nil {
		t.Error("a container without the required plugin is created")
	}
	if got := counted("ghost"); got != 1 {
		t.Errorf("%v refusals for the sake of ghost are counted", got)
	}
	text, err := os.ReadFile(files.src.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.src.ConfigFile, []byte(strings.Replace(string(text), required, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	f.reload()
	annotated := pod("b")
	annotated.Annotations = map[string]string{policy.RequiredAnnotation: "[ghost]"}
	if _, err := s.create(annotated, ctr("b", "b")); err == nil {
		t.Error("a container without the plugin that its annotation requires is created")
	}
	if got, other := counted("ghost"), counted(OtherSeries); got != 0 || other != 1 {
		t.Errorf("%v refusals for the sake of ghost are counted, which nothing but an annotation names, and %v of others", got, other)
	}
}

// TestPodAnnotationsRequirePlugins with the syntax of NRI's own annotation, keys for one container included; in that one, names that are not hosted are the runtime's business.
func TestPodAnnotationsRequirePlugins(t *testing.T) {
	t.Parallel()
	const ours, nris = policy.RequiredAnnotation, policy.NRIRequiredAnnotation
	f, s := serve(t, load(t, [2]string{"good", sel("x")}, [2]string{"bad", sel("x")}, [2]string{"elsewhere", sel("y")}), makers{
		"good": one(setEnv("A", "1")),
		"bad": one(&fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return nil, errors.New("boom")
		}}),
		"elsewhere": one(&fakePlugin{}),
	})
	for id, tt := range map[string]struct{ key, value, want string }{
		"good":        {ours, "[good]", ""},
		"goodlist":    {ours, "- good\n", ""},
		"indexed":     {nris, `["10-good"]`, ""},
		"bad":         {ours, "[good, bad]", `plugin "bad" of team "t" (contact: #t) is required by the annotation ` + ours},
		"nribad":      {nris, "[ bad ]", "is required by the annotation " + nris},
		"unselected":  {ours, "[elsewhere]", "its selector does not select this container"},
		"unknown":     {ours, "[ghost]", "no plugin of that name is hosted"},
		"nriunknown":  {nris, "[ghost]", ""},
		"mine":        {ours + "/container.c-mine", "[bad]", "is required by"},
		"others":      {ours + "/container.other", "[bad]", ""},
		"podwide":     {ours + "/pod", "[bad]", "is required by"},
		"nonsense":    {ours, "{", "is not a list of plugin names"},
		"nrinonsense": {nris, "{", ""},
		"huge":        {ours, "[" + strings.Repeat("a, ", 5000) + "a]", "more than the limit"},
	} {
		p := annotated("p-"+id, tt.key, tt.value)
		_, err := s.create(p, ctr(p.GetId(), id))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: the error is %v, want %q", id, err, tt.want)
		}
	}
	p := annotated("prec", ours, "[bad]", ours+"/container.c-prec", "[good]")
	if _, err := s.create(p, ctr("prec", "prec")); err != nil {
		t.Errorf("the key for the container does not come before the one for the pod: %v", err)
	}
	f.eventually("a record of a plugin that has no part in it", func() bool {
		return len(f.events(func(e Event) bool {
			x, ok := e.(Unmet)
			return ok && x.Plugin == "elsewhere" && x.Team == "t" && x.Container == "c-unselected"
		})) == 1
	})
	for plugin, want := range map[string]float64{"elsewhere": 1, OtherSeries: 3} {
		if got := f.counted("fallbacks_total", "plugin", plugin, "action", actionFail, "reason", ReasonRequired); got != want {
			t.Errorf("%v refusals for the sake of %s are counted, want %v", got, plugin, want)
		}
	}
	if _, ctrs := f.s.store.Len(); ctrs != 7 {
		t.Errorf("%d containers are known, and 7 were created: what was refused is not forgotten", ctrs)
	}
	f.s.Bypass(time.Minute, 0)
	if _, err := s.create(annotated("bypassed", ours, "[bad]"), ctr("bypassed", "bypassed")); err != nil {
		t.Errorf("a bypass is no no-op: %v", err)
	}
}
