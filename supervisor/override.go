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

// setReply is what one accepted reply sets and removes, by what it means, so that replies of any size are compared in time.
type setReply struct {
	place   int
	plugin  string
	set     map[policy.FieldKey]string // with the path made clean → the key as it is spelled
	removed map[policy.FieldKey]bool   // as they are spelled, since a marker in another spelling removes nothing
}

// add notes what an accepted reply sets and removes.
func (s *setFields) add(place int, plugin string, a *api.ContainerAdjustment) {
	r := setReply{place: place, plugin: plugin, set: map[policy.FieldKey]string{}, removed: map[policy.FieldKey]bool{}}
	policy.EachField(a, func(k policy.FieldKey) {
		if k.Removal {
			r.removed[k] = true
		} else {
			m := meant(k)
			r.set[m] = max(r.set[m], k.Key) // of two spellings of one path the same one each time
		}
	})
	if len(r.set)+len(r.removed) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.replies)
	for at > 0 && s.replies[at-1].place > place {
		at--
	}
	s.replies = slices.Insert(s.replies, at, r)
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

// maxOverrides bounds how much is listed of one reply, as policy bounds its denials.
const maxOverrides = 64

// removedBy lists what the reply of the plugin at place removes, or lays something over by another spelling of its path, although a plugin before it set it. What it sets by the same
// spelling is a conflict, which the merge finds.
func (s *setFields) removedBy(place int, a *api.ContainerAdjustment) []policy.Denial {
	var candidates []policy.FieldKey // few, as a rule
	policy.EachField(a, func(k policy.FieldKey) {
		if k.Removal || isPath(k) {
			candidates = append(candidates, k)
		}
	})
	var out []policy.Denial
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) == 0 {
		return nil
	}
	for _, k := range policy.SortFields(candidates) {
		if owner, as := s.ownerLocked(place, k); owner != "" && (k.Removal || as != k.Key) {
			out = append(out, policy.Denial{Field: k.Field, Key: k.Key, Rule: policy.RuleOverride, Detail: "set by " + owner})
			if len(out) == maxOverrides {
				break
			}
		}
	}
	return out
}

// isPath reports whether the key is a path in the container, which can be spelled in several ways.
func isPath(k policy.FieldKey) bool {
	return (k.Field == "Mounts" || k.Field == "Devices") && strings.HasPrefix(k.Key, "/")
}

// meant is what a key names, whatever is done to it and however a path is spelled.
func meant(k policy.FieldKey) policy.FieldKey {
	if k.Removal = false; isPath(k) {
		k.Key = path.Clean(k.Key)
	}
	return k
}

// ownerLocked names the plugin that what the key names belongs to in the eyes of the plugin at place, and how it spelled it; "" when nobody before it set it, or when it was removed again.
func (s *setFields) ownerLocked(place int, key policy.FieldKey) (owner, as string) {
	key = meant(key)
	for i := range s.replies {
		r := &s.replies[i]
		if r.place >= place {
			break
		}
		spelled, set := r.set[key]
		switch { // within a reply, removals come first
		case set:
			owner, as = r.plugin, spelled
		case owner != "" && r.removed[policy.FieldKey{Field: key.Field, Key: as, Removal: true}]:
			owner, as = "", ""
		}
	}
	return owner, as
}
