package merge

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// Member is one plugin that takes part in an event.
type Member struct {
	// Name is the plugin's name. It must be unique among the members of an
	// event, and is what owners are reported by.
	Name string
	// Index is the plugin's NRI index. Indexes are compared as text, as NRI does.
	Index string
	// Parallel allows calling the member at once with the others of its index,
	// when all of them allow it.
	Parallel bool
	// Validates says that the member judges the merged adjustment of a
	// CreateContainer. It has no meaning for the other events.
	Validates bool
}

// Call asks a member for its reply; member is its position in the slice given
// to the engine. A nil reply says nothing. The context is the one given to the
// engine, as it is.
//
// The request is the member's own view. It must not be changed, may be kept
// for as long as the callee likes, and is never changed by the engine after it
// was handed out. The reply belongs to the engine from then on.
type Call[Req, Rpl any] func(ctx context.Context, member int, req Req) Rpl

// Validate asks a member that validates whether it accepts the merged
// adjustment: ok, or else the reason why not. Owners and plugins in the request
// carry member names, and plugins whose reply was dropped are not in it. The
// same request is handed to all validating members at once and must not be
// changed.
type Validate func(ctx context.Context, member int, req *api.ValidateContainerAdjustmentRequest) (reason string, ok bool)

// CreateOptions are what a CreateContainer may ask for beyond the reply. The
// zero value asks for nothing.
type CreateOptions struct {
	// Validate is called for each member that validates, at most once per
	// event and after all conflicts are settled. Nil means no validation.
	Validate Validate
	// Accept is asked once for each reply, in calling order, when all that come before it in this order are settled, and before any member of a later stage is asked. False leaves the whole
	// reply out: the merge goes on as if the member had said nothing, and nobody is told. It runs on the caller's goroutine. Nil accepts everything.
	Accept func(member int) bool
	// Dropped is told of each reply that is left out, when that happens and before any later
	// member is asked. It runs on the caller's goroutine. Nil tells nobody.
	Dropped func(Dropped)
	// Owners asks for CreateResult.Owners. It costs about 25 to 40 µs when two
	// or more members take part.
	Owners bool
}

// CreateResult is the outcome of a CreateContainer.
type CreateResult struct {
	// Reply is never nil, has no nil entries and no update without a container id.
	// It is complete also when Rejected is set: whether a rejection counts is
	// the caller's decision.
	Reply *api.CreateContainerResponse
	// Dropped are the members whose whole reply was left out, in the order in which that
	// happened.
	Dropped []Dropped
	// LostUpdates are single updates that were left out of replies that count otherwise.
	LostUpdates []LostUpdate
	// Owners tells by member name who set what, by container id. It is nil
	// unless it was asked for.
	Owners *api.OwningPlugins
	// Rejected is the first rejection in member order, or nil.
	Rejected *Rejection
}

// UpdateResult is the outcome of an UpdateContainer.
type UpdateResult struct {
	// Reply is never nil. It names only fields that a member set.
	Reply *api.UpdateContainerResponse
	// Dropped is as in CreateResult.
	Dropped []Dropped
	// LostUpdates is as in CreateResult.
	LostUpdates []LostUpdate
	// Owners tells by member name who set what, by container id. Never nil.
	Owners *api.OwningPlugins
}

// StopResult is the outcome of a StopContainer.
type StopResult struct {
	// Reply is never nil.
	Reply *api.StopContainerResponse
	// Dropped is as in CreateResult.
	Dropped []Dropped
	// LostUpdates is as in CreateResult.
	LostUpdates []LostUpdate
	// Owners tells by member name who set what, by container id. Never nil.
	Owners *api.OwningPlugins
}

// Cause says why a whole reply was dropped. It is a closed set.
type Cause int

const (
	// CauseConflict means that the reply sets what an earlier member of this event set.
	CauseConflict Cause = iota + 1
	// CauseSelfConflict means that the reply sets the same thing twice.
	CauseSelfConflict
	// CauseUpdatesCreated means that the reply updates the container that is being created.
	CauseUpdatesCreated
	// CauseRefused means that NRI's adaptation refused the reply, and no claim of it explains why.
	CauseRefused
)

// String gives the label of the cause.
func (c Cause) String() string {
	switch c {
	case CauseConflict:
		return "conflict"
	case CauseSelfConflict:
		return "self_conflict"
	case CauseUpdatesCreated:
		return "updates_created"
	case CauseRefused:
		return "refused"
	default:
		return "unknown"
	}
}

// MaxFields bounds the fields listed for one loss. A reply of 4 MiB, the limit of
// a message, can hold some 100,000; nobody reads more than a few, and losses are kept.
const MaxFields = 64

// Dropped is a member whose whole reply was left out.
type Dropped struct {
	// Member is its position in the slice given to the engine.
	Member int
	// Cause says why.
	Cause Cause
	// With are the members it collided with, ascending and without repetition;
	// itself for CauseSelfConflict; none when nobody is known.
	With []int
	// Fields are the fields that collided, sorted, at most MaxFields of them.
	Fields []FieldKey
	// Message says the same in words, for people.
	Message string
}

// LostUpdate is one update with IgnoreFailure that collided with an earlier
// one. NRI leaves such an update out without a word; the rest of the reply counts.
type LostUpdate struct {
	// Member is the position of the member that asked for the update.
	Member int
	// Update is the update itself, to be given back to the member as failed.
	Update *api.ContainerUpdate
	// With are the members it collided with, ascending.
	With []int
	// Fields are the fields that collided, sorted, at most MaxFields of them.
	Fields []FieldKey
}

// Rejection is a validating member's refusal of the merged adjustment.
type Rejection struct {
	// Member is its position in the slice given to the engine.
	Member int
	// Reason is the member's own text.
	Reason string
}

// FieldKey names one thing that a reply can set: a field of a container and,
// where NRI tells entries of a field apart, the entry.
type FieldKey struct {
	// Container is the container's id.
	Container string
	// Field is NRI's own name of the field.
	Field api.Field
	// Key is the entry: name of an environment variable, destination of a
	// mount, and so on. Empty for fields without entries.
	Key string
}

// String gives the field and, in brackets, the entry: Env[FOO], MemLimit.
func (k FieldKey) String() string {
	if k.Key == "" {
		return k.Field.String()
	}
	return k.Field.String() + "[" + k.Key + "]"
}
