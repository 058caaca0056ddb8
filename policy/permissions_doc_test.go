package policy_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

const permissionsIntro = `# Permissions

Who may change what is decided in two places: ` + "`spec.permissions`" + ` of a plugin's manifest, and the ceiling of its team, ` + "`spec.teams.NAME`" + ` of the Supervisor document. What the platform
team writes there bounds every plugin of the team, whatever its manifest says and whatever authors of pods write into labels, annotations or variables. Ceilings and permissions are always today's; only the
selection of a container is decided once.

A ceiling also bounds the time for which the team's plugins keep events waiting: with ` + "`" + `laneShare: {ratio: 0.2, burst: 300ms}` + "`" + ` below ` + "`" + `spec.teams.NAME` + "`" + ` they have a fifth of the node's time together, and when it is
used up each falls back by its ` + "`" + `failurePolicy` + "`" + `, reason ` + "`" + `lane_share` + "`" + `, until the share refills.

One thing that is not permitted drops the plugin's whole reply for that container, and its ` + "`failurePolicy`" + ` decides what follows. The log line ` + "`adjustment not permitted`" + `, the metric
` + "`nri_supervisor_adjustments_denied_total`" + ` and the journal name plugin, field, entry and rule; they never hold a value.

## Fields

` + "`permissions.adjust`" + ` lists fields by NRI's names, or the groups ` + "`memory`, `cpu` and `*`" + `. Left out, it is what the team's ` + "`permissions.adjust`" + ` grants; a team without one can be granted everything that
has "yes" below. ` + "`Unknown`" + ` is whatever only a newer NRI can set; it is granted by ` + "`*`" + ` alone. This table is generated from the code (` + "`go generate ./policy`" + `), and a test compares.

| field | group | without a ceiling | narrowed by | also in updates |
|---|---|---|---|---|
`

// exampleRule is the rule of the documentation, as it stands in a list of rules.
const exampleRule = `    - name: memory-limit
      expression: >-
        (!has(reply.adjust.linux.resources.memory.limit) || reply.adjust.linux.resources.memory.limit.value <= 1073741824) &&
        reply.update.all(u, !has(u.linux.resources.memory.limit) || u.linux.resources.memory.limit.value <= 1073741824)
`

const permissionsRest = `
Updates of containers need the field as an adjustment does. ` + "`permissions.update`" + ` says which containers they may name: ` + "`selected`" + ` (default), ` + "`own`" + `, the container of the event, or ` + "`none`" + `. That holds for replies
to CreateContainer, UpdateContainer, StopContainer and Synchronize and for unsolicited updates. An update of another container is left out by itself, returned as failed where NRI has a way to, counted
(` + "`container_updates_total`, result `denied`" + `) and logged. On CRI-O the updates of a reply carry IgnoreFailure, because CRI-O fails the event when one fails; on Docker they are left out. Evictions are not done by
any runtime; a plugin that asks for one is told so in the log.

## Values

` + "```yaml\n" + `permissions:
  env: {names: ["GPU_*"]}
  annotations: {keys: ["ml.example.com/*"]}
  mounts: {sources: ["/opt/ml/**", tmpfs], destinations: ["/ml/*"]}
  devices: {paths: ["/dev/nvidia*"]}
  rules:
` + exampleRule + "```" + `

- An entry that is removed needs permission as one that is set. An empty list permits nothing.
- In a glob, ` + "`*`" + ` is any run of characters and ` + "`?`" + ` is one. In a path that starts with /, ` + "`*`" + ` stays within one folder and ` + "`**`" + ` crosses folders.
- Names and paths with control characters (a line feed, a NUL), variables with ` + "`" + `=` + "`" + `, and paths that are not absolute make the whole reply invalid, whatever is granted.
- Paths must say what they mean: where they are narrowed, one with ` + "`" + `..` + "`" + ` or ` + "`" + `//` + "`" + ` is forbidden, and without ` + "`" + `override` + "`" + ` no other spelling of a path hides what another plugin has mounted there. Links in the host's folders are followed by the runtime and not seen here: whoever can write below a source can point elsewhere.
- With ` + "`sources`" + `, only bind mounts and mounts in memory (tmpfs, ramfs, mqueue, hugetlbfs) are permitted: the options of an overlay can show more than its source.
- With ` + "`paths`" + `, rules for the device cgroup are forbidden, because they name no path. Which device a path stands for is not looked at: a rule can, by ` + "`major` and `minor`" + `.
- ` + "`rules`" + ` are CEL over ` + "`reply`" + ` (NRI's CreateContainerResponse; other replies have no ` + "`adjust`" + `, and updates of containers are in ` + "`update`" + `), ` + "`pod`" + ` and ` + "`container`" + `; all must be true. An error is no: a key that is missing, or a cost above 10,000 for one
  and 50,000 for all. ` + "`check`" + ` warns of rules that can cost so much.

Annotations, variables and mounts that are granted without being narrowed can mean more than they say: some runtimes act on annotations (` + "`" + `run.oci.*` + "`" + `, ` + "`" + `io.kubernetes.cri-o.*` + "`" + `), programs on variables
(` + "`" + `LD_PRELOAD` + "`" + `), and a CDI device brings whatever its specification on the host says. Narrow them, or leave them out of the ceiling.

` + "`permissions.override: true`" + ` lets a plugin remove, and so replace, what another hosted plugin set. Removing what the pod or the runtime set is an adjustment like any other.

## Saying no

With ` + "`permissions.reject: true`" + ` (and ` + "`allow.reject`" + ` of its team) a plugin can refuse a container: ` + "`plugins.Reject(\"why\")`" + ` in the SDK, any returned error of a stock plugin. Without it an error is a failure. Pods
that are critical (` + "`spec.critical`" + `) are never refused, unless the plugin says ` + "`includeCritical: true`" + ` and its team may.

## Required plugins

` + "`requiredPlugins`" + ` of the Supervisor document names hosted plugins that must have *succeeded* for every container; the annotation ` + "`required-plugins.nri-supervisor.dev: \"[a, b]\"`" + ` does so for one pod,
` + "`…/container.NAME`" + ` for one container, as in NRI's own ` + "`required-plugins.noderesource.dev`" + `, which is read as well. A plugin that failed, was not selected or opted out has not succeeded. Critical pods are exempt. A pod with
` + "`tolerate-missing-plugins.nri-supervisor.dev: \"true\"`" + ` is created all the same: whoever can create pods can write that, so forbid it by admission control where it matters.

The runtime does not know hosted plugins. In its own settings (` + "`required_plugins`" + ` of containerd's NRI validator) name the supervisor, ` + "`nri-supervisor`" + `, and no plugin behind it: names of hosted plugins would refuse every
container. [Production](production.md#failing-closed) has the lines to write, and what they cost. Names in ` + "`required-plugins.noderesource.dev`" + ` that are not hosted are the runtime's business and ignored here; where the runtime's validator is on, it refuses pods that name hosted plugins there, so use
` + "`required-plugins.nri-supervisor.dev`" + `. ` + "`check` and `status`" + ` warn about combinations that cannot work.

## Validators

A hosted plugin that subscribes to ValidateContainerAdjustment is asked once per container, after all conflicts are settled, with the plugin that set each field as its owner and the list of plugins
consulted. Its manifest must state ` + "`failurePolicy`" + `. It judges what hosted plugins did; with ` + "`runtime.validate: true`" + ` the runtime asks, in a second request for each container, and it judges what all plugins did. To refuse
it needs ` + "`permissions.reject`" + `. Validators that run outside see the supervisor as the owner of all that hosted plugins did.
`

