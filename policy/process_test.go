package policy_test

import (
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestAnotherProcessIsNeededWhereTheOldOneHasAnotherConfinement(t *testing.T) {
	t.Parallel()
	const manifest = "team: open\nsandbox: {profile: strict, user: somebody}\nresources: {limits: {memory: 1Gi}}"
	load := func(supervisor, body string) *policy.Plugin {
		return valid(t, parse(t, supervisor, plugin("p", body)), "p")
	}
	was := load(supervisorYAML, manifest)
	strict := strings.Replace(supervisorYAML, `{contact: "#open",`, `{contact: "#open", minimumProfile: strict,`, 1)
	for name, tt := range map[string]struct {
		supervisor, manifest string
		same                 bool
	}{
		"nothing":                   {supervisorYAML, manifest, true},
		"another timeout":           {supervisorYAML, manifest + "\ntimeouts: {default: 100ms}", true},
		"another selector":          {supervisorYAML, manifest + "\nselector: {namespaces: {include: [a]}}", true},
		"a team that is never root": {strict, manifest, false},
		"files of others trusted":   {supervisorYAML + "  fileTrust: \"off\"\n", manifest, false},
		"other folders":             {supervisorYAML + "  pluginDirs: [/srv/plugins]\n", manifest, false},
		"another limit":             {supervisorYAML, strings.Replace(manifest, "1Gi", "2Gi", 1), false},
		"a written network":         {supervisorYAML, strings.Replace(manifest, "profile: strict,", "profile: strict, network: host,", 1), false},
		"another executable":        {supervisorYAML, manifest + "\nexec: {path: /opt/y}", false},
		"another index":             {supervisorYAML, manifest + "\nindex: \"21\"", false},
	} {
		if got := policy.SameProcess(was, load(tt.supervisor, tt.manifest)); got != tt.same {
			t.Errorf("%s: the same process can go on: %v, want %v", name, got, tt.same)
		}
	}
}
