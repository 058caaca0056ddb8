package journal

import (
	"cmp"
	"slices"
	"time"
)

// Owner says which plugin set a field of a container last.
type Owner struct {
	// Field and Key name the field, Removed that its owner took it away.
	Field   string `json:"field"`
	Key     string `json:"key,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	// Plugin and Team are the owner.
	Plugin string `json:"plugin"`
	Team   string `json:"team,omitempty"`
	// Event and Time say by which decision.
	Event string    `json:"event,omitempty"`
	Time  time.Time `json:"time"`
}

// String gives the field and, in brackets, the entry; a leading minus is a removal.
func (o Owner) String() string {
	return Field{Field: o.Field, Key: o.Key, Removed: o.Removed}.String()
}

// Owners tells who owns each field of a container after the decisions, which are in order of time; sorted by field and key. What the runtime itself changes, such as the kubelet's updates of
// resources, is not known here.
func Owners(ds []Decision, containerID string) []Owner {
	type name struct{ field, key string }
	last := map[name]Owner{}
	for i := range ds {
		d := &ds[i]
		if d.Action != ActionAllowed {
			continue
		}
		for _, f := range d.Changed {
			of := cmp.Or(f.Container, d.ContainerID)
			if of != containerID {
				continue
			}
			k := name{f.Field, f.Key}
			if old, ok := last[k]; f.Removed && ok && old.Plugin == d.Plugin && !old.Removed && old.Time.Equal(d.Time) {
				continue // the reply removes the entry in order to set it
			}
			last[k] = Owner{Field: f.Field, Key: f.Key, Removed: f.Removed, Plugin: d.Plugin, Team: d.Team, Event: d.Event, Time: d.Time}
		}
	}
	out := make([]Owner, 0, len(last))
	for _, o := range last {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Owner) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key)) })
	return out
}

// About reports whether the decision is about the container, or about the pod when containerID is empty: as its object, or because it changes the container or left a change of it out.
func (d *Decision) About(podID, containerID string) bool {
	if d.PodID == podID && d.ContainerID == containerID && d.Kind != KindManual {
		return true
	}
	its := func(f Field) bool { return f.Container == containerID }
	return containerID != "" && (slices.ContainsFunc(d.Changed, its) || slices.ContainsFunc(d.Dropped, its))
}

// Touches reports whether the decision is about the pod of that name or something in it, as its object, or because it changes a container of it.
func (d *Decision) Touches(namespace, pod string) bool {
	its := func(f Field) bool { return f.Namespace == namespace && f.Pod == pod }
	return d.Namespace == namespace && d.Pod == pod || slices.ContainsFunc(d.Changed, its) || slices.ContainsFunc(d.Dropped, its)
}
