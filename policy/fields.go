package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:generate go test -run TestThePageOfPermissionsIsGeneratedFromTheCode -update .

// Field is a kind of adjustment by NRI's own name, such as "Env" or "MemLimit": the names of
// NRI's api.Field, and FieldUnknown. It is a closed set.
type Field string

// FieldUnknown stands for whatever a newer NRI than ours can set. It is granted by * only.
const FieldUnknown Field = "Unknown"

// Fields lists NRI's fields in NRI's order, without FieldUnknown.
func Fields() []Field {
	out := make([]Field, 0, len(api.Field_name))
	for n := range api.Field_name {
		if n != int32(api.Field_None) {
			out = append(out, Field(api.Field(n).String()))
		}
	}
	slices.SortFunc(out, func(a, b Field) int { return cmp.Compare(a.order(), b.order()) })
	return out
}

// order is the position of the field in NRI's enumeration; FieldUnknown comes last.
func (f Field) order() int32 {
	if n, ok := api.Field_value[string(f)]; ok {
		return n
	}
	return 1<<31 - 1
}

// Grant is what permissions.adjust lists: a Field, or one of the groups memory, cpu and *.
type Grant string

const (
	// GrantAll is every field, those of newer NRI versions included.
	GrantAll Grant = "*"
	// GrantMemory is every field of NRI's memory resources: MemLimit to MemUseHierarchy.
	GrantMemory Grant = "memory"
	// GrantCPU is every field of NRI's CPU resources: CPUShares to CPUSetMems.
	GrantCPU Grant = "cpu"
)

// Values lists the closed set.
func (Grant) Values() []string {
	out := []string{string(GrantAll), string(GrantMemory), string(GrantCPU)}
	for _, f := range Fields() {
		out = append(out, string(f))
	}
	return out
}

// fieldSet is a set of fields: bit n is api.Field n, bit 63 is FieldUnknown.
type fieldSet uint64

const unknownBit = 63

func (f Field) bit() fieldSet {
	if f == FieldUnknown {
		return 1 << unknownBit
	}
	return 1 << (api.Field_value[string(f)] & unknownBit)
}

func (s fieldSet) has(f Field) bool { return s&f.bit() != 0 }

// list returns the fields of the set in NRI's order.
func (s fieldSet) list() []Field {
	if s == 0 {
		return nil
	}
	var out []Field
	for _, f := range append(Fields(), FieldUnknown) {
		if s.has(f) {
			out = append(out, f)
		}
	}
	return out
}

// fields is what the grant stands for.
func (g Grant) fields() fieldSet {
	var set fieldSet
	for _, f := range Fields() {
		switch {
		case g == GrantAll,
			g == GrantMemory && strings.HasPrefix(string(f), "Mem") && f != "MemoryPolicy",
			g == GrantCPU && strings.HasPrefix(string(f), "CPU"),
			g == Grant(f):
			set |= f.bit()
		}
	}
	if g == GrantAll {
		set |= FieldUnknown.bit()
	}
	return set
}

func grantedFields(grants []Grant) fieldSet {
	var set fieldSet
	for _, g := range grants {
		set |= g.fields()
	}
	return set
}

// defaultCeiling is what a team without permissions.adjust can be granted: everything except what lets
// a container out of its confinement.
func defaultCeiling() fieldSet {
	set := GrantAll.fields() &^ FieldUnknown.bit()
	for _, f := range []Field{"OciHooks", "SeccompPolicy", "Namespace", "Sysctl"} {
		set &^= f.bit()
	}
	return set
}

// FieldKey is one thing that a reply sets or removes.
type FieldKey struct {
	// Field is the kind of adjustment.
	Field Field
	// Key tells entries of one field apart: the name of a variable, the destination of a
	// mount, the key of an annotation. Empty for fields without entries.
	Key string
	// Removal says that the entry is a removal marker. The key is then without its marker.
	Removal bool
}

