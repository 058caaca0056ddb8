package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// reasonRequired is why a creation is refused that a required plugin never had a part in.
const reasonRequired = "required"

// requirements returns what requires each of the plugins that must succeed for the container, by plugin. The error is why it cannot be created whatever they do. Only a success counts: not a
// plugin that was merely asked, not one that opted out.
func (s *Supervisor) requirements(o store.Observed, sel []selected) (map[string]string, error) {
	if s.bypassed() {
		return nil, nil // a bypass makes everything a no-op
	}
	need, err := s.plan().config.Required(o.Pod, o.Container.GetName())
	if err != nil {
		return nil, s.unmet(o, "", "", err.Error())
	}
	var by map[string]string
	for _, r := range need {
		i := slices.IndexFunc(sel, func(c selected) bool { return c.h.name == r.Plugin })
		switch {
		case !r.Hosted:
			return nil, s.unmet(o, r.Plugin, r.By, "no plugin of that name is hosted, or its manifest is invalid")
		case i < 0:
			return nil, s.unmet(o, r.Plugin, r.By, "its selector does not select this container")
		case !sel[i].h.subscribes(api.Event_CREATE_CONTAINER):
			return nil, s.unmet(o, r.Plugin, r.By, "it does not subscribe to CreateContainer")
		}
		if by == nil {
			by = map[string]string{}
		}
		by[r.Plugin] = r.By
	}
	return by, nil
}

// unmet records that a requirement cannot be met and returns the error of the request.
func (s *Supervisor) unmet(o store.Observed, plugin, by, why string) error {
	name := naming{namespace: o.Pod.GetNamespace(), pod: o.Pod.GetName(), container: o.Container.GetName(), containerID: o.Container.GetId()}
	team, owner := "", ""
	if h := s.plan().byName[plugin]; h != nil {
		team, owner = h.policy().Team, h.owner()
	}
	plugin, why = oneLine(plugin), oneLine(why)
	s.emit(Unmet{Plugin: plugin, Team: team, Namespace: name.namespace, Pod: name.pod, Container: name.container, By: by, Why: why})
	s.journal.Publish(journal.Decision{
		Time: time.Now(), Kind: journal.KindEvent, Event: api.Event_CREATE_CONTAINER.PrettyName(), Object: object(o.Ref, o.Pod, name), Plugin: plugin, Team: team,
		Reason: reasonRequired, Action: journal.ActionFailed, Detail: why,
	})
	if plugin == "" {
		return fmt.Errorf("nri-supervisor: %s", why)
	}
	return fmt.Errorf("nri-supervisor: plugin %q%s is required by %s and did not do its work: %s", plugin, owner, by, why)
}