// updatable are the fields that an update can set.
func updatable() []policy.Field {
	var out []policy.Field
	leaves(func() (proto.Message, protoreflect.Message) {
		m := &api.ContainerUpdate{}
		return m, m.ProtoReflect()
	}, "update", func(_ string, root proto.Message) {
		u, _ := root.(*api.ContainerUpdate)
		for _, k := range policy.FieldsOfUpdate(u) {
			out = append(out, k.Field)
		}
	})
	return out
}

func TestThePageOfPermissionsIsGeneratedFromTheCode(t *testing.T) {
	t.Parallel()
	within := func(g policy.Grant) []policy.Field {
		return valid(t, parse(t, supervisorYAML, plugin("p", "team: root", fmt.Sprintf("permissions: {adjust: [%q]}", g))), "p").Adjustable()
	}
	groups := map[policy.Grant][]policy.Field{policy.GrantMemory: within(policy.GrantMemory), policy.GrantCPU: within(policy.GrantCPU)}
	byDefault, inUpdates := one(t).Adjustable(), updatable()
	narrowed := map[policy.Field]string{
		"Env": "`env.names`", "Annotations": "`annotations.keys`", "Mounts": "`mounts.sources`, `mounts.destinations`", "Devices": "`devices.paths`",
	}
	yes := func(list []policy.Field, f policy.Field) string {
		if slices.Contains(list, f) {
			return "yes"
		}
		return ""
	}
	var b strings.Builder
	b.WriteString(permissionsIntro)
	for _, f := range append(policy.Fields(), policy.FieldUnknown) {
		group := ""
		for name, fields := range groups {
			if slices.Contains(fields, f) {
				group = "`" + string(name) + "`"
			}
		}
		rule := narrowed[f]
		if rule == "" {
			rule = "`rules`"
		} else {
			rule += ", `rules`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f, group, yes(byDefault, f), rule, yes(inUpdates, f))
	}
	b.WriteString(permissionsRest)
	compareGolden(t, filepath.Join("..", "docs", "permissions.md"), b.String())
}

// TestTheRuleOfTheDocumentationBoundsAdjustmentsAndUpdates: an update of a container can carry a limit as well.
func TestTheRuleOfTheDocumentationBoundsAdjustmentsAndUpdates(t *testing.T) {
	t.Parallel()
	p := one(t, "permissions:\n    adjust: [memory]\n    rules:\n"+strings.ReplaceAll("\n"+exampleRule, "\n    ", "\n      ")[1:])
	memory := func(limit int64) *api.LinuxResources {
		return &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(limit)}}
	}
	for limit, want := range map[int64]string{1 << 30: "", 1<<30 + 1: "permissions.rules[memory-limit]"} {
		adjustment := &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: memory(limit)}}
		if got := denials(p, adjusting(adjustment)); got != want {
			t.Errorf("adjusting to %d is denied by %q, want %q", limit, got, want)
		}
		if got := denials(p, updating(&api.ContainerUpdate{ContainerId: "c", Linux: &api.LinuxContainerUpdate{Resources: memory(limit)}})); got != want {
			t.Errorf("updating to %d is denied by %q, want %q", limit, got, want)
		}
	}
	if got := denials(p, adjusting(nil)); got != "" {
		t.Errorf("nothing is denied by %q", got)
	}
}
