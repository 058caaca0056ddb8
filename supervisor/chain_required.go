package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// ReasonRequired is why a creation is refused that a required plugin never had a part in.
const ReasonRequired = "required"

// requirements returns what requires each of the plugins that must succeed for the container, by plugin. The error is why it cannot be created whatever they do. Only a success counts: not a
// plugin that was merely asked, not one that opted out.
func (s *Supervisor) requirements(o store.Observed, sel []selected) (map[string]string, error) {
	if s.bypassed() {
		return nil, nil // a bypass makes everything a no-op
	}
	need, err := s.plan().config.Required(o.Pod, o.Container.GetName())
	if err != nil {
		return nil, s.unmet(o, unmetRequirement{why: err.Error()})
	}
	var by map[string]string
	for _, r := range need {
		u := unmetRequirement{plugin: r.Plugin, by: r.By, match: journal.MatchNot}
		i := slices.IndexFunc(sel, func(c selected) bool { return c.h.name == r.Plugin })
		switch {
		case !r.Hosted:
			u.why = "no plugin of that name is hosted, or its manifest is invalid"
			return nil, s.unmet(o, u)
		case i < 0 && slices.Contains(s.store.Left(o.Ref.Pod), r.Plugin):
			u.match, u.why = journal.MatchOptedOut, "it is not interested in this pod"
			return nil, s.unmet(o, u)
		case i < 0:
			u.why = "its selector does not select this container"
			u.part = s.refusingPart(r.Plugin, o)
			return nil, s.unmet(o, u)
		case !sel[i].h.subscribes(api.Event_CREATE_CONTAINER):
			u.match, u.why = journal.MatchSelected, "it does not subscribe to CreateContainer"
			return nil, s.unmet(o, u)
		}
		if by == nil {
			by = map[string]string{}
		}
		by[r.Plugin] = r.By
	}
	return by, nil
}

// refusingPart says which part of the plugin's selector leaves the container out; nil when it does not, or not any more.
func (s *Supervisor) refusingPart(plugin string, o store.Observed) []journal.NotMatched {
	h := s.plan().byName[plugin]
	if h == nil {
		return nil
	}
	d := h.policy().MatchContainer(o.Pod, o.Container)
	if d.Selected || d.Err != nil {
		return nil
	}
	return []journal.NotMatched{{Plugin: plugin, Part: d.Part.String(), Detail: d.Detail}}
}

// unmetRequirement is a required plugin that has no part in a creation, and why.
type unmetRequirement struct {
	plugin, by, why string
	match           journal.Match
	part            []journal.NotMatched // of its selector
}

// unmet records that a requirement cannot be met and returns the error of the request.
func (s *Supervisor) unmet(o store.Observed, u unmetRequirement) error {
	name := naming{namespace: o.Pod.GetNamespace(), pod: o.Pod.GetName(), container: o.Container.GetName(), containerID: o.Container.GetId()}
	team, owner := "", ""
	if h := s.plan().byName[u.plugin]; h != nil {
		team, owner = h.policy().Team, h.owner()
		h.met.fallback(actionFail, ReasonRequired)
		h.refusals.add(ReasonRequired)
	} else {
		s.metrics.unmet(s.plan().config, u.plugin)
		s.unhosted.add(ReasonRequired)
	}
	plugin, why := oneLine(u.plugin), oneLine(u.why)
	s.emit(Unmet{Plugin: plugin, Team: team, Namespace: name.namespace, Pod: name.pod, Container: name.container, By: u.by, Why: why})
	s.journal.Publish(journal.Decision{
		Time: time.Now(), Kind: journal.KindEvent, Event: api.Event_CREATE_CONTAINER.PrettyName(), Object: object(o.Ref, o.Pod, name), Plugin: plugin, Team: team,
		Match: u.match, NotMatched: u.part, Reason: ReasonRequired, Action: journal.ActionFailed, Detail: why,
	})
	if plugin == "" {
		return fmt.Errorf("nri-supervisor: %s", why)
	}
	return fmt.Errorf("nri-supervisor: plugin %q%s is required by %s and did not do its work: %s", plugin, owner, u.by, why)
}
