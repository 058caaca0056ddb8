package supervisor

import (
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// notes are the decisions of one event, until it is over and they are published. Safe for concurrent use: plugins of one stage are asked at once. The zero value is ready for use.
type notes struct {
	mu   sync.Mutex
	list []journal.Decision
}

// note remembers what came of a plugin's part in the event, in place of what was known of it before.
func (v *visit) note(e api.Event, h *host, r callResult, a journal.Action) {
	d := h.decision(e, v.ref, v.pod, v.name, r, a)
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	for i := range v.notes.list {
		if old := &v.notes.list[i]; old.Plugin == d.Plugin && old.Event == d.Event {
			d.Time = old.Time
			*old = d
			return
		}
	}
	v.notes.list = append(v.notes.list, d)
}

// publish gives what was noted of the event to the journal. others are the plugins that were not selected, when the selection was made for this event.
func (v *visit) publish(others []journal.NotMatched) {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	if len(others) > 0 {
		v.notes.list = append(v.notes.list, journal.Decision{
			Time: time.Now(), Kind: journal.KindSelection, Event: v.event.PrettyName(), Object: object(v.ref, v.pod, v.name), NotMatched: others,
		})
	}
	v.sup.journal.Publish(v.notes.list...)
	v.notes.list = nil
}

// changes completes the notes with what the plugins' replies change in the end. failed says that the request fails, so that nothing is changed.
func (v *visit) changes(parts []*part, failed bool) {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	for _, p := range parts {
		for i := range v.notes.list {
			d := &v.notes.list[i]
			if d.Plugin != p.h.name || d.Event != v.event.PrettyName() || d.Action != journal.ActionAllowed {
				continue
			}
			d.Changed = v.sup.changedBy(p.result.reply, v.ref.Container)
			d.Dropped, d.With, d.WithTeams = append(d.Dropped, p.lost...), append(d.With, p.lostTo...), append(d.WithTeams, p.lostToTeams...)
			if failed && len(d.Changed) > 0 {
				d.Action = journal.ActionDiscarded
			}
		}
	}
}

// decision is the record of what came of one plugin's part in one event.
func (h *host) decision(e api.Event, ref store.Ref, pod *api.PodSandbox, name naming, r callResult, a journal.Action) journal.Decision {
	d := journal.Decision{
		Time: time.Now(), Kind: journal.KindEvent, Event: e.PrettyName(), Object: object(ref, pod, name), Plugin: h.name, Team: h.policy().Team,
		Match: journal.MatchSelected, Reason: reasonOf(r.Result), Action: a, Detail: name.values.hide(r.detail), TookSeconds: r.took.Seconds(),
		Dropped: bounded(r.dropped), With: r.with, WithTeams: r.withTeams,
	}
	switch {
	case r.Withheld():
		d.Action = journal.ActionWithheld
		d.Reason, d.Detail = h.notTold(ref)
	case r.Refused == breaker.ReasonMatchError:
		d.Match = journal.MatchError
	case r.Delivered:
		d.Outcome = r.Outcome.String()
	}
	if _, left := r.reply.(optOut); left {
		d.Match, d.Action = journal.MatchOptedOut, journal.ActionOptedOut
	}
	for _, denial := range r.denials {
		if denial.Field != "" && len(d.Dropped) < journal.MaxFields {
			d.Dropped = append(d.Dropped, journal.Field{Field: string(denial.Field), Key: oneLine(denial.Key)})
		}
	}
	return d
}

// notTold says why the plugin is not told of an event: the reason for which its work was missed before, as far as it is recorded, and the same for people.
func (h *host) notTold(ref store.Ref) (reason, detail string) {
	what := "container"
	if ref.IsPod() {
		what = "pod"
	}
	for _, w := range h.sup.store.Work(ref) {
		if w.Plugin == h.name && w.Missed {
			return w.Reason, "it does not know this " + what + ", because of " + w.Reason + " when that was created"
		}
	}
	return "", "it was never told of this " + what
}

// eventUnsolicited is how the journal names an update that is no reply: NRI's name of the request.
const eventUnsolicited = "UpdateContainers"

// eventSynchronize is how it names the telling of the state.
const eventSynchronize = "Synchronize"

// noteUpdate publishes what became of an unsolicited update of a container.
func (h *host) noteUpdate(container string, a journal.Action, why string, fields []journal.Field) {
	h.sup.journal.Publish(h.updateDecision(eventUnsolicited, container, a, why, fields))
}

// updateDecision is the record of what became of an update of a container that is told apart from an event, or belongs to none.
func (h *host) updateDecision(event, container string, a journal.Action, why string, fields []journal.Field) journal.Decision {
	d := journal.Decision{Time: time.Now(), Kind: journal.KindUpdate, Event: event, Plugin: h.name, Team: h.policy().Team, Action: a, Detail: oneLine(why)}
	if ref := h.sup.store.Resolve(nil, &api.Container{Id: container}); ref.Pod != "" {
		if e, ok := h.sup.store.Get(ref); ok {
			d.Object = object(ref, e.Pod, naming{namespace: e.Pod.GetNamespace(), pod: e.Pod.GetName(), container: e.Container.GetName()})
			d.Detail = withoutValues(why, e.Container.GetEnv())
		}
	}
	d.ContainerID = oneLine(container)
	if a == journal.ActionAllowed {
		d.Changed = bounded(fields)
	} else {
		d.Dropped = bounded(fields)
	}
	return d
}

// object names a pod or container for the journal.
func object(ref store.Ref, pod *api.PodSandbox, name naming) journal.Object {
	return journal.Object{
		Namespace: name.namespace, Pod: name.pod, Container: name.container, PodUID: pod.GetUid(), PodID: ref.Pod, ContainerID: ref.Container,
	}
}

// changedBy lists what a reply changes, without values; container is whom the event is about.
func (s *Supervisor) changedBy(reply any, container string) []journal.Field {
	var out []journal.Field
	switch r := reply.(type) {
	case *api.CreateContainerResponse:
		out = s.updatedFields(fieldsOf(policy.FieldsOf(r.GetAdjust())), r.GetUpdate(), container)
	case *api.UpdateContainerResponse:
		out = s.updatedFields(nil, r.GetUpdate(), container)
	case *api.StopContainerResponse:
		out = s.updatedFields(nil, r.GetUpdate(), container)
	}
	return bounded(out)
}

func (s *Supervisor) updatedFields(out []journal.Field, updates []*api.ContainerUpdate, container string) []journal.Field {
	for _, u := range updates {
		fields := fieldsOf(policy.FieldsOfUpdate(u))
		if id := u.GetContainerId(); id != container {
			fields = s.elsewhere(fields, id)
		}
		out = append(out, fields...)
		if len(out) > journal.MaxFields {
			break
		}
	}
	return out
}

// elsewhere says of fields that they are another container's than the one that the decision is about, and of which pod that is, so that it can be found by both.
func (s *Supervisor) elsewhere(fields []journal.Field, container string) []journal.Field {
	of := journal.Field{Container: oneLine(container)}
	if ref := s.store.Resolve(nil, &api.Container{Id: container}); ref.Pod != "" {
		if p, ok := s.store.Pod(ref.Pod); ok {
			of.Namespace, of.Pod, of.PodID = p.GetNamespace(), p.GetName(), ref.Pod
		}
	}
	for i := range fields {
		fields[i].Container, fields[i].Namespace, fields[i].Pod, fields[i].PodID = of.Container, of.Namespace, of.Pod, of.PodID
	}
	return fields
}

// fieldsOf names fields for the journal.
func fieldsOf(keys []policy.FieldKey) []journal.Field {
	if len(keys) == 0 {
		return nil
	}
	keys = keys[:min(len(keys), journal.MaxFields)]
	out := make([]journal.Field, len(keys))
	for i, k := range keys {
		out[i] = journal.Field{Field: string(k.Field), Key: oneLine(k.Key), Removed: k.Removal}
	}
	return out
}

// conflictFields names fields of a merge for the journal.
func (s *Supervisor) conflictFields(keys []merge.FieldKey, container string) []journal.Field {
	keys = keys[:min(len(keys), journal.MaxFields)]
	out := make([]journal.Field, len(keys))
	for i, k := range keys {
		out[i] = journal.Field{Field: k.Field.String(), Key: oneLine(k.Key)}
		if k.Container != container {
			s.elsewhere(out[i:i+1], k.Container)
		}
	}
	return out
}

func bounded(fields []journal.Field) []journal.Field {
	return fields[:min(len(fields), journal.MaxFields)]
}

// noteManual publishes what an operator did. uid is nil when nobody did, but a timer.
func (s *Supervisor) noteManual(name, action string, uid *uint32, d time.Duration) {
	team := ""
	if h := s.plan().byName[name]; h != nil {
		team = h.policy().Team
	}
	s.journal.Publish(journal.Decision{
		Time: time.Now(), Kind: journal.KindManual, Plugin: name, Team: team, Action: journal.ActionDone, Manual: action, ActorUID: uid, ForSeconds: max(d, 0).Seconds(),
	})
}

// NoteLogLevel records that an operator set the level of the log, which is the program's own. Safe for concurrent use.
func (s *Supervisor) NoteLogLevel(level string, uid uint32) {
	s.noteManual("", "log-level "+level, &uid, 0)
}

// noteMissed publishes that a container was found running without the plugin's work.
func (h *host) noteMissed(ref store.Ref, n store.Names, reason string) {
	h.sup.journal.Publish(journal.Decision{
		Time: time.Now(), Kind: journal.KindMissed, Event: eventSynchronize, Plugin: h.name, Team: h.policy().Team, Match: journal.MatchSelected,
		Reason: reason, Action: journal.ActionIgnored,
		Object: journal.Object{Namespace: n.Namespace, Pod: n.Pod, Container: n.Container, PodUID: n.PodUID, PodID: ref.Pod, ContainerID: ref.Container},
	})
}

// Decisions returns the latest decisions that the filter picks, oldest first. Safe for concurrent use.
func (s *Supervisor) Decisions(f journal.Filter) []journal.Decision {
	defer s.opts.Computing()()
	return s.journal.Decisions(f)
}

// FollowDecisions subscribes to decisions. Close the subscription in the end. Safe for concurrent use.
func (s *Supervisor) FollowDecisions(f journal.Filter) *journal.Subscription {
	return s.journal.Subscribe(f)
}

// noteNotified publishes what became of a notification.
func (h *host) noteNotified(c *call, r callResult) {
	a := journal.ActionAllowed
	if reasonOf(r.Result) != "" {
		a = journal.ActionIgnored
		if c.quiet || h.sup.toldMissed(h, store.Ref(c.req.Ref)) {
			a = journal.ActionWithheld
		}
	}
	h.sup.journal.Publish(h.decision(c.req.Event, store.Ref(c.req.Ref), nil, c.name, r, a))
}
