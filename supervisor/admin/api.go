package admin

import (
	"context"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// API is what the socket gives access to; *supervisor.Supervisor is one. Its methods must be safe for concurrent use and must not block, but for ReloadBy, Explain and Record.
type API interface {
	// Status returns the state of everything. What it returns is the caller's.
	Status() supervisor.Status
	// Missed lists the living containers that run without a plugin's work, ordered by namespace, pod, container and plugin.
	Missed() []supervisor.MissedWork
	// Act carries out one of [Actions] on a plugin. For a plugin that it does not host it returns an error that wraps supervisor.ErrUnknownPlugin. uid is who asked.
	Act(plugin, action string, uid uint32) error
	// Decisions returns the latest decisions that the filter picks, oldest first.
	Decisions(f journal.Filter) []journal.Decision
	// FollowDecisions subscribes to decisions. The caller closes the subscription.
	FollowDecisions(f journal.Filter) *journal.Subscription
	// Explain says what each plugin had to do with a pod and its containers, or with one container by name or id. It may read files; ctx bounds it. For what nothing is known of it returns an
	// error that wraps supervisor.ErrNotExplained.
	Explain(ctx context.Context, namespace, pod, container string) ([]supervisor.Explanation, error)
	// Record calls each for the state and then for each event, until ctx ends or each returns an error. uid is who asked.
	Record(ctx context.Context, f supervisor.RecordFilter, uid uint32, each func(ev *recording.Event, lost uint64) error) error
	// ReloadBy reads the configuration again and applies it. It may take a minute. uid is who asked.
	ReloadBy(ctx context.Context, uid uint32) (supervisor.ReloadReport, error)
	// Bypass makes the supervisor a no-op for d; 0 ends that. uid is who asked.
	Bypass(d time.Duration, uid uint32)
}

// MaxBypass is the longest bypass that is accepted: a day, so that one that was forgotten is over before the same people are on duty again.
const MaxBypass = 24 * time.Hour

// Actions returns the manual actions on a plugin, in the order in which messages name them.
func Actions() []string {
	return []string{"restart", "enable", "disable", "trip", "reset", "unquarantine"}
}

// ActionReply is the reply to an action on a plugin: what was taken note of.
type ActionReply struct {
	Plugin string `json:"plugin"`
	Action string `json:"action"`
}

// BypassRequest asks for a bypass.
type BypassRequest struct {
	// For is how long, as time.ParseDuration reads it: from "0s", which ends the bypass, to [MaxBypass].
	For string `json:"for"`
}

// BypassReply is the reply to a [BypassRequest].
type BypassReply struct {
	// Until is when the bypass ends by itself; nil when there is none.
	Until *time.Time `json:"bypassUntil"`
}

// ErrorReply is the body of every reply that is not a success.
type ErrorReply struct {
	// Error says what is wrong, in one line.
	Error string `json:"error"`
	// Hints say what to try, one line each.
	Hints []string `json:"hints,omitempty"`
}
