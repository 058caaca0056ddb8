package policy

import "github.com/containerd/nri/pkg/api"

// Field is a kind of adjustment by NRI's own name, such as "Env" or "MemLimit": the names of
// NRI's api.Field. It is a closed set.
type Field string

// Grant is what permissions.adjust lists: a Field, or one of the groups memory, cpu and *.
type Grant string

// FieldKey is one thing that a reply sets or removes.
type FieldKey struct {
	// Field is the kind of adjustment.
	Field Field
	// Key tells entries of one field apart: the name of a variable, the destination of a
	// mount, the key of an annotation. Empty for fields without entries.
	Key string
	// Removal says that the entry is a removal marker.
	Removal bool
}

// FieldsOf lists everything that the adjustment sets, in NRI's order of fields, then by key. Nil sets nothing.
func FieldsOf(adj *api.ContainerAdjustment) []FieldKey { return nil }

// FieldsOfUpdate lists everything that the update sets, in NRI's order of fields, then by key. Nil sets nothing.
func FieldsOfUpdate(u *api.ContainerUpdate) []FieldKey { return nil }
