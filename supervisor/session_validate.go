package supervisor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// validator is what NRI's stub calls with runtime.validate: handlers that subscribe to validation as well.
type validator struct{ handlers }

// ValidateContainerAdjustment asks the hosted validators about everything that all plugins of the runtime did.
func (h *validator) ValidateContainerAdjustment(ctx context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	return h.session.validate(ctx, req)
}

// wanted are the events to subscribe to where the runtime knows all of them.
func (s *Supervisor) wanted() api.EventMask {
	m := allEvents()
	if s.plan().config.Supervisor.Runtime.Validate {
		m.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	}
	return m
}

// outside reports whether the runtime asks for validation, so that hosted validators judge everything and not what hosted plugins did.
func (se *session) outside() bool { return se.mask.IsSet(api.Event_VALIDATE_CONTAINER_ADJUSTMENT) }

// authorship is who did what in the creation that the runtime will have validated next: it handles one at a time.
type authorship struct {
	ref     store.Ref
	owners  *api.OwningPlugins
	plugins []*api.PluginInstance // consulted, in calling order
}

// consulted lists the plugins that were asked about the creation and whose reply was not left out.
func consulted(parts []*part) []*api.PluginInstance {
	var out []*api.PluginInstance
	for _, p := range parts {
		if p.asked && reasonOf(p.result.Result) == "" {
			out = append(out, &api.PluginInstance{Name: p.h.name, Index: p.h.policy().Index})
		}
	}
	return out
}

// validate asks the selected validators, each once. An error refuses the container.
func (se *session) validate(ctx context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	const event = api.Event_VALIDATE_CONTAINER_ADJUSTMENT
	a := se.request(event)
	defer a.done()
	s := se.sup
	o := s.store.ObserveContainer(req.GetPod(), req.GetContainer(), time.Now())
	sel, _ := s.containerSelection(o.Ref, o.Pod, o.Container)
	v := a.visit(ctx, o.Ref, o.Pod, o.Container)
	var judges []selected
	for _, c := range sel {
		if c.h.validates() {
			judges = append(judges, c)
		}
	}
	if len(judges) == 0 {
		return nil
	}
	defer v.publish(nil)
	judged := se.attribute(req, o.Ref)
	v.name.values.learnFrom(req)
	for i, c := range judges {
		r := v.ask(ctx, c, delivery{
			event: event, ref: v.ref, podKey: v.key, name: v.name, judge: c.h.judgeValidation,
			invoke: func(ctx context.Context, p api.PluginService) (any, error) {
				return p.ValidateContainerAdjustment(ctx, judged)
			},
		}, len(judges)-i-1)
		v.leaves(c.h, r)
		err := v.settle(c.h, r)
		if reason := reasonOf(r.Result); reason != "" {
			s.store.SetWork(v.ref, store.Work{Plugin: c.h.name, At: time.Now(), Outcome: r.Outcome.String(), Reason: reason, Missed: true})
			s.history.decided(s, v.ref)
		}
		if err != nil { // there will be no container: who heard of it frees what it holds for it
			if e, ok := s.store.Get(o.Ref); ok {
				s.tellGoneTo(e, api.Event_REMOVE_CONTAINER, v.name.values)
			}
			s.forgetContainer(o.Ref)
			return errors.New(err.Error())
		}
	}
	return nil
}

// attribute puts the hosted plugins where the runtime names the supervisor, as owner of a field and among the plugins consulted. The request itself is not changed.
func (se *session) attribute(req *api.ValidateContainerAdjustmentRequest, ref store.Ref) *api.ValidateContainerAdjustmentRequest {
	out := proto.CloneOf(req)
	by := se.authors.Load()
	if by == nil || by.ref != ref {
		return out
	}
	rt := se.sup.plan().config.Supervisor.Runtime
	us := rt.Index + "-" + rt.Name
	for id, owners := range out.GetOwners().GetOwners() {
		own := by.owners.GetOwners()[id]
		for field, owner := range owners.GetSimple() {
			owners.Simple[field] = translate(owner, us, own.GetSimple()[field])
		}
		for field, entries := range owners.GetCompound() {
			for key, owner := range entries.GetOwners() {
				entries.Owners[key] = translate(owner, us, own.GetCompound()[field].GetOwners()[key])
			}
		}
	}
	var plugins []*api.PluginInstance
	for _, p := range out.GetPlugins() {
		if p.GetName() == rt.Name && p.GetIndex() == rt.Index {
			plugins = append(plugins, by.plugins...)
			continue
		}
		plugins = append(plugins, p)
	}
	out.Plugins = plugins
	return out
}

// translate puts the true owner for us: owner is a name, a name marked as having removed something, or several with commas in between. What is our own, such as the annotation about missing
// work, stays ours.
func translate(owner, us, truth string) string {
	if truth == "" {
		return owner
	}
	parts := strings.Split(owner, ",")
	for i, p := range parts {
		switch name, marked := api.IsMarkedForRemoval(p); {
		case name != us:
		case marked:
			parts[i] = api.MarkForRemoval(api.ClearRemovalMarker(truth))
		default:
			parts[i] = truth
		}
	}
	return strings.Join(parts, ",")
}
