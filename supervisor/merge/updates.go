package merge

import (
	"slices"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// mergedUpdates gives one update per container, in the order in which the
// containers were first named and the container being updated last, as NRI
// does. It holds what members set and nothing else: NRI's own echoes the
// whole request and loses pids. Nothing is set twice, since all collisions were
// settled, so the updates of a container simply add up.
func (ev *event) mergedUpdates() []*api.ContainerUpdate {
	var merged []*api.ContainerUpdate
	for place := range ev.order {
		for _, u := range ev.counting(place).getUpdate() {
			at := slices.IndexFunc(merged, func(m *api.ContainerUpdate) bool { return m.GetContainerId() == u.GetContainerId() })
			if at < 0 {
				merged = append(merged, proto.CloneOf(u))
				continue
			}
			m := merged[at]
			m.IgnoreFailure = m.IgnoreFailure && u.GetIgnoreFailure()
			if u.GetLinux() != nil {
				if m.Linux == nil {
					m.Linux = &api.LinuxContainerUpdate{}
				}
				proto.Merge(m.Linux, u.GetLinux())
			}
		}
	}
	merged = slices.DeleteFunc(merged, func(m *api.ContainerUpdate) bool {
		if m.GetLinux() != nil {
			m.Linux.Resources = pruneResources(m.GetLinux().GetResources())
		}
		return m.GetLinux().GetResources() == nil
	})
	slices.SortStableFunc(merged, func(a, b *api.ContainerUpdate) int {
		return rank(a.GetContainerId() == ev.updated) - rank(b.GetContainerId() == ev.updated)
	})
	return merged
}

// rank orders false before true.
func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// evictions gives the evictions that the counting replies ask for. Runtimes
// ignore them so far; the adaptation does not carry them.
func (ev *event) evictions() []*api.ContainerEviction {
	var all []*api.ContainerEviction
	for place := range ev.order {
		if r := ev.counting(place); r != nil {
			all = append(all, r.evict...)
		}
	}
	return all
}
