package supervisor

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// setFields is what the plugins of one event have set so far. Removing it, and so replacing it, needs permissions.override. A plugin is known by its place in
// calling order: what a later one sets, which happens in a parallel stage, is never held against an earlier one. Safe for concurrent use; the zero value is ready for use.
type setFields struct {
	mu      sync.Mutex
	replies []setReply // ascending by place
}

// setReply is what one accepted reply sets and removes.
type setReply struct {
	place  int
	plugin string
	keys   []policy.FieldKey
}

// add notes what an accepted reply sets and removes.
func (s *setFields) add(place int, plugin string, a *api.ContainerAdjustment) {
	keys := policy.FieldsOf(a)
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.replies)
	for at > 0 && s.replies[at-1].place > place {
		at--
	}
	s.replies = slices.Insert(s.replies, at, setReply{place: place, plugin: plugin, keys: keys})
}

// reset forgets all replies, for another merge of the same ones.
func (s *setFields) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = nil
}

// drop forgets a reply that was left out after all.
func (s *setFields) drop(place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = slices.DeleteFunc(s.replies, func(r setReply) bool { return r.place == place })
}

// removedBy lists what the reply of the plugin at place removes, or lays something over by another spelling of its path, although a plugin before it set it. What it sets by the same
// spelling is a conflict, which the merge finds.
func (s *setFields) removedBy(place int, a *api.ContainerAdjustment) []policy.Denial {
	var out []policy.Denial
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) == 0 {
		return nil
	}
	for _, k := range policy.FieldsOf(a) {
		if !k.Removal && !isPath(k) {
			continue
		}
		if owner, as := s.ownerLocked(place, k); owner != "" && (k.Removal || as != k.Key) {
			out = append(out, policy.Denial{Field: k.Field, Key: k.Key, Rule: policy.RuleOverride, Detail: "set by " + owner})
		}
	}
	return out
}

// isPath reports whether the key is a path in the container, which can be spelled in several ways.
func isPath(k policy.FieldKey) bool {
	return (k.Field == "Mounts" || k.Field == "Devices") && strings.HasPrefix(k.Key, "/")
}

// same reports whether two keys name the same thing, whatever they do to it.
func same(a, b policy.FieldKey) bool {
	return a.Field == b.Field && (a.Key == b.Key || isPath(a) && isPath(b) && path.Clean(a.Key) == path.Clean(b.Key))
}

// ownerLocked names the plugin that what the key names belongs to in the eyes of the plugin at place, and how it spelled it; "" when nobody before it set it, or when it was removed again.
func (s *setFields) ownerLocked(place int, key policy.FieldKey) (owner, as string) {
	for _, r := range s.replies {
		if r.place >= place {
			break
		}
		set, removed, spelled := false, false, ""
		for _, k := range r.keys {
			switch {
			case !same(k, key):
			case k.Removal:
				removed = removed || k.Key == as // a marker in another spelling removes nothing
			default:
				set, spelled = true, k.Key
			}
		}
		switch { // within a reply, removals come first
		case set:
			owner, as = r.plugin, spelled
		case removed:
			owner, as = "", ""
		}
	}
	return owner, as
}