// FieldsOf lists everything that the adjustment sets, in NRI's order of fields, then by key. Nil sets nothing.
// An entry that is written twice is listed twice.
func FieldsOf(adj *api.ContainerAdjustment) []FieldKey {
	var out []FieldKey
	eachField(adj, func(k FieldKey) { out = append(out, k) })
	return sortFields(out)
}

// EachField calls yield for everything that the adjustment sets, as FieldsOf lists it, but in no particular order and without a list. Nil sets nothing.
func EachField(adj *api.ContainerAdjustment, yield func(FieldKey)) { eachField(adj, yield) }

// SortFields puts fields into the order of FieldsOf, and returns them.
func SortFields(keys []FieldKey) []FieldKey { return sortFields(keys) }

// FieldsOfUpdate lists everything that the update sets, in NRI's order of fields, then by key. Nil sets nothing.
func FieldsOfUpdate(u *api.ContainerUpdate) []FieldKey {
	var out []FieldKey
	eachUpdateField(u, func(k FieldKey) { out = append(out, k) })
	return sortFields(out)
}

func sortFields(keys []FieldKey) []FieldKey {
	slices.SortStableFunc(keys, func(a, b FieldKey) int {
		return cmp.Or(cmp.Compare(a.Field.order(), b.Field.order()), cmp.Compare(a.Key, b.Key))
	})
	return keys
}

// Adjustable lists the fields that the plugin was granted, in NRI's order.
func (p *Plugin) Adjustable() []Field { return p.granted.list() }

// eachField calls yield for everything that the adjustment sets, in no particular order.
func eachField(adj *api.ContainerAdjustment, yield func(FieldKey)) {
	if adj == nil {
		return
	}
	for k := range adj.GetAnnotations() {
		yield(marked("Annotations", k))
	}
	for _, m := range adj.GetMounts() {
		yield(marked("Mounts", m.GetDestination()))
	}
	for _, e := range adj.GetEnv() {
		yield(marked("Env", e.GetKey()))
	}
	if args := adj.GetArgs(); len(args) > 0 {
		// A leading empty argument gives up the claim of an earlier plugin.
		if args[0] == "" {
			yield(FieldKey{Field: "Args", Removal: true})
		}
		if args[0] != "" || len(args) > 1 {
			yield(FieldKey{Field: "Args"})
		}
	}
	if h := adj.GetHooks(); len(h.GetPrestart())+len(h.GetCreateRuntime())+len(h.GetCreateContainer())+
		len(h.GetStartContainer())+len(h.GetPoststart())+len(h.GetPoststop()) > 0 {
		yield(FieldKey{Field: "OciHooks"})
	}
	for _, r := range adj.GetRlimits() {
		yield(FieldKey{Field: "Rlimits", Key: r.GetType()})
	}
	for _, d := range adj.GetCDIDevices() {
		yield(FieldKey{Field: "CdiDevices", Key: d.GetName()})
	}
	eachLinuxField(adj.GetLinux(), yield)
	if hasUnknown(adj.ProtoReflect()) {
		yield(FieldKey{Field: FieldUnknown})
	}
}

func eachLinuxField(l *api.LinuxContainerAdjustment, yield func(FieldKey)) {
	simple := func(set bool, f Field) {
		if set {
			yield(FieldKey{Field: f})
		}
	}
	for _, d := range l.GetDevices() {
		yield(marked("Devices", d.GetPath()))
	}
	eachResource(l.GetResources(), yield)
	simple(l.GetCgroupsPath() != "", "CgroupsPath")
	simple(l.GetOomScoreAdj() != nil, "OomScoreAdj")
	simple(l.GetIoPriority() != nil, "IoPriority")
	simple(l.GetSeccompPolicy() != nil, "SeccompPolicy")
	for _, n := range l.GetNamespaces() {
		yield(marked("Namespace", n.GetType()))
	}
	for k := range l.GetSysctl() {
		yield(marked("Sysctl", k))
	}
	for k := range l.GetNetDevices() {
		yield(marked("LinuxNetDevices", k))
	}
	simple(l.GetScheduler() != nil, "LinuxSched")
	if rdt := l.GetRdt(); rdt != nil {
		for _, part := range []struct {
			set   bool
			field Field
		}{
			{rdt.GetClosId() != nil, "RdtClosID"},
			{rdt.GetSchemata() != nil, "RdtSchemata"},
			{rdt.GetEnableMonitoring() != nil, "RdtEnableMonitoring"},
		} {
			// Removing RDT gives up all three (NRI, OwningPlugins.ClearRdt).
			if rdt.GetRemove() {
				yield(FieldKey{Field: part.field, Removal: true})
			}
			simple(part.set, part.field)
		}
	}
	simple(l.GetMemoryPolicy() != nil, "MemoryPolicy")
}

