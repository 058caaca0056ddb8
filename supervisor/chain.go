package supervisor

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// visit is one event on its way through the plugins that selected it.
type visit struct {
	sup   *Supervisor
	event api.Event
	ref   store.Ref
	pod   *api.PodSandbox
	ctr   *api.Container // nil at events of pods
	name  naming
	key   string
	until time.Time // by then the runtime must have its answer
	lost  time.Time // from then on it must be taken to have gone on without

	quiet   []*host   // whose missing work is recorded already
	earlier setFields // what the plugins asked so far have set
	// together are the places of plugins that are called at once with others.
	together map[int]bool
	outside  bool               // validators judge in a request of their own
	owners   *api.OwningPlugins // with outside: who set what
	need     map[string]string  // plugins that must succeed, and what requires it
	failing  atomic.Bool        // some plugin's failure makes the request fail
	notes    notes              // what is to be told of it
	traced   EventTrace         // nil: it is not
}

func (a arrival) visit(ctx context.Context, ref store.Ref, pod *api.PodSandbox, ctr *api.Container) *visit {
	until, lost := a.deadline(ctx)
	v := &visit{
		sup: a.se.sup, event: a.event, ref: ref, pod: pod, ctr: ctr, key: podKey(pod), until: until, lost: lost,
		name: naming{namespace: pod.GetNamespace(), pod: pod.GetName(), container: ctr.GetName(), containerID: ctr.GetId(), values: newValues(ctr.GetEnv())},
	}
	v.trace(ctx)
	return v
}

// pod relays a pod event.
func (se *session) pod(ctx context.Context, e api.Event, pod *api.PodSandbox, invoke podInvoke) error {
	a := se.request(e)
	defer a.done()
	ref := store.Ref{Pod: pod.GetId()}
	if e == api.Event_RUN_POD_SANDBOX { // before a snapshot can contain it
		se.sup.beginning.Store(ref, nil)
		defer se.sup.beginning.Delete(ref)
	}
	if endsSomething(e) {
		defer se.sup.stranger(ref)()
	}
	pod = se.sup.store.ObservePod(pod, time.Now())
	se.sup.recorders.take(e, pod, nil, nil)
	sel, others := se.sup.podSelection(pod)
	v := a.visit(ctx, ref, pod, nil)
	if ends(e) {
		v.forget(sel)
		defer v.forgotten(sel)
	}
	if len(sel) == 0 {
		return nil
	}
	defer v.publish(others)
	err := v.relay(ctx, sel, func(c context.Context, p api.PluginService) (any, error) { return invoke(c, p, pod) })
	if err != nil && e == api.Event_RUN_POD_SANDBOX { // there will be no pod: who heard of it frees what it holds for it
		if entry, ok := se.sup.store.Get(ref); ok {
			se.sup.tellGone(entry, api.Event_REMOVE_POD_SANDBOX)
		}
		se.sup.forgetPod(ref.Pod)
	}
	return err
}

// container relays a container event that has no reply.
func (se *session) container(ctx context.Context, e api.Event, pod *api.PodSandbox, ctr *api.Container, invoke ctrInvoke) error {
	a := se.request(e)
	defer a.done()
	if endsSomething(e) {
		defer se.sup.stranger(se.sup.store.Resolve(pod, ctr))()
	}
	o := se.sup.store.ObserveContainer(pod, ctr, time.Now())
	se.sup.recorders.take(e, o.Pod, o.Container, nil)
	sel, others := se.sup.containerSelection(o.Ref, o.Pod, o.Container)
	v := a.visit(ctx, o.Ref, o.Pod, o.Container)
	if ends(e) {
		v.forget(sel)
		defer v.forgotten(sel)
	}
	if len(sel) == 0 {
		return nil
	}
	defer v.publish(others)
	return v.relay(ctx, sel, func(c context.Context, p api.PluginService) (any, error) { return invoke(c, p, o.Pod, o.Container) })
}

// relay gives the event to one plugin after the other. The first failure that its policy makes count ends it.
func (v *visit) relay(ctx context.Context, sel []selected, invoke func(context.Context, api.PluginService) (any, error)) error {
	var share wire.Payload
	for i, s := range sel {
		if !s.h.subscribes(v.event) {
			continue
		}
		d := delivery{share: &share, event: v.event, ref: v.ref, podKey: v.key, name: v.name, invoke: invoke, judge: s.h.judgeEvent, quiet: slices.Contains(v.quiet, s.h)}
		if !s.h.policy().Blocking(v.event) {
			switch {
			case s.matchErr:
			case v.sup.bypassed():
				s.h.met.refused(breaker.ReasonBypass)
				_ = v.settle(s.h, callResult{Result: plugin.Result{Refused: breaker.ReasonBypass}})
			default:
				d.traced = v.begin(s.h)
				s.h.notify(d)
			}
			continue
		}
		r := v.ask(ctx, s, d, len(sel)-i-1)
		v.leaves(s.h, r)
		if err := v.settle(s.h, r); err != nil {
			return err
		}
	}
	return nil
}

