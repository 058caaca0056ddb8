package policy_test

import (
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// leaves calls visit with a fresh message for each way of setting something in it: every field that
// is not a message, and every message without fields inside. path says which.
func leaves(build func() (root proto.Message, m protoreflect.Message), path string, visit func(path string, root proto.Message)) {
	_, shape := build()
	fields := shape.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		at := path + "." + string(fd.Name())
		switch {
		case fd.IsMap():
			root, m := build()
			entries := m.Mutable(fd).Map()
			value := protoreflect.ValueOfString("x")
			if fd.MapValue().Message() != nil {
				value = entries.NewValue()
			}
			entries.Set(protoreflect.ValueOfString("key").MapKey(), value)
			visit(at, root)
		case fd.IsList() && fd.Message() != nil:
			// An entry with nothing in it is an entry all the same.
			root, m := build()
			m.Mutable(fd).List().AppendMutable()
			visit(at, root)
			leaves(func() (proto.Message, protoreflect.Message) {
				root, m := build()
				return root, m.Mutable(fd).List().AppendMutable().Message()
			}, at+"[]", visit)
		case fd.IsList():
			root, m := build()
			m.Mutable(fd).List().Append(scalarValue(fd))
			visit(at, root)
		case fd.Message() != nil:
			leaves(func() (proto.Message, protoreflect.Message) {
				root, m := build()
				return root, m.Mutable(fd).Message()
			}, at, visit)
		default:
			root, m := build()
			m.Set(fd, scalarValue(fd))
			visit(at, root)
		}
	}
}

func scalarValue(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	default:
		panic("NRI uses a new kind of field: " + fd.Kind().String())
	}
}

// forbidden lists the fields of the reply that the plugin may not set.
func forbidden(p *policy.Plugin, r policy.Reply) []policy.Field {
	var out []policy.Field
	for _, d := range p.Denied(r) {
		out = append(out, d.Field)
	}
	return out
}

func updating(u *api.ContainerUpdate) policy.Reply {
	return policy.Reply{Updates: []*api.ContainerUpdate{u}}
}

func TestEverythingThatAnAdjustmentCanSetIsAField(t *testing.T) {
	t.Parallel()
	seen := map[policy.Field]bool{}
	none := one(t, "permissions: {adjust: []}")
	leaves(func() (proto.Message, protoreflect.Message) {
		m := &api.ContainerAdjustment{}
		return m, m.ProtoReflect()
	}, "adjust", func(path string, root proto.Message) {
		adj, ok := root.(*api.ContainerAdjustment)
		if !ok {
			t.Fatalf("root is a %T", root)
		}
		keys := policy.FieldsOf(adj)
		if len(keys) == 0 {
			t.Errorf("%s is classified as no field: whoever sets it needs no permission", path)
		}
		for _, k := range keys {
			seen[k.Field] = true
		}
		if len(forbidden(none, policy.Reply{Adjust: adj})) == 0 {
			t.Errorf("%s is not forbidden to a plugin that was granted nothing", path)
		}
	})
	for _, f := range policy.Fields() {
		if !seen[f] {
			t.Errorf("no adjustment is classified as NRI's field %s", f)
		}
	}
}

func TestEverythingThatAnUpdateCanSetIsAField(t *testing.T) {
	t.Parallel()
	none := one(t, "permissions: {adjust: []}")
	leaves(func() (proto.Message, protoreflect.Message) {
		m := &api.ContainerUpdate{}
		return m, m.ProtoReflect()
	}, "update", func(path string, root proto.Message) {
		u, ok := root.(*api.ContainerUpdate)
		if !ok {
			t.Fatalf("root is a %T", root)
		}
		addressing := path == "update.container_id" || path == "update.ignore_failure"
		if got := len(policy.FieldsOfUpdate(u)) > 0; got == addressing {
			t.Errorf("%s: classified as a field: %v", path, got)
		}
		if got := len(forbidden(none, updating(u))) > 0; got == addressing {
			t.Errorf("%s: forbidden: %v", path, got)
		}
	})
}

func TestFieldsAreThoseOfNRI(t *testing.T) {
	t.Parallel()
	fields := policy.Fields()
	if len(fields) != len(api.Field_name)-1 || slices.Contains(fields, policy.Field("None")) {
		t.Errorf("%d fields, NRI has %d with None", len(fields), len(api.Field_name))
	}
	if fields[0] != "Annotations" || fields[len(fields)-1] != "MemoryPolicy" {
		t.Errorf("not in NRI's order: %v", fields)
	}
	if len(fields) > 62 {
		t.Error("a fieldSet of 64 bits is too small")
	}
}

