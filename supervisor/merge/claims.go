package merge

import (
	"cmp"
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// claims retells who set what, in the adaptation's own terms. The adaptation
// decides who loses; claims tell against whom and in which fields, and check
// what the adaptation does not: the only reply of an event, updates with
// IgnoreFailure, and pids of updates.
type claims struct {
	fields map[FieldKey]claim
	hooks  map[string][]int // container → places; hooks add up and never collide
}

// claim is the owner of a field. A cleared field is one whose owner removed
// what was set before: only the same owner may set it again.
type claim struct {
	place   int
	cleared bool
}

// hit is a field that somebody else, or the same reply, had claimed before.
type hit struct {
	key  FieldKey
	with int // place
}

func newClaims() *claims {
	return &claims{fields: map[FieldKey]claim{}, hooks: map[string][]int{}}
}

// reply claims everything that a reply sets, and returns what collides. A
// claim that collides is not made.
func (c *claims) reply(place int, created string, r *reply) []hit {
	var hits []hit
	hits = c.adjustment(hits, place, created, r.getAdjust())
	for _, u := range r.getUpdate() {
		hits = c.update(hits, place, u)
	}
	return hits
}

func (c *claims) update(hits []hit, place int, u *api.ContainerUpdate) []hit {
	return c.resources(hits, place, u.GetContainerId(), u.GetLinux().GetResources())
}

func (c *claims) set(hits []hit, place int, key FieldKey) []hit {
	if had, ok := c.fields[key]; ok && (!had.cleared || had.place != place) {
		return append(hits, hit{key: key, with: had.place})
	}
	c.fields[key] = claim{place: place}
	return hits
}

func (c *claims) clear(place int, key FieldKey) {
	c.fields[key] = claim{place: place, cleared: true}
}

// clearIfSet clears what an earlier reply set. Removing what the container has of
// its own leaves no trace among the owners.
func (c *claims) clearIfSet(place int, key FieldKey) {
	if had, ok := c.fields[key]; ok && !had.cleared {
		c.clear(place, key)
	}
}

func (c *claims) adjustment(hits []hit, place int, id string, a *api.ContainerAdjustment) []hit {
	if a == nil {
		return hits
	}
	hits = claimMap(c, hits, place, id, api.Field_Annotations, a.GetAnnotations())
	hits = claimList(c, hits, place, id, api.Field_Mounts, a.GetMounts(), (*api.Mount).GetDestination)
	hits = claimList(c, hits, place, id, api.Field_Env, a.GetEnv(), (*api.KeyValue).GetKey)
	if args := a.GetArgs(); len(args) > 0 {
		key := FieldKey{Container: id, Field: api.Field_Args}
		if args[0] == "" {
			c.clear(place, key)
		}
		hits = c.set(hits, place, key)
	}
	if h := a.GetHooks(); len(h.GetPrestart())+len(h.GetCreateRuntime())+len(h.GetCreateContainer())+
		len(h.GetStartContainer())+len(h.GetPoststart())+len(h.GetPoststop()) > 0 {
		c.hooks[id] = append(c.hooks[id], place)
	}
	if l := a.GetLinux(); l != nil {
		hits = c.linux(hits, place, id, l)
	}
	for _, l := range a.GetRlimits() {
		hits = c.set(hits, place, FieldKey{Container: id, Field: api.Field_Rlimits, Key: l.GetType()})
	}
	for _, d := range a.GetCDIDevices() {
		hits = c.set(hits, place, FieldKey{Container: id, Field: api.Field_CdiDevices, Key: d.GetName()})
	}
	return hits
}

func (c *claims) linux(hits []hit, place int, id string, l *api.LinuxContainerAdjustment) []hit {
	hits = claimList(c, hits, place, id, api.Field_Devices, l.GetDevices(), (*api.LinuxDevice).GetPath)
	hits = c.resources(hits, place, id, l.GetResources())
	for _, n := range l.GetNamespaces() {
		hits = c.set(hits, place, FieldKey{Container: id, Field: api.Field_Namespace, Key: api.ClearRemovalMarker(n.GetType())})
	}
	hits = claimMap(c, hits, place, id, api.Field_Sysctl, l.GetSysctl())
	hits = claimMap(c, hits, place, id, api.Field_LinuxNetDevices, l.GetNetDevices())
	if l.GetRdt().GetRemove() {
		for _, f := range []api.Field{api.Field_RdtClosID, api.Field_RdtSchemata, api.Field_RdtEnableMonitoring} {
			c.clear(place, FieldKey{Container: id, Field: f})
		}
	}
	for _, simple := range []struct {
		field api.Field
		isSet bool
	}{
		{api.Field_CgroupsPath, l.GetCgroupsPath() != ""},
		{api.Field_OomScoreAdj, l.GetOomScoreAdj() != nil},
		{api.Field_IoPriority, l.GetIoPriority() != nil},
		{api.Field_SeccompPolicy, l.GetSeccompPolicy() != nil},
		{api.Field_LinuxSched, l.GetScheduler() != nil},
		{api.Field_RdtClosID, l.GetRdt().GetClosId() != nil},
		{api.Field_RdtSchemata, l.GetRdt().GetSchemata() != nil},
		{api.Field_RdtEnableMonitoring, l.GetRdt().GetEnableMonitoring() != nil},
		{api.Field_MemoryPolicy, l.GetMemoryPolicy() != nil},
	} {
		if simple.isSet {
			hits = c.set(hits, place, FieldKey{Container: id, Field: simple.field})
		}
	}
	return hits
}

func (c *claims) resources(hits []hit, place int, id string, r *api.LinuxResources) []hit {
	if r == nil {
		return hits
	}
	m, cpu := r.GetMemory(), r.GetCpu()
	for _, simple := range []struct {
		field api.Field
		isSet bool
	}{
		{api.Field_MemLimit, m.GetLimit() != nil},
		{api.Field_MemReservation, m.GetReservation() != nil},
		{api.Field_MemSwapLimit, m.GetSwap() != nil},
		{api.Field_MemKernelLimit, m.GetKernel() != nil},
		{api.Field_MemTCPLimit, m.GetKernelTcp() != nil},
		{api.Field_MemSwappiness, m.GetSwappiness() != nil},
		{api.Field_MemDisableOomKiller, m.GetDisableOomKiller() != nil},
		{api.Field_MemUseHierarchy, m.GetUseHierarchy() != nil},
		{api.Field_CPUShares, cpu.GetShares() != nil},
		{api.Field_CPUQuota, cpu.GetQuota() != nil},
		{api.Field_CPUPeriod, cpu.GetPeriod() != nil},
		{api.Field_CPURealtimeRuntime, cpu.GetRealtimeRuntime() != nil},
		{api.Field_CPURealtimePeriod, cpu.GetRealtimePeriod() != nil},
		{api.Field_CPUSetCPUs, cpu.GetCpus() != ""},
		{api.Field_CPUSetMems, cpu.GetMems() != ""},
		{api.Field_BlockioClass, r.GetBlockioClass() != nil},
		{api.Field_RdtClass, r.GetRdtClass() != nil},
		{api.Field_PidsLimit, r.GetPids() != nil},
	} {
		if simple.isSet {
			hits = c.set(hits, place, FieldKey{Container: id, Field: simple.field})
		}
	}
	for _, l := range r.GetHugepageLimits() {
		hits = c.set(hits, place, FieldKey{Container: id, Field: api.Field_HugepageLimits, Key: l.GetPageSize()})
	}
	for key := range r.GetUnified() {
		hits = c.set(hits, place, FieldKey{Container: id, Field: api.Field_CgroupsUnified, Key: key})
	}
	return hits
}

// claimMap claims the entries of a field that NRI keeps in a map. A removal
// counts only when the same reply sets the entry anew.
func claimMap[V any](c *claims, hits []hit, place int, id string, f api.Field, entries map[string]V) []hit {
	for key := range entries {
		if _, marked := api.IsMarkedForRemoval(key); marked {
			continue
		}
		k := FieldKey{Container: id, Field: f, Key: key}
		if _, removed := entries[api.MarkForRemoval(key)]; removed {
			c.clear(place, k)
		}
		hits = c.set(hits, place, k)
	}
	return hits
}

// claimList claims the entries of a field that NRI keeps in a list. All
// removals come before anything is set.
func claimList[E any](c *claims, hits []hit, place int, id string, f api.Field, entries []E, keyOf func(E) string) []hit {
	for _, e := range entries {
		if key, marked := api.IsMarkedForRemoval(keyOf(e)); marked {
			c.clearIfSet(place, FieldKey{Container: id, Field: f, Key: key})
		}
	}
	for _, e := range entries {
		if key, marked := api.IsMarkedForRemoval(keyOf(e)); !marked {
			hits = c.set(hits, place, FieldKey{Container: id, Field: f, Key: key})
		}
	}
	return hits
}

func compareKeys(a, b FieldKey) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key))
}

// summary sorts hits, takes out repetitions and cuts the list of fields.
func (ev *event) summary(hits []hit) (with []int, fields []FieldKey) {
	for _, h := range hits {
		with = append(with, ev.order[h.with])
		fields = append(fields, h.key)
	}
	slices.Sort(with)
	slices.SortFunc(fields, compareKeys)
	fields = slices.Compact(fields)
	return slices.Compact(with), fields[:min(len(fields), MaxFields)]
}