// ask delivers the event to one plugin within its share of the time; later is how many plugins are still to come.
func (v *visit) ask(ctx context.Context, s selected, d delivery, later int) callResult {
	end := v.begin(s.h)
	r := v.answer(ctx, s, d, later)
	over(end, r.Result)
	return r
}

func (v *visit) answer(ctx context.Context, s selected, d delivery, later int) callResult {
	switch {
	case v.sup.bypassed():
		s.h.met.refused(breaker.ReasonBypass)
		return callResult{Result: plugin.Result{Refused: breaker.ReasonBypass}}
	case s.matchErr:
		s.h.met.refused(breaker.ReasonMatchError)
		return callResult{Result: plugin.Result{Refused: breaker.ReasonMatchError}}
	}
	left := time.Until(v.until)
	return s.h.deliver(ctx, d, breaker.Share(left, s.h.policy().Timeout(v.event), later), breaker.Share(left, left, later))
}

// settle records what a result means for the container and returns the error of the request, if there is to be one.
func (v *visit) settle(h *host, r callResult) error { return v.settleAs(v.event, h, r) }

// settleAs is settle for a result of another request that belongs to the event.
func (v *visit) settleAs(e api.Event, h *host, r callResult) error {
	action, err := v.conclude(e, h, r)
	v.note(e, h, r, action)
	return err
}

// conclude says what follows from a result of the event e.
func (v *visit) conclude(e api.Event, h *host, r callResult) (journal.Action, error) {
	if r.Delivered && r.Outcome == breaker.OutcomeRejected {
		if err := v.sup.rejection(h, e, v.pod, v.name, r.detail); err != nil {
			return journal.ActionRefused, err
		}
		return journal.ActionOverruled, nil
	}
	if r.Delivered && r.Outcome == breaker.OutcomeForbidden {
		h.met.denied(r.denials)
		v.sup.emit(Forbidden{
			Plugin: h.name, Team: h.policy().Team, Namespace: v.name.namespace, Pod: v.name.pod, Container: v.name.container, Denials: r.denials,
		})
	}
	reason := reasonOf(r.Result)
	if reason == "" {
		return journal.ActionAllowed, nil
	}
	if !h.policy().Fails(e) && v.need[h.name] == "" && v.missedBefore(e, h) {
		return journal.ActionWithheld, nil
	}
	if err := v.sup.fallback(h, e, v.pod, v.name, v.need[h.name], reason, r.detail, r.took); err != nil {
		return journal.ActionFailed, err
	}
	return journal.ActionIgnored, nil
}

// missedBefore reports whether it is told already that the plugin's work on the pod or container is missing, so that this is no news.
func (v *visit) missedBefore(e api.Event, h *host) bool {
	switch {
	case e == api.Event_CREATE_CONTAINER:
		return false
	case v.event != api.Event_CREATE_CONTAINER:
		return v.sup.toldMissed(h, v.ref)
	}
	v.notes.mu.Lock() // a validator inside a creation
	defer v.notes.mu.Unlock()
	return slices.ContainsFunc(v.notes.list, func(d journal.Decision) bool {
		return d.Plugin == h.name && d.Event == api.Event_CREATE_CONTAINER.PrettyName() && d.Action == journal.ActionIgnored
	})
}

// leaves takes note of a plugin whose answer is that it wants to hear no more. It reports whether it is.
func (v *visit) leaves(h *host, r callResult) bool {
	o, ok := r.reply.(optOut)
	if ok {
		v.sup.optOut(h, plugin.Request{Ref: plugin.Ref(v.ref)}, o)
	}
	return ok
}

// outcomeOptedOut is what is remembered of a plugin that wants to hear no more of a container.
const outcomeOptedOut = "opted_out"

// optOut: the plugin wants to hear no more of a pod or container. That holds for the life of the pod or container, also across restarts.
func (s *Supervisor) optOut(h *host, r plugin.Request, o optOut) {
	ref := store.Ref(r.Ref)
	if o.scope == wire.ScopePod {
		ref.Container = ""
	}
	s.leave(h.name, ref)
	h.post(plugin.Removed{Ref: plugin.Ref(ref)}) // it will not hear of it any more
}

// leave takes the plugin's selection back for good.
func (s *Supervisor) leave(name string, ref store.Ref) {
	s.store.Unpin(ref, name)
	if !ref.IsPod() {
		s.store.SetWork(ref, store.Work{Plugin: name, Outcome: outcomeOptedOut, At: time.Now()})
	}
	s.history.decided(s, ref)
}
