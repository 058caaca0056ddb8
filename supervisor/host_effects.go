package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// turnsKept is how many creations are remembered before those that are over are dropped: the runtime creates one container at a time.
const turnsKept = 64

// carryOut does what the machine asks for. It runs on the loop and never blocks.
func (h *host) carryOut(e plugin.Effect) {
	switch e := e.(type) {
	case plugin.Launch:
		h.launch(e.Inc)
	case plugin.Synchronize:
		h.synchronize(e)
	case plugin.StopProcess:
		h.stopProcess(e.Inc)
	case plugin.KillProcess:
		h.killProcess(e.Inc, string(e.Why))
	case plugin.Admit:
		h.admit(e)
	case plugin.Send:
		h.send(e)
	case plugin.Answer:
		h.answer(e)
	case plugin.Arm:
		h.arm(e)
	case plugin.Verdict:
		if c := h.calls[e.ID]; c != nil {
			switch e.Outcome.Verdict() { // before the guard counts it, so that what opens the breaker is known then
			case breaker.VerdictBad:
				h.failed(c, e.Outcome.String(), c.detail(e.Outcome))
			case breaker.VerdictGood:
				h.failures.ok(c.req.Event.PrettyName(), time.Now())
			case breaker.VerdictExcluded:
			}
			c.ticket.End(e.Outcome)
			if e.Outcome.Verdict() == breaker.VerdictBad {
				h.keepQuarantine()
			}
		}
	case plugin.Back:
		h.back(e)
	case plugin.GuardHung:
		h.failed(h.flying(), breaker.CauseHung.String(), "")
		h.guard.Hung(e.PodKey)
		h.keepQuarantine()
	case plugin.GuardExited:
		h.guard.Exited(e.PodKey)
		h.keepQuarantine()
	case plugin.GuardStarted:
		if e.NewVersion {
			h.failures.renewed(time.Now())
		}
		h.guard.Started(e.NewVersion)
		h.keepQuarantine()
	case plugin.GuardHealth:
		if e.OK {
			h.guard.HealthOK()
		} else {
			h.guard.HealthFailed()
		}
	case plugin.Swapped:
		h.inService(h.runs[e.New])
		h.stuck.Store(false)
		h.beside.Store(true)
		h.publish()
		h.endUpdate(nil)
		h.sup.emit(PluginReplaced{Plugin: h.name, Team: h.policy().Team, From: h.pidOf(e.Old), To: h.pidOf(e.New)})
	case plugin.ReplaceFailed:
		h.replaceFailed(e)
	case plugin.PhaseChanged:
		h.phaseChanged(e)
	case plugin.Stale:
		if t, spent := e.Input.(plugin.Timer); !spent || t.Inc != h.machine.Incarnation() {
			h.met.stale.Inc() // a timer of this incarnation that found nothing to do is no news
		}
	case plugin.Violation:
		h.sup.emit(Defect{Where: "plugin " + h.name, What: fmt.Sprintf("phase %s, input %T: %s", e.Phase, e.Input, e.What)})
	}
}

func (h *host) arm(e plugin.Arm) {
	after := e.After
	if e.Timer.Kind == plugin.Retry { // up to 20 % sooner, so that plugins that fell together do not rise together; never later than maxBackoff
		after -= time.Duration(rand.Float64() * 0.2 * float64(after)) //nolint:gosec // not for secrecy
		h.nextStart.Store(time.Now().Add(after).UnixNano())
	}
	// The machine drops timers that have nothing to do any more; a late one costs one message. Those of calls end with their call, because there are many.
	t := time.AfterFunc(after, func() { h.post(e.Timer) })
	if c := h.calls[e.Timer.ID]; c != nil {
		c.timers = append(c.timers, t)
	}
}

// endCall forgets a call that is answered and does not run in the plugin any more.
func (h *host) endCall(id plugin.CallID) {
	for _, t := range h.calls[id].timers {
		t.Stop()
	}
	delete(h.calls, id)
}

func (h *host) admit(e plugin.Admit) {
	c := h.calls[e.ID]
	if r := h.sup.bypassed(); r {
		h.pending = append(h.pending, plugin.Refused{ID: e.ID, Reason: breaker.ReasonBypass})
		return
	}
	t, reason := h.guard.AdmitCall(breaker.Call{Pod: e.PodKey, Work: c.work, Queued: !c.req.Blocking})
	if reason != breaker.ReasonNone {
		h.pending = append(h.pending, plugin.Refused{ID: e.ID, Reason: reason, Manual: h.guard.State() == breaker.StateForcedOpen})
		return
	}
	c.ticket = t
	h.pending = append(h.pending, plugin.Admitted{ID: e.ID})
}

