package supervisor

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// delivery describes one event for one plugin.
type delivery struct {
	event  api.Event
	ref    store.Ref
	podKey string
	name   naming
	invoke func(ctx context.Context, p api.PluginService) (any, error)
	judge  func(reply any, err error) verdict
	share  *wire.Payload      // of a request that others get, too, as it is; nil: nobody does
	quiet  bool               // missing work is recorded already
	traced func(TracedResult) // told of what became of a notification; nil: nobody is
}

func (h *host) newCall(d delivery, blocking bool) *call {
	return &call{
		req: plugin.Request{
			ID: plugin.CallID(h.nextID.Add(1)), Event: d.event, Ref: plugin.Ref(d.ref), PodKey: d.podKey, Blocking: blocking,
			Timeout: h.policy().Timeout(d.event), Overdue: h.policy().OverdueAfter(d.event),
		},
		work: d.event.PrettyName() + "/" + d.name.container, invoke: d.invoke, judge: d.judge, name: d.name, quiet: d.quiet, traced: d.traced, share: d.share,
	}
}

// deliver asks the plugin and waits for what comes of it, at most for the share; for most when the call has to wait for another incarnation to take over. ctx ends when the runtime that asked is gone.
func (h *host) deliver(ctx context.Context, d delivery, share, most time.Duration) callResult {
	begin := time.Now()
	c := h.newCall(d, true)
	c.done, c.over = make(chan callResult, 1), make(chan struct{})
	c.req.Share, c.req.Deadline, c.req.Until = share, begin.Add(share), begin.Add(most)
	if share <= 0 {
		h.met.refused(breaker.ReasonBudget)
		return callResult{Result: plugin.Result{Refused: breaker.ReasonBudget}}
	}
	if !h.deal(message{in: plugin.Call{Request: c.req}, call: c}) { //nolint:contextcheck // what it may start on the way outlives the event
		h.met.refused(breaker.ReasonNotReady)
		return callResult{Result: plugin.Result{Refused: breaker.ReasonNotReady}}
	}
	if c.own != nil {
		h.perform(ctx, c)
	}
	res := h.await(ctx, c)
	waited := time.Since(begin)
	h.guard.Charge(waited - res.Held)
	h.guard.Excuse(res.Held)
	return res
}

// await returns the answer. The machine answers by the deadline by itself; the timer here is for the case that it does not, so that a defect of ours cannot make the runtime wait.
// A call may have waited for a successor, and it allows for half of what the budget keeps for the way back: a node that starves us for a moment is no defect.
func (h *host) await(ctx context.Context, c *call) callResult {
	select {
	case r := <-c.done:
		return r
	default:
	}
	late := time.NewTimer(h.patience(c))
	defer late.Stop()
	done := ctx.Done()
	for {
		select {
		case r := <-c.done:
			return r
		case <-done:
			h.post(plugin.Cancel{ID: c.req.ID})
			done = nil
		case <-late.C:
			h.sup.emit(Defect{Where: "plugin " + h.name, What: "a call was not answered in its share"})
			return callResult{Result: plugin.Result{Refused: breaker.ReasonBudget}}
		}
	}
}

// patience is how long the machine's answer to a call is waited for.
func (h *host) patience(c *call) time.Duration {
	return time.Until(c.req.Until) + margin(h.sup.runtimeInfo().RequestTimeout)/2
}

// notify queues the event for the plugin; nobody waits.
func (h *host) notify(d delivery) {
	c := h.newCall(d, false)
	if !h.box.put(message{in: plugin.Call{Request: c.req}, call: c}) {
		h.sup.notified(h, c, callResult{Result: plugin.Result{Refused: breaker.ReasonNotReady}})
	}
}
