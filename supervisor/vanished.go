package supervisor

import (
	"cmp"
	"context"
	"slices"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// farewell is the end of a pod or container that the runtime did not tell of: it does not list it any more.
type farewell struct {
	event api.Event
	entry store.Entry
}

// farewells are the events that a runtime would have sent for what is gone, in its order: for each pod the containers stop, the pod stops, the containers are removed, the pod is.
func farewells(pods, ctrs []store.Entry) []farewell {
	ctrs = slices.Clone(ctrs)
	for i, e := range ctrs {
		ctrs[i].Container = proto.CloneOf(e.Container)
		ctrs[i].Container.State, ctrs[i].Container.Pid = api.ContainerState_CONTAINER_STOPPED, 0
	}
	var out []farewell
	for _, s := range []struct {
		event api.Event
		of    []store.Entry
	}{
		{api.Event_STOP_CONTAINER, ctrs},
		{api.Event_STOP_POD_SANDBOX, pods},
		{api.Event_REMOVE_CONTAINER, ctrs},
		{api.Event_REMOVE_POD_SANDBOX, pods},
	} {
		for _, e := range s.of {
			out = append(out, farewell{s.event, e})
		}
	}
	slices.SortStableFunc(out, func(a, b farewell) int { return cmp.Compare(a.entry.Ref.Pod, b.entry.Ref.Pod) })
	return out
}

// tellVanishedLocked gives the plugins that selected them the ends of pods and containers that are gone, before they are told the state. A plugin's machine knows whether its incarnation
// has seen them, and what of their end.
func (s *Supervisor) tellVanishedLocked(gone []farewell) {
	for _, f := range gone {
		for _, sel := range s.fromPins(f.entry.Pins, f.entry.Pod) {
			if !sel.matchErr && sel.h.subscribes(f.event) {
				c := sel.h.newCall(sel.h.farewell(f), false)
				c.req.Vanished = true
				sel.h.box.put(message{in: plugin.Call{Request: c.req}, call: c})
			}
		}
	}
}

func (h *host) farewell(f farewell) delivery {
	pod, ctr := f.entry.Pod, f.entry.Container
	return delivery{
		event: f.event, ref: f.entry.Ref, podKey: podKey(pod), judge: h.judgeFarewell,
		name: naming{namespace: pod.GetNamespace(), pod: pod.GetName(), container: ctr.GetName(), containerID: ctr.GetId(), values: newValues(ctr.GetEnv())},
		invoke: func(c context.Context, p api.PluginService) (any, error) {
			stop := f.event == api.Event_STOP_CONTAINER || f.event == api.Event_STOP_POD_SANDBOX
			switch {
			case stop && ctr != nil:
				return p.StopContainer(c, &api.StopContainerRequest{Pod: pod, Container: ctr})
			case stop:
				return p.StopPodSandbox(c, &api.StopPodSandboxRequest{Pod: pod})
			case ctr != nil:
				return p.RemoveContainer(c, &api.RemoveContainerRequest{Pod: pod, Container: ctr})
			}
			return p.RemovePodSandbox(c, &api.RemovePodSandboxRequest{Pod: pod})
		},
	}
}

// judgeFarewell judges the reply to the end of something that vanished. What the plugin asks to update then, nobody waits for: it is taken like what it asks for on its own.
func (h *host) judgeFarewell(reply any, err error) verdict {
	if err != nil {
		return h.judgeError(err)
	}
	if rpl, ok := reply.(*api.StopContainerResponse); ok {
		h.sup.updates.accept(h, api.Event_STOP_CONTAINER.PrettyName(), rpl.GetUpdate())
	}
	return verdict{outcome: breaker.OutcomeSuccess}
}