// send has the call done: by the goroutine that waits for it, if it is the one that is here, or else by the worker of the incarnation. Deliveries are serial, so the worker's channel is empty.
func (h *host) send(e plugin.Send) {
	c, r := h.calls[e.ID], h.runs[e.Inc]
	c.limit, c.sent = e.Timeout, time.Now()
	c.ticket.Sent()
	if c == h.bringing {
		c.own = r
		return
	}
	r.jobs <- func() {
		reply, err := c.invoke(r.inst.CallContext(wire.WithPayload(context.Background(), c.share), c.sent.Add(c.limit)), r.inst.Plugin())
		h.returned(r, c, reply, err)
	}
}

func (h *host) answer(e plugin.Answer) {
	c := h.calls[e.ID]
	if c == nil {
		h.sup.emit(Defect{Where: "plugin " + h.name, What: "answer to an unknown call"})
		return
	}
	res := callResult{Result: e.Result}
	if e.Result.Delivered {
		if e.Result.Outcome == c.result.outcome {
			res.reply, res.detail, res.denials = c.result.reply, c.result.detail, c.result.denials
			res.dropped, res.with = c.result.dropped, c.result.with
		}
		if !c.sent.IsZero() {
			res.took = time.Since(c.sent)
			h.met.call(c.req.Event, e.Result.Outcome, res.took)
			h.latency.add(time.Now(), res.took, reasonOf(e.Result) != "")
		}
	}
	if e.Result.Delivered {
		res.detail = c.detail(e.Result.Outcome)
	}
	if e.Result.Refused != breaker.ReasonNone {
		h.met.refused(e.Result.Refused)
	}
	if o := e.Result.Outcome; e.Result.Delivered && o.Verdict() == breaker.VerdictBad && o != breaker.OutcomeUnavailable { // an exit tells more
		h.lastErr = c.req.Event.PrettyName() + " of pod " + c.name.namespace + "/" + c.name.pod + ": " + o.String() + suffix(res.detail)
		h.publish()
	}
	if c.req.Event == api.Event_CREATE_CONTAINER || c.req.Event == api.Event_RUN_POD_SANDBOX {
		if len(h.answered) >= turnsKept {
			h.forgetTurns()
		}
		h.answered[store.Ref(c.req.Ref)] = struct{}{}
	}
	c.given.Store(true)
	if c.done != nil {
		c.done <- res
		c.giveUp()
	} else {
		h.sup.notified(h, c, res)
	}
	c.answered = true
	if flying, ok := h.machine.Flying(); !ok || flying != e.ID {
		h.endCall(e.ID) // else Back ends it
	}
}

// detail says more about an outcome of the call; empty: there is nothing to say.
func (c *call) detail(o breaker.Outcome) string {
	if o == breaker.OutcomeTimeout || o == breaker.OutcomeBudget {
		return "no answer in " + c.limit.Round(time.Millisecond).String()
	}
	if o == c.result.outcome {
		return c.result.detail
	}
	return ""
}

// back: the call no longer runs in the plugin.
func (h *host) back(e plugin.Back) {
	c := h.calls[e.ID]
	if c == nil {
		return
	}
	c.ticket.Returned()
	if e.Late && c.result.outcome != breaker.OutcomeUnavailable { // else it ended with its connection
		h.met.late.Inc()
		h.sup.emit(LateReply{Plugin: h.name, Team: h.policy().Team, After: time.Since(c.sent)})
	}
	if c.answered {
		h.endCall(e.ID)
	}
}

func (h *host) phaseChanged(e plugin.PhaseChanged) {
	switch e.To {
	case plugin.Syncing, plugin.Backoff, plugin.CrashLoop, plugin.Disabled, plugin.Stopped:
		h.settle()
	case plugin.Starting, plugin.Ready, plugin.Draining:
	}
	if e.To == plugin.Backoff || e.To == plugin.CrashLoop || e.To == plugin.Disabled {
		h.explainDown()
	}
	h.met.phase(e.To)
	h.publish()
	h.changed(e.To)
	h.sup.emit(PhaseChanged{Plugin: h.name, Team: h.policy().Team, From: e.From.String(), To: e.To.String(), PID: h.pid()})
}

// transition is told by the guard, on whatever goroutine caused it.
func (h *host) transition(t breaker.Transition) {
	h.met.transition(t)
	h.failures.moved(t)
	if t.To == breaker.StateClosed {
		h.refusals.renew()
	}
	h.sup.emit(BreakerChanged{Plugin: h.name, Team: h.policy().Team, Transition: t})
	switch t.To {
	case breaker.StateOpen:
		h.post(plugin.Opened{After: t.OpenFor})
	case breaker.StateForcedOpen:
		h.post(plugin.Opened{Manual: true})
	case breaker.StateClosed:
		if t.From == breaker.StateForcedOpen || t.Cause == breaker.CauseManual {
			h.post(plugin.Reset{})
		}
	case breaker.StateHalfOpen, breaker.StateDisabled:
	}
	h.box.put(message{fn: h.publish})
}

func (h *host) pid() int {
	if r := h.run(); r != nil && r.inst != nil {
		return r.inst.PID()
	}
	return 0
}
