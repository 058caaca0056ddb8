package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
)

// serve is the worker of one incarnation: it does one thing after the other, the calls that no goroutine does that waits for them, and what is large in the others, so that whoever waits is
// answered in time however long it takes. A call that never returns ends with the connection.
func (*host) serve(r *running) {
	for {
		select {
		case <-r.ended:
			return
		case job := <-r.jobs:
			job()
		}
	}
}

// perform does the call on the goroutine that waits for it, and returns when the plugin has replied or nobody is to wait any longer: the machine has answered, or should have.
func (h *host) perform(ctx context.Context, c *call) {
	r := c.own
	defer context.AfterFunc(ctx, func() { h.post(plugin.Cancel{ID: c.req.ID}) })()
	defer time.AfterFunc(h.patience(c), c.giveUp).Stop()
	own := &callContext{Context: context.Background(), h: h, c: c}
	reply, err := c.invoke(own, r.inst.Plugin()) //nolint:contextcheck // it ends with the call, which may outlive the event
	switch {
	case errors.Is(err, errGivenUp): // Late tells the rest
	case own.large:
		r.jobs <- func() { h.returned(r, c, reply, err) } // it is empty: the next call comes after this one
	default:
		h.returned(r, c, reply, err)
	}
}

// returned judges what came of a call and tells the machine.
func (h *host) returned(r *running, c *call, reply any, err error) {
	if c.given.Load() {
		h.late(r, c, err)
		return
	}
	v := c.judge(reply, err)
	c.name.values.learnFrom(reply)
	c.name.values.hideIn(&v)
	h.deal(message{in: plugin.Returned{Inc: r.inc, ID: c.req.ID, Outcome: v.outcome}, reply: v})
}

// late tells the machine that a call came back that was answered before: nothing in it counts.
func (h *host) late(r *running, c *call, err error) {
	v := verdict{outcome: breaker.OutcomeSuccess}
	if err != nil && disconnected(err) {
		v.outcome = breaker.OutcomeUnavailable
	}
	h.box.put(message{in: plugin.Returned{Inc: r.inc, ID: c.req.ID, Outcome: v.outcome}, reply: v})
}

// giveUp ends the waiting for what the plugin says.
func (c *call) giveUp() { c.overOnce.Do(func() { close(c.over) }) }

var errGivenUp = errors.New("nobody waits for the call any more")

// callContext is the context of a call that is done by the goroutine that waits for it. It carries the deadline to the plugin, and is done when the call is given up.
type callContext struct {
	context.Context //nolint:containedctx // this is a context: it wraps its parent
	h               *host
	c               *call
	large           bool // the reply is; of the goroutine that does the call
}

// Deadline is when the call has used its time.
func (x *callContext) Deadline() (time.Time, bool) { return x.c.sent.Add(x.c.limit), true }

// Done is closed when the call is given up.
func (x *callContext) Done() <-chan struct{} { return x.c.over }

// Err is errGivenUp then.
func (x *callContext) Err() error {
	select {
	case <-x.c.over:
		return errGivenUp
	default:
		return nil
	}
}

// Value is the payload that the request shares.
func (x *callContext) Value(key any) any {
	if key == (wire.PayloadKey{}) {
		return x.c.share
	}
	return nil
}

// Aside has the worker decode a large reply.
func (x *callContext) Aside(decode func()) {
	x.large = true
	x.c.own.jobs <- decode
}

// Late takes how the call ended after it was given up.
func (x *callContext) Late(err error) { x.h.late(x.c.own, x.c, err) }
