package journal

import "time"

// Kind is what a decision is about. It is a closed set.
type Kind string

// The kinds.
const (
	// KindEvent is one plugin's part in one event of the runtime.
	KindEvent Kind = "event"
	// KindSelection names the plugins that were not selected for a new pod or container which others were selected for. It has no plugin.
	KindSelection Kind = "selection"
	// KindUpdate is an update of a container that was denied, lost, or sent to the runtime without an event.
	KindUpdate Kind = "update"
	// KindMissed is a container that was found running without a plugin's work.
	KindMissed Kind = "missed"
	// KindManual is what an operator did.
	KindManual Kind = "manual"
	// KindLost says that Count decisions before this one were lost because the reader was slow.
	KindLost Kind = "lost"
)

// Kinds lists the closed set.
func Kinds() []Kind {
	return []Kind{KindEvent, KindSelection, KindUpdate, KindMissed, KindManual, KindLost}
}

// String returns the name.
func (k Kind) String() string { return string(k) }

// Match is what became of the selection. It is a closed set; empty where no plugin was to be selected.
type Match string

// The outcomes of a selection.
const (
	// MatchSelected is a plugin whose selector matched.
	MatchSelected Match = "selected"
	// MatchNot is a plugin whose selector did not match.
	MatchNot Match = "not_selected"
	// MatchError is a plugin whose selector could not be evaluated.
	MatchError Match = "match_error"
	// MatchOptedOut is a plugin that said that it is not interested.
	MatchOptedOut Match = "opted_out"
)

// Matches lists the closed set.
func Matches() []Match { return []Match{MatchSelected, MatchNot, MatchError, MatchOptedOut} }

// String returns the name.
func (m Match) String() string { return string(m) }

// Action is what followed from a decision. It is a closed set.
type Action string

// The actions.
const (
	// ActionAllowed: the plugin's answer counts.
	ActionAllowed Action = "allowed"
	// ActionIgnored: the plugin's work is missing, and the event went on as if the plugin were not there.
	ActionIgnored Action = "ignored"
	// ActionFailed: the plugin's work is missing, and its failurePolicy made the request fail.
	ActionFailed Action = "failed"
	// ActionRefused: the plugin refused on purpose, and the request failed.
	ActionRefused Action = "refused"
	// ActionOverruled: the plugin refused on purpose, and the pod or event is protected from it.
	ActionOverruled Action = "overruled"
	// ActionWithheld: the plugin was not asked, because it is recorded already that it does not know the container.
	ActionWithheld Action = "withheld"
	// ActionOptedOut: the plugin answered that it wants to hear no more of the pod or container.
	ActionOptedOut Action = "opted_out"
	// ActionDiscarded: the answer was good, and came to nothing because another plugin made the request fail.
	ActionDiscarded Action = "discarded"
	// ActionDenied: an update was not granted.
	ActionDenied Action = "denied"
	// ActionLost: an update was granted, and did not reach the container.
	ActionLost Action = "lost"
	// ActionDone: an operator's action was taken note of.
	ActionDone Action = "done"
)

// Actions lists the closed set.
func Actions() []Action {
	return []Action{
		ActionAllowed, ActionIgnored, ActionFailed, ActionRefused, ActionOverruled, ActionWithheld, ActionOptedOut, ActionDiscarded, ActionDenied, ActionLost, ActionDone,
	}
}

// String returns the name.
func (a Action) String() string { return string(a) }

// Field is one thing that a reply sets or removes. It never holds a value.
type Field struct {
	// Field is NRI's name of the field, such as Env or MemLimit.
	Field string `json:"field"`
	// Key is the entry: the name of a variable, the destination of a mount. Empty for fields without entries.
	Key string `json:"key,omitempty"`
	// Removed says that the entry is taken away.
	Removed bool `json:"removed,omitempty"`
	// Container is the id of the container if it is not the one that the decision is about.
	Container string `json:"container,omitempty"`
	// Namespace, Pod and PodID name the pod of that container, as in Object.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	PodID     string `json:"podID,omitempty"`
}

// String gives the field and, in brackets, the entry: Env[FOO]; a leading minus is a removal.
func (f Field) String() string {
	s := f.Field
	if f.Key != "" {
		s += "[" + f.Key + "]"
	}
	if f.Removed {
		s = "-" + s
	}
	if f.Container != "" {
		s += " of container " + f.Container
	}
	return s
}

