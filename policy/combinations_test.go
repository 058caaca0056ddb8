package policy_test

import (
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// TestCombinationsThatCannotWorkAreWarnings: with each, containers would be refused that nobody meant, or nothing would be refused that somebody meant.
func TestCombinationsThatCannotWorkAreWarnings(t *testing.T) {
	t.Parallel()
	const all = "  selector: {}\n"
	for name, tt := range map[string]struct {
		supervisor string
		plugins    map[string]string
		want       []string
	}{
		"nothing is wrong":                         {"  requiredPlugins: [p]\n", map[string]string{"p": all}, nil},
		"a required plugin that nobody hosts":      {"  requiredPlugins: [ghost]\n", nil, []string{`no plugin is named "ghost", so no container but those of critical pods will be created`}},
		"one whose manifest is invalid":            {"  requiredPlugins: [p]\n", map[string]string{"p": all + "  colour: blue\n"}, []string{`the manifest of the required plugin "p" is invalid`}},
		"one that does not select everything":      {"  requiredPlugins: [p]\n", map[string]string{"p": "  selector: {namespaces: {include: [a]}}\n"}, []string{"is required for every container but does not select all of them"}},
		"one whose team may not see everything":    {"  requiredPlugins: [p]\n", map[string]string{"p": "  selector: {}\n  #team: narrow\n"}, []string{"is required for every container but does not select all of them"}},
		"one that never hears of a creation":       {"  requiredPlugins: [p]\n", map[string]string{"p": all + "  events: [StopContainer]\n"}, []string{"never hears of a creation: all will be refused"}},
		"no pod is critical":                       {"  requiredPlugins: [p]\n  critical: {namespaces: [], staticPods: false}\n", map[string]string{"p": all}, []string{"not even what it needs itself can start"}},
		"one that includes critical pods":          {"  requiredPlugins: [p]\n", map[string]string{"p": all + "  includeCritical: true\n"}, []string{"no container at all is created, static pods included"}},
		"a failurePolicy that never acts":          {"", map[string]string{"p": all + "  failurePolicy: Fail\n  events: [StopContainer]\n"}, []string{"failurePolicy Fail never acts"}},
		"a failurePolicy beside a share of time":   {"", map[string]string{"p": all + "  failurePolicy: Fail\n  laneShare: {ratio: 0.5}\n"}, []string{"whenever the plugin has used up its share"}},
		"a failurePolicy beside a share of a team": {"", map[string]string{"p": all + "  failurePolicy: Fail\n  #team: shared\n"}, []string{"whenever the team has used up its share"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const allow = "allow: {failurePolicyFail: true, includeCritical: true}"
			files := []policy.SourceFile{{Path: "c", Data: []byte("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  teams: {wide: {" + allow + "}, narrow: {namespaces: [a], " + allow +
				"}, shared: {laneShare: {ratio: 0.5}, " + allow + "}}\n" + tt.supervisor)}}
			for plugin, text := range tt.plugins {
				team := "wide"
				if _, other, given := strings.Cut(text, "#team: "); given {
					team = strings.TrimSpace(other)
				}
				files = append(files, policy.SourceFile{Path: plugin, Data: []byte("apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: " + plugin + "}\nspec:\n  team: " + team +
					"\n  index: \"10\"\n  exec: {path: /x}\n" + text)})
			}
			cfg, err := policy.Parse(files, policy.LoadOptions{ConfigFile: "c"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range cfg.Problems {
				if p.Severity == policy.Warning {
					got = append(got, p.Error())
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%d warnings, want %d: %q", len(got), len(tt.want), got)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("warning %q, want %q", got[i], want)
				}
			}
		})
	}
}
