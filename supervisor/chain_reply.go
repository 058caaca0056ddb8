package supervisor

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// updateContainer asks the selected plugins what else to update and merges their replies.
func (se *session) updateContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container, r *api.LinuxResources) (updates []*api.ContainerUpdate, err error) {
	a := se.request(api.Event_UPDATE_CONTAINER)
	defer a.done()
	o := se.sup.store.ObserveContainer(pod, ctr, time.Now())
	se.sup.recorders.take(api.Event_UPDATE_CONTAINER, o.Pod, o.Container, r)
	sel, others := se.sup.containerSelection(o.Ref, o.Pod, o.Container)
	if len(sel) == 0 {
		return nil, nil
	}
	v := a.visit(ctx, o.Ref, o.Pod, o.Container)
	parts, members := v.parts(sel)
	defer func() {
		v.changes(parts, err != nil)
		v.publish(others)
	}()
	call := func(ctx context.Context, i int, req *api.UpdateContainerRequest) *api.UpdateContainerResponse {
		p := parts[i]
		if !p.asked && !v.failing.Load() {
			p.asked = true
			p.result = v.ask(ctx, p.selected, delivery{
				event: v.event, ref: v.ref, podKey: v.key, name: v.name, judge: p.h.judgeUpdate(v),
				invoke: func(c context.Context, s api.PluginService) (any, error) { return s.UpdateContainer(c, req) },
			}, len(parts)-i-1)
			v.leaves(p.h, p.result)
			v.fails(p, v.settle(p.h, p.result))
		}
		rpl, _ := p.result.reply.(*api.UpdateContainerResponse)
		return proto.CloneOf(rpl)
	}
	for {
		res, err := v.sup.merge.UpdateContainer(ctx, members, &api.UpdateContainerRequest{Pod: o.Pod, Container: o.Container, LinuxResources: r}, call)
		if err == nil {
			err = failed(parts)
		}
		if err != nil {
			return nil, err
		}
		for _, d := range res.Dropped {
			if err := v.conflict(parts, d); err != nil {
				return nil, err
			}
		}
		if proto.Size(res.Reply) <= replyLimit {
			v.left(parts, res.LostUpdates)
			v.unanswered(ctx, parts)
			return v.sup.gentle(res.Reply.GetUpdate(), v.ref.Container), nil
		}
		if err := v.dropLargest(parts); err != nil {
			return nil, err
		}
	}
}

// stopContainer asks the selected plugins what to update when the container stops. A stop never fails because of a plugin.
func (se *session) stopContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) ([]*api.ContainerUpdate, error) {
	a := se.request(api.Event_STOP_CONTAINER)
	defer a.done()
	defer se.sup.stranger(se.sup.store.Resolve(pod, ctr))()
	o := se.sup.store.ObserveContainer(pod, ctr, time.Now())
	se.sup.recorders.take(api.Event_STOP_CONTAINER, o.Pod, o.Container, nil)
	defer se.sup.store.SetStopped(o.Ref)
	sel, others := se.sup.containerSelection(o.Ref, o.Pod, o.Container)
	if len(sel) == 0 {
		return nil, nil
	}
	v := a.visit(ctx, o.Ref, o.Pod, o.Container)
	parts, members := v.parts(sel)
	defer func() {
		v.changes(parts, false)
		v.publish(others)
	}()
	req, share := &api.StopContainerRequest{Pod: o.Pod, Container: o.Container}, &wire.Payload{} // no reply changes what the next plugin gets
	call := func(ctx context.Context, i int, _ *api.StopContainerRequest) *api.StopContainerResponse {
		p := parts[i]
		if !p.asked {
			p.asked = true
			p.result = v.ask(ctx, p.selected, delivery{
				event: v.event, ref: v.ref, podKey: v.key, name: v.name, judge: p.h.judgeStop(v), share: share,
				invoke: func(c context.Context, s api.PluginService) (any, error) { return s.StopContainer(c, req) },
			}, len(parts)-i-1)
			v.leaves(p.h, p.result)
			_ = v.settle(p.h, p.result) // recorded; Stop* is always Ignore
		}
		rpl, _ := p.result.reply.(*api.StopContainerResponse)
		return proto.CloneOf(rpl)
	}
	for {
		res, err := v.sup.merge.StopContainer(ctx, members, req, call)
		if err != nil {
			v.sup.emit(Defect{Where: "merge of StopContainer", What: err.Error()})
			return nil, nil
		}
		for _, d := range res.Dropped {
			_ = v.conflict(parts, d)
		}
		if proto.Size(res.Reply) <= replyLimit {
			v.left(parts, res.LostUpdates)
			v.unanswered(ctx, parts)
			return v.sup.gentle(res.Reply.GetUpdate(), ""), nil
		}
		if err := v.dropLargest(parts); err != nil {
			v.sup.emit(Defect{Where: "merge of StopContainer", What: err.Error()})
			return nil, nil
		}
	}
}