func TestFieldsOfNamesEachEntryAndItsRemoval(t *testing.T) {
	t.Parallel()
	adj := &api.ContainerAdjustment{
		Annotations: map[string]string{"a": "1", "-b": ""},
		Mounts:      []*api.Mount{{Destination: "-/old"}, {Destination: "/new"}, nil},
		Env:         []*api.KeyValue{{Key: "B", Value: "1"}, {Key: "-A"}},
		Args:        []string{"", "sh"},
		Hooks:       &api.Hooks{Poststop: []*api.Hook{{Path: "/x"}}},
		Rlimits:     []*api.POSIXRlimit{{Type: "RLIMIT_CORE"}},
		CDIDevices:  []*api.CDIDevice{{Name: "vendor.com/gpu=0"}},
		Linux: &api.LinuxContainerAdjustment{
			Devices:     []*api.LinuxDevice{{Path: "/dev/x"}, {Path: "-/dev/y"}},
			Namespaces:  []*api.LinuxNamespace{{Type: "-network"}},
			Sysctl:      map[string]string{"-net.x": ""},
			NetDevices:  map[string]*api.LinuxNetDevice{"eth9": {Name: "e"}},
			CgroupsPath: "/x",
			Rdt:         &api.LinuxRdt{Remove: true, ClosId: api.String("c")},
			Resources: &api.LinuxResources{
				Memory:         &api.LinuxMemory{Limit: api.Int64(int64(1))},
				Cpu:            &api.LinuxCPU{Cpus: "0"},
				HugepageLimits: []*api.HugepageLimit{{PageSize: "2MB"}},
				Unified:        map[string]string{"memory.high": "1"},
				Devices:        []*api.LinuxDeviceCgroup{{Allow: true, Type: "c", Major: api.Int64(int64(10)), Access: "rw"}},
				Pids:           &api.LinuxPids{Limit: 1},
			},
		},
	}
	want := []policy.FieldKey{
		{Field: "Annotations", Key: "a"},
		{Field: "Annotations", Key: "b", Removal: true},
		{Field: "Mounts"},
		{Field: "Mounts", Key: "/new"},
		{Field: "Mounts", Key: "/old", Removal: true},
		{Field: "OciHooks"},
		{Field: "Devices", Key: "/dev/x"},
		{Field: "Devices", Key: "/dev/y", Removal: true},
		{Field: "Devices", Key: "c 10:* rw"},
		{Field: "CdiDevices", Key: "vendor.com/gpu=0"},
		{Field: "Env", Key: "A", Removal: true},
		{Field: "Env", Key: "B"},
		{Field: "Args", Removal: true},
		{Field: "Args"},
		{Field: "MemLimit"},
		{Field: "CPUSetCPUs"},
		{Field: "PidsLimit"},
		{Field: "HugepageLimits", Key: "2MB"},
		{Field: "CgroupsUnified", Key: "memory.high"},
		{Field: "CgroupsPath"},
		{Field: "Rlimits", Key: "RLIMIT_CORE"},
		{Field: "Namespace", Key: "network", Removal: true},
		{Field: "Sysctl", Key: "net.x", Removal: true},
		{Field: "LinuxNetDevices", Key: "eth9"},
		{Field: "RdtClosID", Removal: true},
		{Field: "RdtClosID"},
		{Field: "RdtSchemata", Removal: true},
		{Field: "RdtEnableMonitoring", Removal: true},
	}
	if diff := cmp.Diff(want, policy.FieldsOf(adj)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := policy.FieldsOf(nil); got != nil {
		t.Errorf("nil sets %v", got)
	}
	empty := &api.ContainerAdjustment{Hooks: &api.Hooks{}, Linux: &api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Memory: &api.LinuxMemory{}, Cpu: &api.LinuxCPU{}}}}
	if got := policy.FieldsOf(empty); got != nil {
		t.Errorf("empty messages set %v", got)
	}
}