// MaxFields bounds the fields of one decision: a reply of 4 MiB can hold some 100,000, and nobody reads more than a few.
const MaxFields = 64

// Object is the pod or container that a decision is about. All fields are empty for what is about none.
type Object struct {
	// Namespace, Pod and Container are names; Container is empty for a pod.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// PodUID is Kubernetes' uid of the pod.
	PodUID string `json:"podUID,omitempty"`
	// PodID and ContainerID are the runtime's ids.
	PodID       string `json:"podID,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
}

// NotMatched is a plugin that was not selected, and why.
type NotMatched struct {
	// Plugin is its name.
	Plugin string `json:"plugin"`
	// Part is the first part of its selector that refused, as the manifest writes it; "team" for the ceiling, "opted out" for a plugin that left the pod.
	Part string `json:"part"`
	// Detail names the match condition; empty for other parts.
	Detail string `json:"detail,omitempty"`
}

// Decision is what became of one plugin's part in one event, and what else has to be known afterwards. The zero value says nothing.
type Decision struct {
	// Seq is the number of the decision in this run of the supervisor, from 1.
	Seq uint64 `json:"seq,omitempty"`
	// Time is when it was known; of a decision that stands for several, when the last was.
	Time time.Time `json:"time"`
	// Since is when the first was that a decision stands for; zero for one that stands for itself.
	Since time.Time `json:"since,omitzero"`
	// Kind says what the decision is about.
	Kind Kind `json:"kind"`
	// Event is NRI's name of the event, such as CreateContainer.
	Event string `json:"event,omitempty"`
	Object
	// Plugin and Team name the plugin.
	Plugin string `json:"plugin,omitempty"`
	Team   string `json:"team,omitempty"`
	// Match says whether the plugin was selected.
	Match Match `json:"match,omitempty"`
	// NotMatched are the plugins that were not selected, of a KindSelection, and the one that is required and was not.
	NotMatched []NotMatched `json:"notMatched,omitempty"`
	// Outcome is how the call ended; empty if there was none.
	Outcome string `json:"outcome,omitempty"`
	// Reason is why the plugin's work is missing; empty if it is not.
	Reason string `json:"reason,omitempty"`
	// Action is what followed.
	Action Action `json:"action,omitempty"`
	// Detail says more, in one line for people. Parts of it may be the plugin's own words.
	Detail string `json:"detail,omitempty"`
	// TookSeconds is how long the plugin took; 0 without a call.
	TookSeconds float64 `json:"tookSeconds,omitempty"`
	// Changed are the fields that the plugin changed, at most MaxFields of them.
	Changed []Field `json:"changed,omitempty"`
	// Dropped are the fields for whose sake a reply or update was left out, at most MaxFields of them. A reply is always dropped whole.
	Dropped []Field `json:"dropped,omitempty"`
	// With are the plugins that it collided with, WithTeams their teams, in the same order.
	With      []string `json:"with,omitempty"`
	WithTeams []string `json:"withTeams,omitempty"`
	// Manual is the operator's action, ActorUID who did it (nil: nobody, a timer did), ForSeconds how long it lasts.
	Manual     string  `json:"manual,omitempty"`
	ActorUID   *uint32 `json:"actorUID,omitempty"`
	ForSeconds float64 `json:"forSeconds,omitempty"`
	// Count is how many decisions a KindLost stands for, and how many updates a KindUpdate does if they are several; 0 is one.
	Count uint64 `json:"count,omitempty"`
}

// Notable reports whether an audit has to keep the decision: something was changed, denied, dropped, refused or missed, or an operator acted.
func (d *Decision) Notable() bool {
	switch d.Kind {
	case KindUpdate, KindMissed, KindManual, KindLost:
		return true
	case KindSelection:
		return false
	case KindEvent:
	}
	switch d.Action {
	case ActionAllowed, ActionOptedOut:
		return len(d.Changed) > 0 || len(d.Dropped) > 0 || d.Action == ActionOptedOut
	case ActionWithheld:
		return false // the miss is recorded already
	case ActionIgnored, ActionFailed, ActionRefused, ActionOverruled, ActionDiscarded, ActionDenied, ActionLost, ActionDone:
		return true
	}
	return true
}
