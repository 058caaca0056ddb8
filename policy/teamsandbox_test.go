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
    sealed: {minimumProfile: strict, resources: {limits: {nproc: 100}}}
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
		{"a runtime's folder", "boxed", "sandbox: {readWritePaths: [/run/containerd]}", "spec.sandbox.readWritePaths: \"/run/containerd\" shows a socket that the profile standard hides"},
		{"a runtime's socket, to be read", "strict", "sandbox: {readOnlyPaths: [/var/run/nri/nri.sock]}", "spec.sandbox.readOnlyPaths: \"/var/run/nri/nri.sock\" shows a socket that the profile strict hides"},
		{"the supervisor's own folder", "boxed", "sandbox: {readOnlyPaths: [/run/nri-supervisor/plugins]}", "spec.sandbox.readOnlyPaths: \"/run/nri-supervisor/plugins\" shows a socket"},
		{"a folder above runtimes' folders", "boxed", "sandbox: {readWritePaths: [/var/run]}", "spec.sandbox.readWritePaths: \"/var/run\" shows a socket that the profile standard hides"},
		{"a folder above them, to be read", "boxed", "sandbox: {readOnlyPaths: [/run, /var]}", ""},
		{"a folder beside", "boxed", "sandbox: {readWritePaths: [/run/cdi, /run/containerd-data]}", ""},
		{"a runtime's folder, without a ceiling", "open", "sandbox: {readWritePaths: [/run/containerd]}", ""},
		{"root", "strict", "sandbox: {user: root}", "spec.sandbox.user: it leaves less"},
		{"root by number", "strict", "sandbox: {user: \"0\"}", "spec.sandbox.user: it leaves less"},
		{"root by two zeros", "strict", "sandbox: {user: \"00\"}", "spec.sandbox.user: the number \"00\" has zeros in front"},
		{"root by two zeros, unquoted", "strict", "sandbox: {user: 00}", "spec.sandbox.user: "},
		{"root in hexadecimal digits", "strict", "sandbox: {user: 0x0}", "spec.sandbox.user: "},
		{"root with a sign", "strict", "sandbox: {user: \"+0\"}", "spec.sandbox.user: "},
		{"root after a space", "strict", "sandbox: {user: \" 0\"}", "spec.sandbox.user: "},
		{"root's group by two zeros", "strict", "sandbox: {group: \"00\"}", "spec.sandbox.group: the number \"00\" has zeros in front"},
		{"a further group", "strict", "sandbox: {supplementalGroups: [\"1000\"]}", "spec.sandbox.supplementalGroups: it leaves less"},
		{"zeros in front, without a ceiling", "open", "sandbox: {user: \"01000\"}", "write 1000"},
		{"a group alone", "strict", "sandbox: {group: \"1000\"}", ""},
		{"paths under the profile that the team raises", "strict", "sandbox: {readOnlyPaths: [/opt/data]}", ""},
		{"processes with a group alone", "sealed", "sandbox: {group: \"1000\"}\nresources: {limits: {nproc: 50}}", ""},
		{"processes under the profile that the team raises", "sealed", "resources: {limits: {nproc: 50}}", ""},
		{"processes of root by two zeros", "open", "sandbox: {user: \"00\"}\nresources: {limits: {nproc: 50}}", "spec.sandbox.user: the number"},
		{"processes of root with a group", "open", "sandbox: {group: \"1000\"}\nresources: {limits: {nproc: 50}}", "spec.resources.limits.nproc: the kernel does not bound"},
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
			sealed := tt.team == "strict" || tt.team == "sealed"
			if sealed && p.Spec.Sandbox.Profile != policy.ProfileStrict || p.NeverRoot != sealed {
				t.Errorf("the profile is %s, never root: %v", p.Spec.Sandbox.Profile, p.NeverRoot)
			}
			if ceiling := sealed || tt.team == "boxed"; p.ProfileWritten != ceiling {
				t.Errorf("each part of the profile has to be there: %t", p.ProfileWritten)
			}
			if l := p.Spec.Resources.Limits; tt.team == "boxed" && (l.Memory.Value() > 128<<20 || l.PIDs.Value() != 64 || l.MemLock.Value() != 64<<10 || l.Stack.Value() != 8<<20) {
				t.Errorf("the limits are %v, %v, %v and %v", l.Memory, l.PIDs, l.MemLock, l.Stack)
			}
		})
	}
}

func TestATeamsMinimumProfileAppliesBeforeWhatNeedsAProfileIsJudged(t *testing.T) {
	t.Parallel()
	supervisor := supervisorYAML + `    strict: {minimumProfile: strict}
  defaults: {sandbox: {profile: none}}
`
	const paths = "sandbox: {readOnlyPaths: [/opt/data]}"
	if p := valid(t, parse(t, supervisor, plugin("p", "team: strict", paths)), "p"); p.Spec.Sandbox.Profile != policy.ProfileStrict {
		t.Errorf("the profile is %s", p.Spec.Sandbox.Profile)
	}
	const want = "spec.sandbox.readOnlyPaths: it changes what a profile allows"
	if c := parse(t, supervisor, plugin("p", paths)); !strings.Contains(c.Problems.Error(), want) {
		t.Errorf("%v, want %q", c.Problems, want)
	}
}
