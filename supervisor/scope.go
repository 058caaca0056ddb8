package supervisor

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

const (
	// updatesPerSecond and updatesBurst bound how many updates of one plugin are looked at outside of events: several changes for each container of a full node at
	// once, and then more in a second than such a node has containers; those for the same container are coalesced before the runtime is asked. What comes faster is returned without a look.
	updatesPerSecond, updatesBurst = 500, 4 * updateBacklog
)

// updateDenied says why the plugin may not update the container, or nothing. event is the container of the event; own says that it may be updated without being in scope first.
func (h *host) updateDenied(id string, event store.Ref, own bool) string {
	if rt := h.sup.runtimeInfo().Name; takesNoUpdates(rt) {
		return fmt.Sprintf("the runtime %q fails whatever it is asked along with an update", oneLine(rt))
	}
	scope := h.policy().UpdateScope()
	if scope == policy.UpdateNone {
		return "permissions.update is none"
	}
	if own && id == event.Container {
		return ""
	}
	if scope == policy.UpdateOwn && (id != event.Container || id == "") {
		return "permissions.update is own, and this is not the container of the event"
	}
	ref := h.sup.store.Resolve(nil, &api.Container{Id: id})
	if event.Container != "" && id == event.Container {
		ref = event
	}
	if ref.Pod == "" || !h.sup.mayUpdate(h, ref) {
		return "the plugin's selector does not select this container"
	}
	return ""
}

// takesNoUpdates reports whether the runtime is known to fail a creation because of any update in its reply: Docker.
func takesNoUpdates(runtime string) bool {
	r := strings.ToLower(runtime)
	return strings.Contains(r, "docker") || strings.Contains(r, "moby")
}

// failsWithUpdates reports whether the runtime is known to fail a creation or stop when one update in its reply fails: CRI-O.
func failsWithUpdates(runtime string) bool {
	r := strings.ToLower(runtime)
	return strings.Contains(r, "cri-o") || strings.Contains(r, "crio")
}

// gentle makes the updates of a reply such that none of them can make the runtime fail the event. The container of an update event itself is left as it is: its
// update is what the runtime was asked for.
func (s *Supervisor) gentle(updates []*api.ContainerUpdate, own string) []*api.ContainerUpdate {
	if len(updates) == 0 || !failsWithUpdates(s.runtimeInfo().Name) {
		return updates
	}
	for _, u := range updates {
		u.IgnoreFailure = u.GetIgnoreFailure() || own == "" || u.GetContainerId() != own
	}
	return updates
}

// pace is a token bucket for a plugin's updates outside of events. Safe for concurrent use; the zero value is full.
type pace struct {
	mu    sync.Mutex
	spent float64
	at    time.Time
}

// take returns how many of n updates may be looked at now.
func (p *pace) take(n int, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent = max(0, p.spent-updatesPerSecond*now.Sub(p.at).Seconds())
	p.at = now
	n = min(n, int(updatesBurst-p.spent))
	p.spent += float64(n)
	return n
}
