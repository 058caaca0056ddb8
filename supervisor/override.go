package supervisor

import (
	"slices"
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

// drop forgets a reply that was left out after all.
func (s *setFields) drop(place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = slices.DeleteFunc(s.replies, func(r setReply) bool { return r.place == place })
}

// removedBy lists what the reply of the plugin at place removes although a plugin before it set it.
func (s *setFields) removedBy(place int, a *api.ContainerAdjustment) []policy.Denial {
	removals := slices.DeleteFunc(policy.FieldsOf(a), func(k policy.FieldKey) bool { return !k.Removal })
	if len(removals) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []policy.Denial
	for _, k := range removals {
		if owner := s.ownerLocked(place, policy.FieldKey{Field: k.Field, Key: k.Key}); owner != "" {
			out = append(out, policy.Denial{Field: k.Field, Key: k.Key, Rule: policy.RuleOverride, Detail: "set by " + owner})
		}
	}
	return out
}

// ownerLocked names the plugin that the field belongs to in the eyes of the plugin at place; "" when nobody before it set it, or when it was removed again.
func (s *setFields) ownerLocked(place int, key policy.FieldKey) (owner string) {
	removal := key
	removal.Removal = true
	for _, r := range s.replies {
		if r.place >= place {
			break
		}
		switch { // within a reply, removals come first
		case slices.Contains(r.keys, key):
			owner = r.plugin
		case slices.Contains(r.keys, removal):
			owner = ""
		}
	}
	return owner
}