func TestPermissionsComeFromTheManifestThenTheTeamThenTheDefault(t *testing.T) {
	t.Parallel()
	supervisor := supervisorYAML + `    narrow: {permissions: {adjust: [Env, cpu]}}
    nothing: {permissions: {adjust: []}}
`
	dangerous := []policy.Field{"OciHooks", "SeccompPolicy", "Namespace", "Sysctl"}
	all := append(policy.Fields(), policy.FieldUnknown)
	without := func(drop ...policy.Field) []policy.Field {
		return slices.DeleteFunc(slices.Clone(all), func(f policy.Field) bool { return slices.Contains(drop, f) })
	}
	cpu := []policy.Field{"CPUShares", "CPUQuota", "CPUPeriod", "CPURealtimeRuntime", "CPURealtimePeriod", "CPUSetCPUs", "CPUSetMems"}
	memory := []policy.Field{
		"MemLimit", "MemReservation", "MemSwapLimit", "MemKernelLimit", "MemTCPLimit", "MemSwappiness", "MemDisableOomKiller", "MemUseHierarchy",
	}
	for _, tt := range []struct {
		name, team, permissions string
		want                    []policy.Field
	}{
		{"a team without a ceiling", "open", "{}", without(append(dangerous, policy.FieldUnknown)...)},
		{"the ceiling", "narrow", "{}", append([]policy.Field{"Env"}, cpu...)},
		{"less than the ceiling", "narrow", "{adjust: [Env]}", []policy.Field{"Env"}},
		{"nothing", "narrow", "{adjust: []}", nil},
		{"an empty ceiling", "nothing", "{}", nil},
		{"everything by the ceiling", "root", "{}", all},
		{"everything", "root", `{adjust: ["*"]}`, all},
		{"a group", "root", "{adjust: [memory]}", memory},
		{"what the default leaves out", "root", "{adjust: [OciHooks]}", []policy.Field{"OciHooks"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := valid(t, parse(t, supervisor, plugin("p", "team: "+tt.team, "permissions: "+tt.permissions)), "p")
			if diff := cmp.Diff(tt.want, p.Adjustable()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForbiddenListsEachFieldOnce(t *testing.T) {
	t.Parallel()
	p := one(t, "permissions: {adjust: [Env]}")
	adj := &api.ContainerAdjustment{
		Env:    []*api.KeyValue{{Key: "A"}},
		Mounts: []*api.Mount{{Destination: "/a"}, {Destination: "-/b"}},
		Linux:  &api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/x"}}},
	}
	if diff := cmp.Diff([]policy.Field{"Mounts", "Devices"}, forbidden(p, policy.Reply{Adjust: adj})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	adj.Mounts, adj.Linux = nil, nil
	if got := forbidden(p, policy.Reply{Adjust: adj}); got != nil {
		t.Errorf("forbidden: %v", got)
	}
	if got := forbidden(p, policy.Reply{Adjust: nil}); got != nil {
		t.Errorf("forbidden in nothing: %v", got)
	}
}

func TestWhatOnlyANewerNRIKnowsIsForbiddenUnlessEverythingIsGranted(t *testing.T) {
	t.Parallel()
	unknown := protowire.AppendString(protowire.AppendTag(nil, 4000, protowire.BytesType), "x")
	hide := func(m proto.Message) { m.ProtoReflect().SetUnknown(unknown) }
	open, root := one(t), one(t, "team: root")
	for name, build := range map[string]func() *api.ContainerAdjustment{
		"at the top": func() *api.ContainerAdjustment { a := &api.ContainerAdjustment{}; hide(a); return a },
		"in a list": func() *api.ContainerAdjustment {
			m := &api.Mount{}
			hide(m)
			return &api.ContainerAdjustment{Mounts: []*api.Mount{{}, m}}
		},
		"in a map": func() *api.ContainerAdjustment {
			d := &api.LinuxNetDevice{}
			hide(d)
			return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{NetDevices: map[string]*api.LinuxNetDevice{"a": d}}}
		},
		"deep inside": func() *api.ContainerAdjustment {
			c := &api.LinuxCPU{}
			hide(c)
			return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Cpu: c}}}
		},
	} {
		adj := build()
		if got := forbidden(open, policy.Reply{Adjust: adj}); !slices.Contains(got, policy.FieldUnknown) {
			t.Errorf("%s: forbidden = %v", name, got)
		}
		if got := forbidden(root, policy.Reply{Adjust: adj}); got != nil {
			t.Errorf("%s: forbidden to a plugin that may do everything: %v", name, got)
		}
	}
	u := &api.ContainerUpdate{ContainerId: "c"}
	hide(u)
	if got := forbidden(open, updating(u)); !slices.Contains(got, policy.FieldUnknown) {
		t.Errorf("update: forbidden = %v", got)
	}
}
