package policy_test

import (
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestATeamsMinimumProfileAndResourcesBoundEveryPluginWhateverItsManifest(t *testing.T) {
	t.Parallel()
	supervisor := supervisorYAML + `    boxed: {minimumProfile: standard, resources: {limits: {memory: 128Mi, pids: 64, memlock: 64Ki, stack: 8Mi}}, allow: {attach: true}}
    strict: {minimumProfile: strict}
    counted: {resources: {limits: {nproc: 100}}}
`
	for _, tt := range []struct{ name, team, lines, want string }{
		{"nothing written", "boxed", "", ""},
		{"within", "boxed", "resources: {limits: {memory: 64Mi, cpu: 2}}\nsandbox: {profile: strict}", ""},
		{"a weaker profile", "boxed", "sandbox: {profile: none}", "spec.sandbox.profile: none is weaker than the minimum of team boxed, standard"},
		{"more memory", "boxed", "resources: {limits: {memory: 1Gi}}", "spec.resources.limits.memory: 1Gi is more than the 128Mi of team boxed"},
		{"more processes", "boxed", "resources: {limits: {pids: 65}}", "spec.resources.limits.pids: 65 is more than the 64 of team boxed"},
		{"more locked memory", "boxed", "resources: {limits: {memlock: 65Ki}}", "spec.resources.limits.memlock: 65Ki is more than the 64Ki of team boxed"},
		{"a bound that root escapes", "counted", "", "spec.sandbox.user: team counted bounds nproc, and the kernel does not bound the processes of root"},
		{"a bound that another user does not escape", "counted", "sandbox: {user: nobody}", ""},
		{"a profile with a hole", "boxed", "sandbox: {seccomp: unconfined}", "spec.sandbox.seccomp: it leaves less confinement than standard"},
		{"a capability", "boxed", "sandbox: {capabilities: {add: [SYS_ADMIN]}}", "spec.sandbox.capabilities.add: it leaves less"},
		{"root", "strict", "sandbox: {user: root}", "spec.sandbox.user: it leaves less"},
		{"the host's network", "strict", "sandbox: {network: host}", "spec.sandbox.network: it leaves less"},
		{"raised to the minimum", "strict", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := parse(t, supervisor, plugin("p", append([]string{"team: " + tt.team}, strings.Split(tt.lines, "\n")...)...))
			if tt.want != "" {
				if c.Plugin("p") != nil || !strings.Contains(c.Problems.Error(), tt.want) {
					t.Errorf("%v, want %q", c.Problems, tt.want)
				}
				return
			}
			p := valid(t, c, "p")
			if tt.team == "strict" && p.Spec.Sandbox.Profile != policy.ProfileStrict {
				t.Errorf("the profile is %s", p.Spec.Sandbox.Profile)
			}
			if l := p.Spec.Resources.Limits; tt.team == "boxed" && (l.Memory.Value() > 128<<20 || l.PIDs.Value() != 64 || l.MemLock.Value() != 64<<10 || l.Stack.Value() != 8<<20) {
				t.Errorf("the limits are %v, %v, %v and %v", l.Memory, l.PIDs, l.MemLock, l.Stack)
			}
		})
	}
}
