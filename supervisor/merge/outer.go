package merge

import (
	"maps"
	"slices"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// The runtime takes the outer reply for the reply of one plugin, among others
// that it knows. It must do there what the members' replies would do one after the
// other. For what is set the merged adjustment says that. For what is removed it does
// not: the adaptation acts on most removals and forgets them, but other
// plugins of the runtime must see them too. So removals are put back, for
// each entry that
//
//   - was removed before any member set it: it may belong to the container or
//     to another plugin of the runtime;
//   - is removed in the end: a member set it, but the container may have it as well.
//
// An entry that a member set first and another one replaced needs no removal:
// outside it was set once.

// outerCreate makes the outer reply from what the adaptation merged.
func (ev *event) outerCreate(merged *api.ContainerAdjustment) *api.CreateContainerResponse {
	if merged == nil {
		merged = &api.ContainerAdjustment{}
	}
	ev.restoreRemovals(merged)
	return &api.CreateContainerResponse{
		Adjust: pruneAdjustment(merged),
		Update: ev.mergedUpdates(),
		Evict:  ev.evictions(),
	}
}

// passThrough makes the outer reply from the only reply there is.
func (ev *event) passThrough() *api.CreateContainerResponse {
	rpl := &api.CreateContainerResponse{Update: ev.mergedUpdates(), Evict: ev.evictions()}
	if len(ev.order) == 1 {
		rpl.Adjust = ev.counting(0).getAdjust()
	}
	return rpl
}

func (ev *event) restoreRemovals(merged *api.ContainerAdjustment) {
	linux := merged.GetLinux()
	if linux == nil {
		linux = &api.LinuxContainerAdjustment{}
	}

	merged.Annotations = restoreInMap(ev, merged.GetAnnotations(), "", (*api.ContainerAdjustment).GetAnnotations)
	linux.Sysctl = restoreInMap(ev, linux.GetSysctl(), "",
		func(a *api.ContainerAdjustment) map[string]string { return a.GetLinux().GetSysctl() })
	linux.NetDevices = restoreInMap(ev, linux.GetNetDevices(), &api.LinuxNetDevice{},
		func(a *api.ContainerAdjustment) map[string]*api.LinuxNetDevice { return a.GetLinux().GetNetDevices() })

	merged.Mounts = restoreInList(ev, merged.GetMounts(), (*api.ContainerAdjustment).GetMounts, (*api.Mount).GetDestination,
		func(marker string) *api.Mount { return &api.Mount{Destination: marker} })
	merged.Env = restoreInList(ev, merged.GetEnv(), (*api.ContainerAdjustment).GetEnv, (*api.KeyValue).GetKey,
		func(marker string) *api.KeyValue { return &api.KeyValue{Key: marker} })
	linux.Devices = restoreInList(ev, linux.GetDevices(),
		func(a *api.ContainerAdjustment) []*api.LinuxDevice { return a.GetLinux().GetDevices() }, (*api.LinuxDevice).GetPath,
		func(marker string) *api.LinuxDevice { return &api.LinuxDevice{Path: marker} })

	ev.restoreArgs(merged)
	ev.restoreRdt(linux)
	merged.Linux = linux
}

// restoreArgs puts the empty first argument back that means "instead of all there are".
func (ev *event) restoreArgs(merged *api.ContainerAdjustment) {
	touched, removedFirst := false, false
	for place := range ev.order {
		args := ev.counting(place).getAdjust().GetArgs()
		if len(args) > 0 && !touched {
			touched, removedFirst = true, args[0] == ""
		}
	}
	args := merged.GetArgs()
	if touched && (removedFirst || len(args) == 0 || args[0] == "") {
		merged.Args = append([]string{""}, args...)
	}
}

// restoreRdt puts the removal back that values set later hide.
func (ev *event) restoreRdt(linux *api.LinuxContainerAdjustment) {
	for place := range ev.order {
		if ev.counting(place).getAdjust().GetLinux().GetRdt().GetRemove() {
			if linux.Rdt == nil {
				linux.Rdt = &api.LinuxRdt{}
			}
			linux.Rdt.Remove = true
			return
		}
	}
}

// history is what happened to one entry.
type history struct {
	removedFirst bool
	removedLast  bool
}

// histories follows the entries of one field through all replies. It is nil when
// nothing was removed. Within a reply, removals come first.
func histories[E any](ev *event, entriesOf func(*api.ContainerAdjustment) []E, keyOf func(E) string) map[string]history {
	removals := false
	for place := range ev.order {
		for _, e := range entriesOf(ev.counting(place).getAdjust()) {
			_, marked := api.IsMarkedForRemoval(keyOf(e))
			removals = removals || marked
		}
	}
	if !removals {
		return nil
	}
	seen := map[string]history{}
	for place := range ev.order {
		entries := entriesOf(ev.counting(place).getAdjust())
		for _, removing := range []bool{true, false} {
			for _, e := range entries {
				key, marked := api.IsMarkedForRemoval(keyOf(e))
				if marked != removing {
					continue
				}
				h, known := seen[key]
				if !known {
					h.removedFirst = removing
				}
				h.removedLast = removing
				seen[key] = h
			}
		}
	}
	return seen
}

// restoreInList puts removals before what is set, sorted. What is set keeps its order.
func restoreInList[E any](ev *event, merged []E, entriesOf func(*api.ContainerAdjustment) []E, keyOf func(E) string, marker func(string) E) []E {
	seen := histories(ev, entriesOf, keyOf)
	if seen == nil {
		return merged
	}
	var restored []E
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if h := seen[key]; h.removedFirst || h.removedLast {
			restored = append(restored, marker(api.MarkForRemoval(key)))
		}
	}
	for _, e := range merged {
		if _, marked := api.IsMarkedForRemoval(keyOf(e)); !marked {
			restored = append(restored, e)
		}
	}
	return restored
}

// restoreInMap does the same for a map. There the adaptation keeps removals,
// but beside values that they removed: the runtime would apply both, in the
// order of a Go map.
func restoreInMap[V any](ev *event, merged map[string]V, nothing V, entriesOf func(*api.ContainerAdjustment) map[string]V) map[string]V {
	seen := histories(ev, func(a *api.ContainerAdjustment) []string {
		return slices.Collect(maps.Keys(entriesOf(a)))
	}, func(key string) string { return key })
	if seen != nil && merged == nil {
		merged = map[string]V{}
	}
	for key, h := range seen {
		if h.removedFirst || h.removedLast {
			merged[api.MarkForRemoval(key)] = nothing
		} else {
			delete(merged, api.MarkForRemoval(key))
		}
		if h.removedLast {
			delete(merged, key)
		}
	}
	return merged
}

// pruneAdjustment takes out the empty messages that the adaptation starts with. What a
// member set stays, also where it is a zero value: there it means something.
func pruneAdjustment(a *api.ContainerAdjustment) *api.ContainerAdjustment {
	if l := a.GetLinux(); l != nil {
		l.Resources = pruneResources(l.GetResources())
		l.Rdt = pruned(l.GetRdt())
	}
	a.Hooks = pruned(a.GetHooks())
	a.Linux = pruned(a.GetLinux())
	return pruned(a)
}

func pruneResources(r *api.LinuxResources) *api.LinuxResources {
	if r != nil {
		r.Memory = pruned(r.GetMemory())
		r.Cpu = pruned(r.GetCpu())
	}
	return pruned(r)
}

// pruned gives nil for a message with nothing in it.
func pruned[M any, P interface {
	*M
	proto.Message
}](m P) P {
	if m == nil || proto.Size(m) == 0 {
		return nil
	}
	return m
}
