package policy

import (
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// EventName is the name of an NRI event as manifests write it, such as "CreateContainer".
// It is a closed set: the events of NRI's api package.
type EventName string

// EventNames lists every event that NRI knows, in NRI's own order.
func EventNames() []EventName {
	names := make([]EventName, 0, int(api.Event_LAST)-1)
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		names = append(names, EventName(e.PrettyName()))
	}
	return names
}

// Values lists the closed set.
func (EventName) Values() []string {
	var out []string
	for _, n := range EventNames() {
		out = append(out, string(n))
	}
	return out
}

// Event returns NRI's number for the name; api.Event_UNKNOWN when there is none.
func (n EventName) Event() api.Event {
	for e := api.Event_UNKNOWN + 1; e < api.Event_LAST; e++ {
		if e.PrettyName() == string(n) {
			return e
		}
	}
	return api.Event_UNKNOWN
}

// IsPodEvent says whether the event concerns a pod sandbox and no container.
func IsPodEvent(e api.Event) bool {
	return slices.Contains([]api.Event{
		api.Event_RUN_POD_SANDBOX, api.Event_UPDATE_POD_SANDBOX, api.Event_POST_UPDATE_POD_SANDBOX,
		api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX,
	}, e)
}