func eachUpdateField(u *api.ContainerUpdate, yield func(FieldKey)) {
	if u == nil {
		return
	}
	eachResource(u.GetLinux().GetResources(), yield)
	if hasUnknown(u.ProtoReflect()) {
		yield(FieldKey{Field: FieldUnknown})
	}
}

func eachResource(r *api.LinuxResources, yield func(FieldKey)) {
	if r == nil {
		return
	}
	simple := func(set bool, f Field) {
		if set {
			yield(FieldKey{Field: f})
		}
	}
	m := r.GetMemory()
	simple(m.GetLimit() != nil, "MemLimit")
	simple(m.GetReservation() != nil, "MemReservation")
	simple(m.GetSwap() != nil, "MemSwapLimit")
	simple(m.GetKernel() != nil, "MemKernelLimit")
	simple(m.GetKernelTcp() != nil, "MemTCPLimit")
	simple(m.GetSwappiness() != nil, "MemSwappiness")
	simple(m.GetDisableOomKiller() != nil, "MemDisableOomKiller")
	simple(m.GetUseHierarchy() != nil, "MemUseHierarchy")
	c := r.GetCpu()
	simple(c.GetShares() != nil, "CPUShares")
	simple(c.GetQuota() != nil, "CPUQuota")
	simple(c.GetPeriod() != nil, "CPUPeriod")
	simple(c.GetRealtimeRuntime() != nil, "CPURealtimeRuntime")
	simple(c.GetRealtimePeriod() != nil, "CPURealtimePeriod")
	simple(c.GetCpus() != "", "CPUSetCPUs")
	simple(c.GetMems() != "", "CPUSetMems")
	simple(r.GetPids() != nil, "PidsLimit")
	for _, h := range r.GetHugepageLimits() {
		yield(FieldKey{Field: "HugepageLimits", Key: h.GetPageSize()})
	}
	simple(r.GetBlockioClass() != nil, "BlockioClass")
	simple(r.GetRdtClass() != nil, "RdtClass")
	for k := range r.GetUnified() {
		yield(FieldKey{Field: "CgroupsUnified", Key: k})
	}
	// NRI has no owner for device cgroup rules; they open devices all the same.
	for _, d := range r.GetDevices() {
		yield(FieldKey{Field: "Devices", Key: deviceRule(d)})
	}
}

func marked(f Field, key string) FieldKey {
	plain, removal := api.IsMarkedForRemoval(key)
	return FieldKey{Field: f, Key: plain, Removal: removal}
}

// deviceRule renders a device cgroup rule as the cgroup v1 interface writes it, such as "c 10:200 rwm".
func deviceRule(d *api.LinuxDeviceCgroup) string {
	number := func(n *api.OptionalInt64) string {
		if n == nil {
			return "*"
		}
		return strconv.FormatInt(n.GetValue(), 10)
	}
	return d.GetType() + " " + number(d.GetMajor()) + ":" + number(d.GetMinor()) + " " + d.GetAccess()
}

// hasUnknown says whether the message, or one inside it, carries a field that our version of NRI
// does not know. Passed on, a newer runtime would act on it.
func hasUnknown(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	found := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, mv protoreflect.Value) bool {
					found = hasUnknown(mv.Message())
					return !found
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = hasUnknown(v.Message())
		}
		return !found
	})
	return found
}
