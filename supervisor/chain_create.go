package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// missedAnnotation tells on a container what work is missing from it: "gpu-env=timeout,other=busy".
const missedAnnotation = "nri-supervisor.dev/missed"

// part is one plugin's part in an event that has a reply.
type part struct {
	selected
	adjusts bool // it subscribes to the event itself; false: it only validates
	asked   bool
	result  callResult
	err     error // of the request, if this plugin's failure makes it fail
	// unjudged is why its judgement of the merged adjustment is missing; empty when it is not
	unjudged string

	lost   []journal.Field // updates that were left out of a reply that counts otherwise
	lostTo []string        // to whom
	// lostToTeams are their teams
	lostToTeams []string
}

// parts returns the selected plugins that subscribe to the event, as members of a merge.
func (v *visit) parts(sel []selected) ([]*part, []merge.Member) {
	parts := make([]*part, 0, len(sel))
	members := make([]merge.Member, 0, len(sel))
	for _, s := range sel {
		validates := v.event == api.Event_CREATE_CONTAINER && !v.outside && s.h.validates()
		adjusts := s.h.subscribes(v.event)
		if !adjusts && !validates {
			continue
		}
		parts = append(parts, &part{selected: s, adjusts: adjusts})
		members = append(members, merge.Member{
			Name: s.h.name, Index: s.h.policy().Index, Parallel: s.h.policy().Spec.Parallel, Validates: validates,
		})
	}
	v.together = together(members)
	return parts, members
}

// together returns the places of members that are called at once: those of an index of which all are parallel.
func together(members []merge.Member) map[int]bool {
	parallel, n := map[string]bool{}, map[string]int{}
	for _, m := range members {
		parallel[m.Index] = m.Parallel && (n[m.Index] == 0 || parallel[m.Index])
		n[m.Index]++
	}
	out := map[int]bool{}
	for i, m := range members {
		if parallel[m.Index] && n[m.Index] > 1 {
			out[i] = true
		}
	}
	return out
}

// fails remembers that the request will end with an error, so that no further plugin is asked.
func (v *visit) fails(p *part, err error) {
	p.err = err
	if err != nil {
		v.failing.Store(true)
	}
}

