package admintest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// Now is the moment at which a bypass of the fake begins.
func Now() time.Time { return time.Date(2026, 11, 30, 3, 12, 0, 0, time.UTC) }

// Fake is a supervisor without plugins behind it, which notes what it is asked to do. The zero value is ready for use; the exported fields are not changed while it is served, but for Change. Safe
// for concurrent use.
type Fake struct {
	admin.API // nil: what no test asks for

	// State is its status, and Until the end of a bypass; nil: there is none.
	State supervisor.Status
	Until *time.Time
	// Missing is the missing work, and Journal has the decisions; it is needed only by tests that ask for them.
	Missing []supervisor.MissedWork
	Journal *journal.Journal
	// Report is what comes of a reload, Err what comes of that and of each action.
	Report supervisor.ReloadReport
	Err    error

	mu  sync.Mutex
	did []string
}

// Status returns a copy of the state.
func (f *Fake) Status() supervisor.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.State
	st.Plugins = slices.Clone(st.Plugins)
	if f.Until != nil {
		st.Bypass = f.Until
	}
	return st
}

// Change changes the state, and notes nothing.
func (f *Fake) Change(change func(*supervisor.Status) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return change(&f.State)
}

// Missed returns a copy of the missing work.
func (f *Fake) Missed() []supervisor.MissedWork { return slices.Clone(f.Missing) }

// Decisions returns those of the journal.
func (f *Fake) Decisions(q journal.Filter) []journal.Decision { return f.Journal.Decisions(q) }

// FollowDecisions follows the journal.
func (f *Fake) FollowDecisions(q journal.Filter) *journal.Subscription { return f.Journal.Subscribe(q) }

// Act notes the action.
func (f *Fake) Act(plugin, action string, uid uint32) error {
	f.Note("%s %q uid %d", action, plugin, uid)
	return f.Err
}

// ReloadBy notes the reload.
func (f *Fake) ReloadBy(_ context.Context, uid uint32) (supervisor.ReloadReport, error) {
	f.Note("reload by uid %d", uid)
	return f.Report, f.Err
}

// Bypass notes the bypass and begins or ends it.
func (f *Fake) Bypass(d time.Duration, uid uint32) {
	f.Note("bypass %s uid %d", d, uid)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Until = nil
	if d > 0 {
		until := Now().Add(d)
		f.Until = &until
	}
}

// Note notes something that was asked to be done.
func (f *Fake) Note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf(format, args...))
}

// Take returns what was noted since it was called last, in order.
func (f *Fake) Take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.did
	f.did = nil
	return out
}
