package supervisor

import (
	"sync"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// setFields is what the plugins of one event have set so far. Removing it, and so replacing it, needs permissions.override, which no manifest of this version can have. Safe for
// concurrent use; the zero value is ready for use.
type setFields struct {
	mu  sync.Mutex
	set map[policy.FieldKey]bool
}

// add notes what an accepted reply sets.
func (s *setFields) add(a *api.ContainerAdjustment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range policy.FieldsOf(a) {
		if f.Removal {
			continue
		}
		if s.set == nil {
			s.set = map[policy.FieldKey]bool{}
		}
		s.set[f] = true
	}
}

// removedBy lists the fields that the adjustment removes and an earlier plugin has set.
func (s *setFields) removedBy(a *api.ContainerAdjustment) []policy.Field {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.set) == 0 {
		return nil
	}
	var out []policy.Field
	for _, f := range policy.FieldsOf(a) {
		if f.Removal && s.set[policy.FieldKey{Field: f.Field, Key: f.Key}] {
			out = append(out, f.Field)
		}
	}
	return out
}
