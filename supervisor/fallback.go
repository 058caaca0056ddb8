package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// The two things that can happen when a plugin's work is missing.
const (
	actionIgnore = "ignore" // as if the plugin were not there
	actionFail   = "fail"   // the request fails
)

// reasonOf is the label under which a result is missing work; empty when it is not.
func reasonOf(r plugin.Result) string {
	switch {
	case r.Withheld():
		return ""
	case r.Refused != breaker.ReasonNone:
		return r.Refused.String()
	case r.Outcome == breaker.OutcomeSuccess, r.Outcome == breaker.OutcomeRejected:
		return ""
	default:
		return r.Outcome.String()
	}
}

// fallback records that the plugin's work is missing from the event, and returns the error of the request if the failure policy says so, or if the plugin is required by something.
func (s *Supervisor) fallback(h *host, e api.Event, pod *api.PodSandbox, name naming, required, reason, detail string, took time.Duration) error {
	action, detail := actionIgnore, oneLine(detail)
	if (required != "" || h.policy().Fails(e) && !h.policy().Critical(pod)) && reason != breaker.ReasonBypass.String() { // a bypass makes everything a no-op
		action = actionFail
	}
	h.met.fallback(action, reason)
	s.emit(Fallback{
		Plugin: h.name, Team: h.policy().Team, NRIEvent: e.PrettyName(), Namespace: name.namespace, Pod: name.pod, Container: name.container,
		ContainerID: name.containerID, Action: action, Reason: reason, Detail: detail, Took: took,
	})
	if action == actionIgnore {
		return nil
	}
	h.refusals.add(reason)
	return fmt.Errorf("nri-supervisor: plugin %q%s is required by %s and did not do its work: %s%s (circuit breaker %s)",
		h.name, h.owner(), cmp.Or(required, "its failurePolicy Fail"), reason, suffix(detail), h.guard.State())
}

// toldMissed reports whether it is recorded already that the container runs without the plugin's work. Its later events are then no news.
func (s *Supervisor) toldMissed(h *host, ref store.Ref) bool {
	for _, w := range s.store.Work(ref) {
		if w.Plugin == h.name {
			return w.Missed
		}
	}
	return false
}

// refusable reports whether a plugin may make the event fail at all: a creation, an update, or what failurePolicyEvents adds; never what lets a pod end.
func (h *host) refusable(e api.Event) bool {
	always := []api.Event{api.Event_CREATE_CONTAINER, api.Event_UPDATE_CONTAINER, api.Event_VALIDATE_CONTAINER_ADJUSTMENT}
	configurable := []api.Event{api.Event_RUN_POD_SANDBOX, api.Event_UPDATE_POD_SANDBOX, api.Event_START_CONTAINER}
	return slices.Contains(always, e) || slices.Contains(configurable, e) &&
		slices.ContainsFunc(h.policy().Spec.FailurePolicyEvents, func(n policy.EventName) bool { return n.Event() == e })
}

// rejection records a deliberate refusal and returns the error of the request, unless the event or the pod is protected from it.
func (s *Supervisor) rejection(h *host, e api.Event, pod *api.PodSandbox, name naming, reason string) error {
	honoured := h.refusable(e) && !h.policy().Critical(pod)
	s.emit(Rejection{
		Plugin: h.name, Team: h.policy().Team, Namespace: name.namespace, Pod: name.pod, Container: name.container, Reason: oneLine(reason), Honoured: honoured,
	})
	if !honoured {
		return nil
	}
	h.refusals.add(breaker.OutcomeRejected.String())
	return fmt.Errorf("nri-supervisor: plugin %q%s refuses this container: %s", h.name, h.owner(), oneLine(reason))
}

// owner is who to talk to, for messages that end up in `kubectl describe pod`.
func (h *host) owner() string {
	if h.policy().Contact == "" {
		return fmt.Sprintf(" of team %q", h.policy().Team)
	}
	return fmt.Sprintf(" of team %q (contact: %s)", h.policy().Team, h.policy().Contact)
}

func suffix(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// notified takes what became of a notification that nobody waited for.
func (s *Supervisor) notified(h *host, c *call, r callResult) {
	if c.req.Vanished && r.Withheld() {
		return // the plugin has never seen it
	}
	if o, ok := r.reply.(optOut); ok {
		s.optOut(h, c.req, o)
	}
	h.noteNotified(c, r)
	over(c.traced, r.Result)
	reason := reasonOf(r.Result)
	if reason == "" || r.Outcome == breaker.OutcomeCanceled && r.Delivered || c.quiet || s.toldMissed(h, store.Ref(c.req.Ref)) {
		return
	}
	h.met.fallback(actionIgnore, reason)
	s.emit(Fallback{
		Plugin: h.name, Team: h.policy().Team, NRIEvent: c.req.Event.PrettyName(), Namespace: c.name.namespace, Pod: c.name.pod,
		Container: c.name.container, ContainerID: c.name.containerID, Action: actionIgnore, Reason: reason, Detail: oneLine(r.detail), Took: r.took,
	})
}
