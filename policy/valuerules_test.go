package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// denials renders what the plugin may not do.
func denials(p *policy.Plugin, r policy.Reply) string {
	var out []string
	for _, d := range p.Denied(r) {
		out = append(out, d.String())
	}
	return strings.Join(out, "; ")
}

func adjusting(a *api.ContainerAdjustment) policy.Reply { return policy.Reply{Adjust: a} }

func withEnv(keys ...string) policy.Reply {
	a := &api.ContainerAdjustment{}
	for _, k := range keys {
		a.Env = append(a.Env, &api.KeyValue{Key: k, Value: "secret"})
	}
	return adjusting(a)
}

func withMount(m *api.Mount) policy.Reply {
	return adjusting(&api.ContainerAdjustment{Mounts: []*api.Mount{m}})
}

func bind(source, destination string) policy.Reply {
	return withMount(&api.Mount{Source: source, Destination: destination, Type: "bind", Options: []string{"rbind", "ro"}})
}

func withDevices(l *api.LinuxContainerAdjustment) policy.Reply {
	return adjusting(&api.ContainerAdjustment{Linux: l})
}

func TestValueRulesForEnvMountsAnnotationsAndDevices(t *testing.T) {
	t.Parallel()
	const mounts = "permissions: {mounts: {sources: [/opt/ml/**, /dev/shm, tmpfs], destinations: [/ml/*, /opt/ml/**]}}"
	for _, tt := range []struct {
		name, permissions string
		reply             policy.Reply
		want              string
	}{
		{"a variable by glob", "permissions: {env: {names: [GPU_*, HOME]}}", withEnv("GPU_COUNT", "HOME"), ""},
		{"another variable", "permissions: {env: {names: [GPU_*, HOME]}}", withEnv("GPU_COUNT", "LD_PRELOAD"), "Env[LD_PRELOAD] by permissions.env.names"},
		{"the removal of another variable", "permissions: {env: {names: [GPU_*]}}", withEnv("-PATH"), "Env[PATH] by permissions.env.names"},
		{"a longer name", "permissions: {env: {names: [HOME]}}", withEnv("HOMES"), "Env[HOMES] by permissions.env.names"},
		{"no variable at all", "permissions: {env: {names: []}}", withEnv("A"), "Env[A] by permissions.env.names"},
		{"a field that is not granted at all comes first", "permissions: {adjust: [Mounts], env: {names: [A]}}", withEnv("A"), "Env by permissions.adjust"},

		{"an annotation by glob", "permissions: {annotations: {keys: [ml.example.com/*]}}", adjusting(&api.ContainerAdjustment{Annotations: map[string]string{"ml.example.com/x": "1"}}), ""},
		{"another annotation", "permissions: {annotations: {keys: [ml.example.com/*]}}", adjusting(&api.ContainerAdjustment{Annotations: map[string]string{"io.kubernetes.cri-o.x": "1"}}), "Annotations[io.kubernetes.cri-o.x] by permissions.annotations.keys"},

		{"a mount inside", mounts, bind("/opt/ml/lib/x", "/ml/lib"), ""},
		{"a mount in memory", mounts, withMount(&api.Mount{Source: "tmpfs", Destination: "/ml/t", Type: "tmpfs"}), ""},
		{"a mount of the removal kind needs no source", mounts, withMount(&api.Mount{Destination: "-/ml/lib"}), ""},
		{"the removal of another mount", mounts, withMount(&api.Mount{Destination: "-/etc"}), "Mounts[/etc] by permissions.mounts.destinations"},
		{"another source", mounts, bind("/etc", "/ml/etc"), `Mounts[/ml/etc] by permissions.mounts.sources (source "/etc")`},
		{"the folder itself is not inside", mounts, bind("/opt/ml", "/ml/x"), `Mounts[/ml/x] by permissions.mounts.sources (source "/opt/ml")`},
		{"a source that climbs out", mounts, bind("/opt/ml/../../etc", "/ml/x"), `Mounts[/ml/x] by permissions.mounts.sources (the source "/opt/ml/../../etc" is not a clean absolute path)`},
		{"a source that is relative", mounts, bind("tmpfs", "/ml/x"), `Mounts[/ml/x] by permissions.mounts.sources (the source "tmpfs" is not a clean absolute path)`},
		{"no source", mounts, bind("", "/ml/x"), `Mounts[/ml/x] by permissions.mounts.sources (the source "" is not a clean absolute path)`},
		{"a bind mount that says tmpfs", mounts, withMount(&api.Mount{Source: "/etc", Destination: "/ml/x", Type: "tmpfs", Options: []string{"bind"}}), `Mounts[/ml/x] by permissions.mounts.sources (source "/etc")`},
		{"an overlay of other folders", mounts, withMount(&api.Mount{Source: "/opt/ml/x", Destination: "/ml/x", Type: "overlay", Options: []string{"lowerdir=/etc"}}), `Mounts[/ml/x] by permissions.mounts.sources (a mount of type "overlay" can show more than its source)`},
		{"a block device", mounts, withMount(&api.Mount{Source: "/dev/sda1", Destination: "/ml/x", Type: "ext4"}), `Mounts[/ml/x] by permissions.mounts.sources (a mount of type "ext4" can show more than its source)`},
		{"another destination", mounts, bind("/opt/ml/x", "/etc/x"), "Mounts[/etc/x] by permissions.mounts.destinations"},
		{"one folder deeper than *", mounts, bind("/opt/ml/x", "/ml/a/b"), "Mounts[/ml/a/b] by permissions.mounts.destinations"},
		{"a destination that climbs out", mounts, bind("/opt/ml/x", "/opt/ml/../../etc"), "Mounts[/opt/ml/../../etc] by permissions.mounts.destinations (the path is not clean)"},
		{"every source by *", `permissions: {mounts: {sources: ["*"]}}`, bind("/etc/x", "/y"), ""},

		{"a device by glob", "permissions: {devices: {paths: [/dev/nvidia*]}}", withDevices(&api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/nvidia0", Type: "c"}}}), ""},
		{"another device", "permissions: {devices: {paths: [/dev/nvidia*]}}", withDevices(&api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/sda", Type: "b"}}}), "Devices[/dev/sda] by permissions.devices.paths"},
		{"a device in another folder", "permissions: {devices: {paths: [/dev/nvidia*]}}", withDevices(&api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/nvidia-caps/../sda", Type: "b"}}}), "Devices[/dev/nvidia-caps/../sda] by permissions.devices.paths (the path is not clean)"},
		{"devices by number", "permissions: {devices: {paths: [/dev/nvidia*]}}", withDevices(&api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Devices: []*api.LinuxDeviceCgroup{{Allow: true, Type: "a", Access: "rwm"}}}}), "Devices[a *:* rwm] by permissions.devices.paths (a rule for the device cgroup names no path)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := denials(one(t, tt.permissions), tt.reply)
			if got != tt.want {
				t.Errorf("denied: %s\nwant:   %s", got, tt.want)
			}
			if strings.Contains(got, "secret") {
				t.Error("the value of a variable is told")
			}
		})
	}
}

func TestValueRulesHoldForUpdatesToo(t *testing.T) {
	t.Parallel()
	p := one(t, "permissions: {devices: {paths: [/dev/nvidia*]}}")
	u := &api.ContainerUpdate{ContainerId: "c", Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Devices: []*api.LinuxDeviceCgroup{{Allow: true, Type: "c"}}}}}
	if got := denials(p, updating(u)); !strings.Contains(got, "permissions.devices.paths") {
		t.Errorf("denied: %q", got)
	}
}

func TestCELRulesOverReplyPodAndContainerForEverythingElse(t *testing.T) {
	t.Parallel()
	pod := &api.PodSandbox{Namespace: "ml-a", Labels: map[string]string{"gpu": "1"}}
	ctr := &api.Container{Name: "main"}
	limit := func(n int64) policy.Reply {
		return policy.Reply{
			Adjust: &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(n)}}}},
			Pod:    pod, Container: ctr,
		}
	}
	rule := func(expression string) string {
		return "permissions: {rules: [{name: r, expression: '" + expression + "'}]}"
	}
	for _, tt := range []struct {
		name, permissions string
		reply             policy.Reply
		want              string
	}{
		{"true", rule(`reply.adjust.linux.resources.memory.limit.value <= 100`), limit(100), ""},
		{"false", rule(`reply.adjust.linux.resources.memory.limit.value <= 100`), limit(101), "permissions.rules[r]"},
		{"by pod and container", rule(`pod.namespace.startsWith("ml-") && container.name == "main"`), limit(1), ""},
		{"by another pod", rule(`pod.labels["gpu"] == "0"`), limit(1), "permissions.rules[r]"},
		{"a missing key is an error, and an error is no", rule(`pod.labels["none"] != "x"`), limit(1), "permissions.rules[r] (it cannot be evaluated: no such key)"},
		{"nobody's pod", rule(`pod.namespace == ""`), policy.Reply{Adjust: limit(1).Adjust}, ""},
		{
			"the updates", rule(`reply.update.all(u, u.container_id == "b")`),
			policy.Reply{Updates: []*api.ContainerUpdate{{ContainerId: "a"}, {ContainerId: "b"}}},
			"permissions.rules[r]",
		},
		{"each entry of a list", rule(`reply.adjust.mounts.all(m, "ro" in m.options)`), bind("/a", "/b"), ""},
		{"all rules, each named", "permissions: {rules: [{name: a, expression: 'false'}, {name: b, expression: 'true'}, {name: c, expression: 'false'}]}", limit(1), "permissions.rules[a]; permissions.rules[c]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := denials(one(t, tt.permissions), tt.reply); got != tt.want {
				t.Errorf("denied: %s\nwant:   %s", got, tt.want)
			}
		})
	}
}

