package isolation

import (
	"context"
	"time"
)

// WithDeadline returns a context whose Deadline is d and that is never cancelled: Done is nil and Err always nil. Values
// come from parent.
//
// A call made with it tells the plugin its deadline, and still sees a reply that comes late; with an ordinary context ttrpc's
// client drops a late reply unseen. Such a call ends with its reply or with the connection, so whoever makes it must
// not be the one who waits for the deadline.
func WithDeadline(parent context.Context, d time.Time) context.Context {
	return deadlineContext{values: parent, deadline: d}
}

type deadlineContext struct {
	values   context.Context //nolint:containedctx // this is a context: it wraps its parent
	deadline time.Time
}

func (c deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }
func (deadlineContext) Done() <-chan struct{}         { return nil }
func (deadlineContext) Err() error                    { return nil }
func (c deadlineContext) Value(key any) any           { return c.values.Value(key) }
