package merge

import (
	"slices"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// mergedUpdates gives the updates in the order in which they were asked for. They hold
// what members set and nothing else: NRI's own echo the whole request and lose
// pids. Nothing is set twice, since all collisions were settled, so what is asked for one
// container simply adds up.
//
// Updates with IgnoreFailure stay apart from those of other members. The
// runtime forgets such an update as a whole when it collides with one of
// another plugin of the runtime, and one member's must not take another's with it.
func (ev *event) mergedUpdates() []*api.ContainerUpdate {
	type bundle struct {
		container string
		apart     int // 1 + the place that it belongs to, 0 = everybody's
	}
	var merged []*api.ContainerUpdate
	var bundles []bundle
	for place := range ev.order {
		for _, u := range ev.counting(place).getUpdate() {
			u = proto.CloneOf(u)
			if u.GetLinux() != nil {
				u.Linux.Resources = pruneResources(u.GetLinux().GetResources())
			}
			if pruned(u.GetLinux()) == nil {
				continue // it names a container and sets nothing
			}
			b := bundle{container: u.GetContainerId()}
			if u.GetIgnoreFailure() && !ev.pidsRequested(b.container) {
				b.apart = 1 + place
			}
			if at := slices.Index(bundles, b); at >= 0 {
				merged[at].IgnoreFailure = merged[at].IgnoreFailure && u.GetIgnoreFailure()
				proto.Merge(merged[at].Linux, u.GetLinux())
				continue
			}
			merged, bundles = append(merged, u), append(bundles, b)
		}
	}
	return merged
}

// pidsRequested tells whether the runtime itself asks for pids of a container.
// Then its adaptation lets a plugin name that container only once.
func (ev *event) pidsRequested(container string) bool {
	return ev.pids != nil && container == ev.updated
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