// failed returns the error that the request ends with, if any plugin's failure makes it fail.
func failed(parts []*part) error {
	for _, p := range parts {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// createContainer asks the selected plugins for their adjustments and merges them.
func (se *session) createContainer(ctx context.Context, pod *api.PodSandbox, ctr *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a := se.request(api.Event_CREATE_CONTAINER)
	defer a.done()
	s := se.sup
	o := s.store.ObserveCreation(pod, ctr, time.Now())
	s.recorders.take(api.Event_CREATE_CONTAINER, o.Pod, o.Container, nil)
	if o.Replaced != nil {
		s.tellReplaced(*o.Replaced)
	}
	sel, others := s.containerSelection(o.Ref, o.Pod, o.Container)
	need, err := s.requirements(o, sel)
	if err != nil {
		s.forgetContainer(o.Ref)
		return nil, nil, err
	}
	if len(sel) == 0 {
		s.store.SetCreated(o.Ref)
		s.history.decided(s, o.Ref)
		return nil, nil, nil
	}
	v := a.visit(ctx, o.Ref, o.Pod, o.Container)
	v.need, v.outside = need, se.outside()
	parts, members := v.parts(sel)
	defer v.publish(others)
	rpl, err := v.create(ctx, parts, members, &api.CreateContainerRequest{Pod: o.Pod, Container: o.Container})
	if err != nil {
		v.changes(parts, true)
		v.takeBack(parts)
		s.forgetContainer(o.Ref)
		v.turnOver(parts) //nolint:contextcheck // what it may start on the way outlives the event
		return nil, nil, err
	}
	v.unanswered(ctx, parts)
	v.changes(parts, false)
	if v.outside {
		se.authors.Store(&authorship{ref: v.ref, owners: v.owners, plugins: consulted(parts)})
	}
	missed := v.record(parts)
	s.store.SetCreated(o.Ref)
	v.turnOver(parts) //nolint:contextcheck // what it may start on the way outlives the event
	adjust := rpl.GetAdjust()
	if missed != "" && s.plan().config.Supervisor.AnnotateMissed {
		if adjust == nil {
			adjust = &api.ContainerAdjustment{}
		}
		adjust.AddAnnotation(missedAnnotation, missed)
	}
	return adjust, s.gentle(rpl.GetUpdate(), ""), nil
}

// unanswered: when the runtime went away before it had the answer, or has waited for longer than it does, it goes on without it, and what the plugins did is missing.
func (v *visit) unanswered(ctx context.Context, parts []*part) {
	detail := "the runtime went away before it had the answer"
	if !errors.Is(ctx.Err(), context.Canceled) {
		if time.Now().Before(v.lost) {
			return
		}
		detail = "nri-supervisor stood still, and the runtime goes on without an answer that is late"
	}
	for _, p := range parts {
		if p.result.Delivered && p.result.Outcome == breaker.OutcomeSuccess {
			p.result = callResult{Result: plugin.Result{Delivered: true, Outcome: breaker.OutcomeCanceled}, took: p.result.took, detail: detail}
			_ = v.settle(p.h, p.result) // recorded; there is nobody to refuse
		}
	}
}

// turnOver lets the plugins forget that their turn in this creation is over: another life of the same container may begin.
func (v *visit) turnOver(parts []*part) {
	for _, p := range parts {
		p.h.deal(message{fn: func() { delete(p.h.answered, v.ref) }})
	}
}

// create runs the merge, again without the largest reply as long as the result does not fit into one message.
func (v *visit) create(ctx context.Context, parts []*part, members []merge.Member, req *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	call := func(ctx context.Context, i int, req *api.CreateContainerRequest) *api.CreateContainerResponse {
		p := parts[i]
		if !p.asked {
			if !p.adjusts {
				return nil
			}
			p.asked = true
			if v.failing.Load() {
				return nil
			}
			v.name.values.learn(req.GetContainer().GetEnv()) // with what earlier plugins set
			p.result = v.ask(ctx, p.selected, delivery{
				event: v.event, ref: v.ref, podKey: v.key, name: v.name, judge: p.h.judgeCreate(v, i),
				invoke: func(c context.Context, s api.PluginService) (any, error) { return s.CreateContainer(c, req) },
			}, len(parts)-i-1)
			v.fails(p, v.settle(p.h, p.result))
			if v.leaves(p.h, p.result) {
				if by := v.need[p.h.name]; by != "" {
					v.fails(p, v.sup.unmet(store.Observed{Ref: v.ref, Pod: v.pod, Container: v.ctr}, unmetRequirement{
						plugin: p.h.name, by: by, match: journal.MatchOptedOut, why: "it is not interested in this container",
					}))
				}
			}
		}
		rpl, _ := p.result.reply.(*api.CreateContainerResponse)
		if len(parts) == 1 {
			return rpl // passes through as it is
		}
		return proto.CloneOf(rpl)
	}
	dropped := func(d merge.Dropped) { // before a later plugin is asked: nothing of the reply counts any more
		v.earlier.drop(d.Member)
		_ = v.conflict(parts, d)
	}
	accept := func(i int) bool {
		p := parts[i]
		rpl, ok := p.result.reply.(*api.CreateContainerResponse)
		if !ok {
			return true
		}
		if v.together[i] && !p.h.policy().MayOverride() { // the others were judged when they answered
			if d := v.earlier.removedBy(i, rpl.GetAdjust()); len(d) > 0 {
				_ = v.drop(p, forbidden(d))
				return false
			}
		}
		v.earlier.add(i, p.h.name, rpl.GetAdjust())
		return true
	}
	var asked []*api.PluginInstance
	validate := func(ctx context.Context, i int, req *api.ValidateContainerAdjustmentRequest) (string, bool) {
		req = proto.CloneOf(req)
		req.Plugins = asked
		return v.validate(ctx, parts[i], req)
	}
	settled := !slices.ContainsFunc(members, func(m merge.Member) bool { return m.Validates })
	for {
		v.earlier.reset()
		o := merge.CreateOptions{Accept: accept, Dropped: dropped, Owners: v.outside}
		if settled {
			o.Validate = validate
		}
		res, err := v.sup.merge.CreateContainer(ctx, members, req, call, o)
		if err == nil {
			err = failed(parts)
		}
		if err != nil {
			return nil, err
		}
		if proto.Size(res.Reply) <= replyLimit {
			if !settled { // nothing will be left out any more, so now it can be judged, once
				settled, asked = true, consulted(parts)
				continue
			}
			v.left(parts, res.LostUpdates)
			v.owners = res.Owners
			for _, p := range parts {
				if rpl, ok := p.result.reply.(*api.CreateContainerResponse); ok && p.err == nil {
					p.h.met.adjusted(rpl.GetAdjust())
				}
			}
			return res.Reply, nil
		}
		if err := v.dropLargest(parts); err != nil {
			return nil, err
		}
	}
}

// conflict: the plugin's whole reply was dropped because an earlier one set the same.
func (v *visit) conflict(parts []*part, d merge.Dropped) error {
	p := parts[d.Member]
	if p.result.Outcome == breaker.OutcomeConflict {
		return nil // known from an earlier pass
	}
	ev := Conflict{Plugin: p.h.name, Team: p.h.policy().Team, Namespace: v.name.namespace, Pod: v.name.pod, Container: v.name.container}
	for _, w := range d.With {
		other := parts[w].h.policy()
		ev.With, ev.WithTeams = append(ev.With, other.Name), append(ev.WithTeams, other.Team)
	}
	for _, f := range d.Fields {
		ev.Fields = append(ev.Fields, f.String())
		for i := range ev.With {
			p.h.met.conflict(ev.With[i], ev.WithTeams[i], f.Field.String())
		}
	}
	for i, name := range ev.With {
		p.h.rivals.add(name, ev.WithTeams[i], ev.Fields)
	}
	v.sup.emit(ev)
	return v.drop(p, verdict{
		dropped: v.sup.conflictFields(d.Fields, v.ref.Container), with: ev.With, withTeams: ev.WithTeams,
		outcome: breaker.OutcomeConflict, detail: d.Cause.String() + " with " + strings.Join(ev.With, ", ") + " over " + strings.Join(ev.Fields, ", "),
	})
}

// drop leaves a plugin's whole reply out after all, records why, and returns the error of the request if there is to be one.
func (v *visit) drop(p *part, why verdict) error {
	if v.event == api.Event_CREATE_CONTAINER {
		p.h.post(plugin.Dropped{Ref: plugin.Ref(v.ref)})
	}
	p.result = callResult{
		Result: plugin.Result{Delivered: true, Outcome: why.outcome}, took: p.result.took, detail: why.detail, denials: why.denials,
		dropped: why.dropped, with: why.with, withTeams: why.withTeams,
	}
	v.fails(p, v.settle(p.h, p.result))
	return p.err
}

// dropLargest drops the largest reply, because all of them together do not fit into one message to the runtime.
func (v *visit) dropLargest(parts []*part) error {
	var worst *part
	size := -1
	for _, p := range parts {
		if rpl, ok := p.result.reply.(proto.Message); ok {
			if n := proto.Size(rpl); n > size {
				worst, size = p, n
			}
		}
	}
	if worst == nil { // each reply fits by itself, so what is left always fits in the end
		return fmt.Errorf("nri-supervisor: the reply to %s does not fit into one message", v.event.PrettyName())
	}
	return v.drop(worst, verdict{
		outcome: breaker.OutcomeInvalidResponse, detail: "the replies of all plugins together exceed one message to the runtime, and this one is the largest",
	})
}

// record notes what became of each plugin's work on the container, and returns what the annotation says of it.
func (v *visit) record(parts []*part) string {
	now := time.Now()
	var missed []string
	for _, p := range parts {
		if !p.adjusts && !p.asked {
			continue // a validator that was not asked, because there was nothing to judge
		}
		w := store.Work{Plugin: p.h.name, At: now, Rejected: p.result.Outcome == breaker.OutcomeRejected && p.result.Delivered}
		if p.result.Delivered {
			w.Outcome = p.result.Outcome.String()
		}
		if _, left := p.result.reply.(optOut); left {
			w.Outcome = outcomeOptedOut
		}
		if r := cmp.Or(reasonOf(p.result.Result), p.unjudged); r != "" {
			w.Reason, w.Missed = r, true
			missed = append(missed, p.h.name+"="+r)
		}
		v.sup.store.SetWork(v.ref, w)
		p.h.met.work(w)
	}
	v.sup.history.decided(v.sup, v.ref)
	slices.Sort(missed)
	return strings.Join(missed, ",")
}