// left records updates with IgnoreFailure that an earlier plugin's made impossible. Upstream leaves such an update out without a word.
func (v *visit) left(parts []*part, updates []merge.LostUpdate) {
	for _, u := range updates {
		p := parts[u.Member]
		h := p.h
		h.met.updates("reply", "conflict")
		p.lost = append(p.lost, v.sup.conflictFields(u.Fields, v.ref.Container)...)
		for _, w := range u.With {
			p.lostTo, p.lostToTeams = append(p.lostTo, parts[w].h.name), append(p.lostToTeams, parts[w].h.policy().Team)
		}
		v.sup.emit(UpdateFailed{Plugin: h.name, Team: h.policy().Team, ContainerID: u.Update.GetContainerId(), Err: "an earlier plugin updates the same of this container"})
	}
}

// takeBack tells the plugins that know of a container's creation that it will not be, so that they free what they hold for it: who was asked, and who was synchronized meanwhile.
func (v *visit) takeBack(parts []*part) {
	e, ok := v.sup.store.Get(v.ref)
	if !ok {
		return
	}
	e.Pins = nil
	for _, p := range parts {
		e.Pins = append(e.Pins, store.Pin{Plugin: p.h.name, Selected: true})
	}
	v.sup.tellGoneTo(e, api.Event_REMOVE_CONTAINER, v.name.values)
}

// tellReplaced: a container with the id of one that is known is created, so the old one is gone; the plugins that know it are told.
func (s *Supervisor) tellReplaced(e store.Entry) { s.tellGone(e, api.Event_REMOVE_CONTAINER) }

// tellGone sends the plugins selected for a pod or container the event of its removal, as a notification. A plugin that does not know it is not told.
func (s *Supervisor) tellGone(e store.Entry, ev api.Event) {
	s.tellGoneTo(e, ev, newValues(e.Container.GetEnv()))
}

func (s *Supervisor) tellGoneTo(e store.Entry, ev api.Event, known *values) {
	for _, sel := range s.fromPins(e.Pins, e.Pod) {
		if sel.matchErr {
			continue
		}
		if !sel.h.subscribes(ev) {
			sel.h.post(plugin.Removed{Ref: plugin.Ref(e.Ref)})
			continue
		}
		sel.h.notify(delivery{
			event: ev, ref: e.Ref, podKey: podKey(e.Pod), judge: sel.h.judgeEvent, quiet: true, // what became of the creation is recorded
			name: naming{namespace: e.Pod.GetNamespace(), pod: e.Pod.GetName(), container: e.Container.GetName(), containerID: e.Container.GetId(), values: known},
			invoke: func(c context.Context, p api.PluginService) (any, error) {
				if ev == api.Event_REMOVE_POD_SANDBOX {
					return p.RemovePodSandbox(c, &api.RemovePodSandboxRequest{Pod: e.Pod})
				}
				return p.RemoveContainer(c, &api.RemoveContainerRequest{Pod: e.Pod, Container: e.Container})
			},
		})
		sel.h.post(plugin.Removed{Ref: plugin.Ref(e.Ref)})
	}
}