func TestARuleThatCostsTooMuchForbids(t *testing.T) {
	t.Parallel()
	c := parse(t, supervisorYAML, plugin("p", `permissions: {rules: [{name: r, expression: 'reply.adjust.mounts.all(m, reply.adjust.mounts.all(n, reply.adjust.mounts.all(o, m.source != "x")))'}]}`))
	p := valid(t, c, "p")
	if !strings.Contains(c.Problems.Error(), "can cost more than the limit of 10000") {
		t.Errorf("no warning at load: %v", c.Problems)
	}
	a := &api.ContainerAdjustment{}
	for i := range 100 {
		a.Mounts = append(a.Mounts, &api.Mount{Destination: fmt.Sprint("/", i)})
	}
	if got := denials(p, adjusting(a)); !strings.Contains(got, "permissions.rules[r] (it cannot be evaluated: it costs more than the limit of 10000)") {
		t.Errorf("denied: %q", got)
	}
	if got := denials(p, adjusting(&api.ContainerAdjustment{})); got != "" {
		t.Errorf("a small reply is denied: %q", got)
	}
}

func TestARuleOfTypicalCostIsNoWarning(t *testing.T) {
	t.Parallel()
	c := parse(t, supervisorYAML, plugin("p", `permissions: {rules: [{name: r, expression: 'reply.adjust.env.all(e, e.key.startsWith("GPU_") && e.value.matches("^[0-9]+$"))'}]}`))
	if len(c.Problems) > 0 {
		t.Error(c.Problems)
	}
}

func TestDenialsOfOneReplyAreBounded(t *testing.T) {
	t.Parallel()
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("X", i)
	}
	if n := len(one(t, "permissions: {env: {names: [A]}}").Denied(withEnv(keys...))); n != 64 {
		t.Errorf("%d denials", n)
	}
}
