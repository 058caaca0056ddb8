package imports_test

import (
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours are edges between our own packages that must not exist, not even through others of ours.
var ours = []struct{ from, to, reason string }{
	{"policy", "supervisor", "policy gives verdicts on what it is shown and knows no state"},
	{"policy", "isolation", "policy knows no process"},
	{"policy", "breaker", "policy knows no history"},
	{"policy", "plugins", "a manifest is judged without the plugin"},
	{"filetrust", "policy", "who can change a file is told, whatever it is for"},
	{"filetrust", "isolation", "who can change a file is told, whatever it is for"},
	{"filelook", "policy", "it is looked at, whatever it is for"},
	{"filelook", "isolation", "it is looked at, whatever it is for"},
	{"breaker", "supervisor", "the guard is below the actor that uses it"},
	{"breaker", "isolation", "the guard decides about calls, whoever makes them"},
	{"breaker", "policy", "the guard is configured in its own types"},
	{"breaker", "plugins", "the guard knows outcomes, not messages"},
	{"isolation", "supervisor", "isolation is reached through an interface that supervisor declares"},
	{"isolation", "policy", "isolation is told what to do in its own types"},
	{"isolation", "breaker", "an incarnation does not know why it is called"},
	{"supervisor", "isolation", "processes are reached through the Launcher interface, so that the supervisor is tested without any"},
	{"supervisor/plugin", "supervisor/store", "the state machine of one plugin knows nothing of pods"},
	{"supervisor/store", "policy", "the store keeps decisions and takes none"},
	{"supervisor/journal", "policy", "decisions are told in their own words, which files keep for years"},
	{"supervisor/merge", "policy", "the merge engine is given replies that were checked"},
	{"doctor", "supervisor", "a diagnosis is made of what it is told, so that it can be tested without a running supervisor"},
	{"doctor", "isolation", "a diagnosis starts nothing and changes nothing"},
	{"plugins", "supervisor", "a plugin never links the supervisor"},
	{"plugins", "isolation", "a plugin never links the supervisor"},
	{"plugins", "policy", "a plugin never links the supervisor"},
	{"plugins", "breaker", "a plugin never links the supervisor"},
	{"test", "supervisor", "a black box uses the binary"},
	{"test", "isolation", "a black box uses the binary"},
	{"test", "policy", "a black box uses the binary"},
	{"test", "breaker", "a black box uses the binary"},
}

// others says for packages that are not ours who alone may import them.
var others = []struct {
	pkg    string
	only   []string
	reason string
}{
	{"os/exec", []string{"isolation", "cmd", "test", "plugins/chaos"}, "processes are started in one place, with everything that place takes care of; the chaos plugin misbehaves on purpose"},
	{"github.com/hashicorp/go-plugin", []string{"isolation", "plugins"}, "its types stay behind Instance and the SDK"},
	{"github.com/sony/gobreaker", []string{"breaker"}, "its traps (callbacks under its mutex, a half-open that never expires) are handled in one place"},
	{"github.com/containerd/nri/pkg/adaptation", []string{"supervisor/merge", "cmd", "test"}, "its mutations and process-wide timeouts are handled in one place"},
	{"github.com/google/cel-go", []string{"policy"}, "cost limits and type checks cannot be forgotten elsewhere"},
	{"k8s.io/apimachinery", []string{"policy"}, "label selectors are evaluated in one place"},
	{"go.yaml.in/yaml/v3", []string{"policy"}, "manifests are decoded strictly, in one place"},
	{"github.com/BurntSushi/toml", []string{"doctor"}, "only the runtimes' own configuration is written in it"},
	{"go.opentelemetry.io/otel", []string{"supervisor/tracing", "test"}, "the supervisor names what it does in its own words; one package translates and exports"},
	{"github.com/containerd/otelttrpc", []string{"supervisor/tracing", "test"}, "as above"},
	{"go.uber.org/zap", []string{"cmd"}, "libraries emit events; one file turns them into lines"},
	{"github.com/spf13/cobra", []string{"cmd"}, "flags and arguments end at the command line"},
}

func TestOurPackagesImportEachOtherOnlyDownwards(t *testing.T) {
	t.Parallel()
	g := graphOf(sources(t))
	for _, rule := range ours {
		t.Run(rule.from+" without "+rule.to, func(t *testing.T) {
			t.Parallel()
			folders := g.under(rule.from)
			if len(folders) == 0 || len(g.under(rule.to)) == 0 {
				t.Fatalf("the rule names %q and %q, and one of them holds no package any more: mend or remove the rule", rule.from, rule.to)
			}
			for _, dir := range folders {
				bad := func(p string) bool { return within(p, module+"/"+rule.to) }
				if chain := g.chain(dir, bad); chain != nil {
					t.Errorf("%s: %s must not import %s: %s", strings.Join(chain, " → "), rule.from, rule.to, rule.reason)
				}
			}
		})
	}
}

func TestForeignPackagesAreImportedWhereTheyBelong(t *testing.T) {
	t.Parallel()
	g := graphOf(sources(t))
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatalf("read go.mod: %v", err)
	}
	for _, rule := range others {
		t.Run(rule.pkg, func(t *testing.T) {
			t.Parallel()
			if !exists(rule.pkg, string(gomod)) {
				t.Fatalf("%q is neither in the standard library nor in go.mod any more: mend or remove the rule", rule.pkg)
			}
			used := false
			for dir, imports := range g {
				if !slices.ContainsFunc(imports, func(p string) bool { return within(p, rule.pkg) }) {
					continue
				}
				if slices.ContainsFunc(rule.only, func(folder string) bool { return within(dir, folder) }) {
					used = true
					continue
				}
				t.Errorf("%s imports %s, which is for %s only: %s", dir, rule.pkg, strings.Join(rule.only, ", "), rule.reason)
			}
			if !used {
				t.Errorf("none of %s imports %s any more: mend or remove the rule", strings.Join(rule.only, ", "), rule.pkg)
			}
			for _, folder := range rule.only {
				if len(g.under(folder)) == 0 {
					t.Errorf("%q holds no package any more: mend or remove the rule", folder)
				}
			}
		})
	}
}

// exists reports whether the package is one of the standard library or of a required module.
func exists(pkg, gomod string) bool {
	if first, _, _ := strings.Cut(pkg, "/"); !strings.Contains(first, ".") {
		_, err := build.Import(pkg, "", build.FindOnly)
		return err == nil
	}
	for line := range strings.Lines(gomod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && (within(pkg, fields[0]) || strings.HasPrefix(fields[0], pkg+"/v")) {
			return true
		}
	}
	return false
}
