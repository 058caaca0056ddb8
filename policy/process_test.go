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
		same, confined       bool
	}{
		"nothing":                   {supervisorYAML, manifest, true, true},
		"another timeout":           {supervisorYAML, manifest + "\ntimeouts: {default: 100ms}", true, true},
		"another selector":          {supervisorYAML, manifest + "\nselector: {namespaces: {include: [a]}}", true, true},
		"a team that is never root": {strict, manifest, false, false},
		"files of others trusted":   {supervisorYAML + "  fileTrust: \"off\"\n", manifest, false, false},
		"other folders":             {supervisorYAML + "  pluginDirs: [/srv/plugins]\n", manifest, false, false},
		"another limit":             {supervisorYAML, strings.Replace(manifest, "1Gi", "2Gi", 1), false, false},
		"a written network":         {supervisorYAML, strings.Replace(manifest, "profile: strict,", "profile: strict, network: host,", 1), false, false},
		"another executable":        {supervisorYAML, manifest + "\nexec: {path: /opt/y}", false, true},
		"another index":             {supervisorYAML, manifest + "\nindex: \"21\"", false, true},
	} {
		is := load(tt.supervisor, tt.manifest)
		if got := policy.SameProcess(was, is); got != tt.same {
			t.Errorf("%s: the same process can go on: %v, want %v", name, got, tt.same)
		}
		if got := policy.SameConfinement(was, is); got != tt.confined {
			t.Errorf("%s: it is confined as before: %v, want %v", name, got, tt.confined)
		}
	}
}
