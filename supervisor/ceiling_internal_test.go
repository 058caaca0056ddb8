package supervisor

import (
	"os"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// configure replaces the team's ceiling in the configuration file.
func (f *files) configure(team string) {
	f.t.Helper()
	text, err := os.ReadFile(f.src.ConfigFile)
	if err != nil {
		f.t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), "  teams:\n")
	if !ok {
		f.t.Fatalf("no teams in %s", text)
	}
	if err := os.WriteFile(f.src.ConfigFile, []byte(head+"  teams:\n    t: {"+team+"}\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// TestEachPartOfATeamsCeilingIsTodaysWhateverTheManifestSays: what is narrowed live holds from the next event on, for plugins that did not change and for what they had selected; what the
// manifest asks for beyond it takes the plugin out of service, with a line that names the part.
func TestEachPartOfATeamsCeilingIsTodaysWhateverTheManifestSays(t *testing.T) {
	t.Parallel()
	const rest = "  selector: {}\n"
	for name, tt := range map[string]struct {
		manifest string
		wide     string
		narrow   string
		env      string // what reaches the runtime under the narrow one
		problem  string // why the plugin is not in service any more
	}{
		"namespaces":                     {narrow: "namespaces: [elsewhere]"},
		"permissions":                    {wide: "permissions: {adjust: [Env, Mounts]}", narrow: "permissions: {adjust: [Mounts]}"},
		"permissions that are asked for": {manifest: "  permissions: {adjust: [Env]}\n", narrow: "permissions: {adjust: [Mounts]}", problem: "Env"},
		"a longer timeout":               {manifest: "  timeouts: {default: 2s}\n", narrow: "maxTimeout: 1s", problem: "timeouts.default"},
		"the default timeout":            {narrow: "maxTimeout: 400ms", env: "A=1"},
		"an index":                       {narrow: `indexRange: ["50", "59"]`, problem: "spec.index"},
		"a path":                         {narrow: `execPaths: ["/opt/t/**"]`, problem: "exec.path"},
		"a profile":                      {manifest: "  sandbox: {profile: none}\n", narrow: "minimumProfile: standard", problem: "sandbox.profile"},
		"resources":                      {manifest: "  resources: {limits: {memory: 1Gi}}\n", narrow: "resources: {limits: {memory: 512Mi}}", problem: "resources.limits.memory"},
		"failurePolicy Fail":             {manifest: "  failurePolicy: Fail\n", wide: "allow: {failurePolicyFail: true}", narrow: "allow: {failurePolicyFail: false}", problem: "failurePolicy"},
		"rejecting":                      {manifest: "  permissions: {reject: true}\n", wide: "allow: {reject: true}", narrow: "allow: {reject: false}", problem: "permissions.reject"},
		"critical pods":                  {manifest: "  includeCritical: true\n", wide: "allow: {includeCritical: true}", narrow: "allow: {includeCritical: false}", problem: "includeCritical"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := onDisk(t, [2]string{"p", rest + tt.manifest})
			fs.configure(tt.wide)
			cfg, err := policy.Load(fs.src)
			if err != nil || len(cfg.Plugins) != 1 {
				t.Fatal(err, cfg)
			}
			fs.cfg = cfg
			f, s := serveFiles(t, fs, makers{"p": one(setEnv("A", "1"))})
			p := pod("p")
			// The author of the pod says what he likes.
			p.Labels = map[string]string{"kubernetes.io/metadata.name": "elsewhere", "team": "t"}
			p.Annotations = map[string]string{"nri-supervisor.dev/team": "t", "namespace": "elsewhere"}
			spoofing := func(id string) *api.Container {
				c := ctr("p", id)
				c.Env = []string{"NAMESPACE=elsewhere", "POD_NAMESPACE=elsewhere"}
				c.Labels = map[string]string{"io.kubernetes.pod.namespace": "elsewhere"}
				return c
			}
			rpl, err := s.create(p, spoofing("before"))
			if err != nil || envOf(rpl) != "A=1" {
				t.Fatalf("the plugin does not work to begin with: %v, %v", rpl, err)
			}
			fs.configure(tt.narrow)
			report := f.reload()
			rpl, err = s.create(p, spoofing("after"))
			if err != nil || envOf(rpl) != tt.env {
				t.Errorf("the runtime gets %v, %v", rpl, err)
			}
			inService := f.s.plan().byName["p"] != nil
			switch all := strings.Join(report.Problems, "; "); {
			case tt.problem == "" && (!inService || all != ""):
				t.Errorf("in service: %v, problems %q", inService, all)
			case tt.problem != "" && (inService || !strings.Contains(all, tt.problem)):
				t.Errorf("in service: %v, problems %q", inService, all)
			}
			if failed, _ := f.l.inc("p").h.Update(t.Context(), []*api.ContainerUpdate{shares("before", 1)}); len(failed) != 1 && (name == "namespaces" || name == "permissions" || !inService) {
				t.Error("the plugin still updates what it had selected")
			}
		})
	}
}

// TestStatusShowsTheCombinationsThatCannotWork, as check does.
func TestStatusShowsTheCombinationsThatCannotWork(t *testing.T) {
	t.Parallel()
	cfg := loadWith(t, requiring("p, ghost"), [2]string{"p", sel("x")})
	f := begin(t, cfg, nil, state.Loaded{}, makers{"p": one(&fakePlugin{})})
	got := strings.Join(f.s.Status().Config.Problems, "\n")
	for _, want := range []string{`no plugin is named "ghost"`, "is required for every container but does not select all of them"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
