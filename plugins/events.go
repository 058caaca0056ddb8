package plugins

import (
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// handledEvents is the mask of the events that impl has handlers for: the one that NRI's stub computes for itself and does
// not export.
func handledEvents(impl any) api.EventMask {
	var m api.EventMask
	set := func(e api.Event, ok bool) {
		if ok {
			m.Set(e)
		}
	}
	set(api.Event_RUN_POD_SANDBOX, implements[stub.RunPodInterface](impl))
	set(api.Event_UPDATE_POD_SANDBOX, implements[stub.UpdatePodInterface](impl))
	set(api.Event_POST_UPDATE_POD_SANDBOX, implements[stub.PostUpdatePodInterface](impl))
	set(api.Event_STOP_POD_SANDBOX, implements[stub.StopPodInterface](impl))
	set(api.Event_REMOVE_POD_SANDBOX, implements[stub.RemovePodInterface](impl))
	set(api.Event_CREATE_CONTAINER, implements[stub.CreateContainerInterface](impl))
	set(api.Event_POST_CREATE_CONTAINER, implements[stub.PostCreateContainerInterface](impl))
	set(api.Event_START_CONTAINER, implements[stub.StartContainerInterface](impl))
	set(api.Event_POST_START_CONTAINER, implements[stub.PostStartContainerInterface](impl))
	set(api.Event_UPDATE_CONTAINER, implements[stub.UpdateContainerInterface](impl))
	set(api.Event_POST_UPDATE_CONTAINER, implements[stub.PostUpdateContainerInterface](impl))
	set(api.Event_STOP_CONTAINER, implements[stub.StopContainerInterface](impl))
	set(api.Event_REMOVE_CONTAINER, implements[stub.RemoveContainerInterface](impl))
	set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT, implements[stub.ValidateContainerAdjustmentInterface](impl))
	return m
}

func implements[T any](impl any) bool {
	_, ok := impl.(T)
	return ok
}

// eventNames lists the events of m by NRI's names, in NRI's order.
func eventNames(m api.EventMask) []string {
	var names []string
	for e := api.Event_RUN_POD_SANDBOX; e < api.Event_LAST; e++ {
		if m.IsSet(e) {
			names = append(names, e.PrettyName())
		}
	}
	return names
}
