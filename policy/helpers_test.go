package policy_test

import (
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// supervisorYAML declares a team without a ceiling, one with a ceiling on namespaces, and one that may ask for everything.
const supervisorYAML = `apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  teams:
    open: {contact: "#open", allow: {failurePolicyFail: true, reject: true, includeCritical: true, attach: true}}
    ml: {contact: "#ml", namespaces: ["ml-*"]}
    root: {permissions: {adjust: ["*"]}}
`

// plugin renders a Plugin document. lines are fields of the spec; team, index, exec and selector
// are filled in unless given.
func plugin(name string, lines ...string) string {
	body := strings.Join(lines, "\n")
	for _, field := range []string{"team: open", `index: "20"`, "exec: {path: /opt/x}", "selector: {}"} {
		key, _, _ := strings.Cut(field, ":")
		if !strings.HasPrefix(body, key+":") && !strings.Contains(body, "\n"+key+":") {
			body += "\n" + field
		}
	}
	body = strings.ReplaceAll(strings.TrimPrefix(body, "\n"), "\n", "\n  ")
	return "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: " + name + "}\nspec:\n  " + body + "\n"
}

// parse parses plugin documents under the supervisor document.
func parse(tb testing.TB, supervisor string, plugins ...string) *policy.Config {
	tb.Helper()
	c, err := policy.Parse([]policy.SourceFile{
		{Path: "config.yaml", Data: []byte(supervisor)},
		{Path: "plugins.yaml", Data: []byte(strings.Join(plugins, "---\n"))},
	}, policy.LoadOptions{ConfigFile: "config.yaml"})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// one parses a single plugin, which must be valid.
func one(tb testing.TB, lines ...string) *policy.Plugin {
	tb.Helper()
	return valid(tb, parse(tb, supervisorYAML, plugin("p", lines...)), "p")
}

// valid returns the plugin, which must be valid.
func valid(tb testing.TB, c *policy.Config, name string) *policy.Plugin {
	tb.Helper()
	p := c.Plugin(name)
	if p == nil {
		tb.Fatalf("no valid plugin %q:\n%v", name, c.Problems)
	}
	return p
}
