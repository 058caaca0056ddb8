package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// Where an explanation comes from.
const (
	// ExplainedLive is a pod or container that is known now.
	ExplainedLive = "live"
	// ExplainedFromAudit is one that is gone.
	ExplainedFromAudit = "audit"
	// ExplainedFromEvent is one of an event in a file: what would be selected.
	ExplainedFromEvent = "event"
)

// Explanation says of one pod or container what each plugin had to do with it.
type Explanation struct {
	journal.Object
	// Source is one of ExplainedLive, ExplainedFromAudit and ExplainedFromEvent.
	Source string `json:"source"`
	// Phase is how far a living container has come.
	Phase string `json:"phase,omitempty"`
	// Plugins are in calling order, as far as it is known.
	Plugins []PluginExplanation `json:"plugins"`
	// Decisions are what was decided about it and no plugin in particular, oldest first, such as a refusal for an annotation that cannot be read.
	Decisions []journal.Decision `json:"decisions,omitempty"`
	// Owners say who owns each field now.
	Owners []journal.Owner `json:"owners,omitempty"`
	// Notes say what is not known.
	Notes []string `json:"notes,omitempty"`
}

// PluginExplanation is one plugin's part.
type PluginExplanation struct {
	Plugin string `json:"plugin"`
	Team   string `json:"team,omitempty"`
	// Match is what counts: the pinned decision, or the one that would be taken.
	Match journal.Match `json:"match"`
	// Part is the first part of the selector that refused; Detail says more.
	Part   string `json:"part,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Parts are all parts of the selector as it is today.
	Parts []PartExplanation `json:"parts,omitempty"`
	// Work is what became of its work on the creation, as far as it is missing or was done.
	Work *WorkExplanation `json:"work,omitempty"`
	// Decisions are what was decided about its part, oldest first.
	Decisions []journal.Decision `json:"decisions,omitempty"`
	// Note says what differs from what one would expect.
	Note string `json:"note,omitempty"`
}

// PartExplanation is one part of a selector.
type PartExplanation struct {
	Part    string `json:"part"`
	Matched bool   `json:"matched"`
	Detail  string `json:"detail,omitempty"`
	Error   string `json:"error,omitempty"`
}

// WorkExplanation is what became of a plugin's work on a container's creation.
type WorkExplanation struct {
	Outcome string `json:"outcome,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Missed  bool   `json:"missed,omitempty"`
}

// ErrNotExplained is wrapped by the error for a pod or container that nothing is known of.
var ErrNotExplained = errors.New("nothing is known of it")

// ExplainSelection says of each plugin whether it would be selected for the pod, or for the container if it is not nil, and by which part.
func ExplainSelection(plugins []*policy.Plugin, pod *api.PodSandbox, ctr *api.Container) []PluginExplanation {
	out := make([]PluginExplanation, 0, len(plugins))
	for _, p := range plugins {
		e := PluginExplanation{Plugin: p.Name, Team: p.Team}
		var d policy.Decision
		var parts []policy.PartResult
		if ctr == nil {
			d, parts = p.MatchPod(pod), p.ExplainPod(pod)
		} else {
			d, parts = p.MatchContainer(pod, ctr), p.ExplainContainer(pod, ctr)
		}
		switch {
		case d.Selected:
			e.Match = journal.MatchSelected
		case d.Err != nil:
			e.Match, e.Part, e.Detail = journal.MatchError, d.Part.String(), oneLine(d.Err.Error())
		default:
			e.Match, e.Part, e.Detail = journal.MatchNot, d.Part.String(), d.Detail
		}
		for _, r := range parts {
			if !r.Given {
				continue
			}
			x := PartExplanation{Part: r.Part.String(), Matched: r.Matched, Detail: r.Detail}
			if r.Err != nil {
				x.Error = oneLine(r.Err.Error())
			}
			if e.Part == x.Part && !r.Matched && (e.Detail == "" || r.Part == policy.PartMatchConditions && e.Match == journal.MatchNot) {
				e.Detail = r.Detail
			}
			e.Parts = append(e.Parts, x)
		}
		out = append(out, e)
	}
	return out
}

// Explain says what each plugin had to do with a pod and its containers, or with one container by its name or id. A pod that is gone is looked for in the audit, which takes time: ctx bounds
// it. It returns an error that wraps ErrNotExplained when nothing is known. Safe for concurrent use.
func (s *Supervisor) Explain(ctx context.Context, namespace, podName, container string) ([]Explanation, error) {
	defer s.opts.Computing()()
	past := s.past(ctx, namespace, podName)
	var out []Explanation
	pods, ctrs := s.store.All()
	for _, list := range []iter.Seq[store.Entry]{pods, ctrs} {
		out = s.explainNamed(out, list, past, namespace, podName, container)
	}
	out = append(out, gone(out, explainPast(past.decisions, namespace, podName, container))...)
	if len(out) == 0 {
		what := namespace + "/" + podName
		if container != "" {
			what += "/" + container
		}
		return nil, notExplainedError{what: what, audit: past.note}
	}
	slices.SortStableFunc(out, func(a, b Explanation) int {
		return cmp.Or(cmp.Compare(a.PodID, b.PodID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.ContainerID, b.ContainerID))
	})
	for i := range out {
		if past.note != "" {
			out[i].Notes = append(out[i].Notes, past.note)
		}
	}
	return out, nil
}

// explainNamed explains those of a list that are meant.
func (s *Supervisor) explainNamed(out []Explanation, list iter.Seq[store.Entry], past pastDecisions, namespace, podName, container string) []Explanation {
	for e := range list {
		if e.Pod.GetNamespace() != namespace || e.Pod.GetName() != podName {
			continue
		}
		if container != "" && (e.Container == nil || e.Container.GetName() != container && e.Ref.Container != container) {
			continue
		}
		out = append(out, s.explainEntry(e, past))
	}
	return out
}

// maxGone bounds how many pods and containers that are gone are explained beside those that live: one that crashes leaves a container every five minutes.
const maxGone = 20

// gone returns those of the past that do not live, the latest of them if anything lives.
func gone(living, past []Explanation) []Explanation {
	past = slices.DeleteFunc(past, func(x Explanation) bool {
		return slices.ContainsFunc(living, func(l Explanation) bool { return l.PodID == x.PodID && l.ContainerID == x.ContainerID })
	})
	if more := len(past) - maxGone; more > 0 && len(living) > 0 {
		living[0].Notes = append(living[0].Notes, fmt.Sprintf("%d more of this name are gone and not shown; name a container by its id to see it", more))
		past = past[more:]
	}
	return past
}

// notExplainedError says of what nothing is known.
type notExplainedError struct{ what, audit string }

// Error returns the message.
func (e notExplainedError) Error() string {
	msg := "explain " + e.what + ": no such pod or container is known, and no decision about it is kept"
	if e.audit != "" {
		msg += "; " + e.audit
	}
	return msg
}

// Unwrap returns ErrNotExplained.
func (notExplainedError) Unwrap() error { return ErrNotExplained }

// pastDecisions are what is remembered of a pod, oldest first.
type pastDecisions struct {
	decisions []journal.Decision
	note      string
}

// past collects the decisions about a pod from the audit and from memory. Those about its containers that came from elsewhere, such as updates by the event of another pod, are among them.
func (s *Supervisor) past(ctx context.Context, namespace, podName string) pastDecisions {
	var p pastDecisions
	inMemory := s.journal.Decisions(journal.Filter{})
	if s.opts.Audit != nil {
		s.explaining.Lock() // one at a time: a file may have hundreds of megabytes
		err := audit.Read(ctx, s.opts.Audit.Path(), []string{quoted("pod", podName)}, func(d journal.Decision) {
			if d.Touches(namespace, podName) && (len(inMemory) == 0 || d.Time.Before(inMemory[0].Time)) {
				p.decisions = append(p.decisions, d)
			}
		})
		s.explaining.Unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.note = "the audit could not be read: " + err.Error()
		}
	}
	p.decisions = append(p.decisions, inMemory...)
	return p
}

// quoted is how a member of a JSON object is written.
func quoted(name, value string) string {
	v, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return `"` + name + `":` + string(v)
}

// explainEntry explains what is known now.
func (s *Supervisor) explainEntry(e store.Entry, past pastDecisions) Explanation {
	name := naming{namespace: e.Pod.GetNamespace(), pod: e.Pod.GetName(), container: e.Container.GetName()}
	x := Explanation{Object: object(e.Ref, e.Pod, name), Source: ExplainedLive}
	now := s.plan()
	var plugins []*policy.Plugin
	for _, h := range now.hosts {
		plugins = append(plugins, h.policy())
	}
	x.Plugins = ExplainSelection(plugins, e.Pod, e.Container)
	if e.Container != nil {
		x.Phase = e.Phase.String()
	}
	left := s.store.Left(e.Ref.Pod)
	for i := range x.Plugins {
		p := &x.Plugins[i]
		p.pin(e, slices.Contains(left, p.Plugin), plugins[i])
		for _, w := range e.Work {
			if w.Plugin == p.Plugin {
				p.Work = &WorkExplanation{Outcome: w.Outcome, Reason: w.Reason, Missed: w.Missed}
				if w.Outcome == outcomeOptedOut {
					p.left("the plugin wants to hear no more of this container")
				}
			}
		}
	}
	x.tell(past.decisions)
	return x
}

// pin puts the decision that was taken and counts in place of the one that would be taken today.
func (p *PluginExplanation) pin(e store.Entry, left bool, now *policy.Plugin) {
	if !e.Pinned {
		p.Note = "no decision was taken yet; this is what it would be"
		return
	}
	today := p.Match
	i := slices.IndexFunc(e.Pins, func(pin store.Pin) bool { return pin.Plugin == p.Plugin })
	switch {
	case left:
		p.left("the plugin wants to hear no more of this pod")
		return
	case i < 0:
		p.Match = journal.MatchNot
		if today == journal.MatchSelected {
			p.Note = "its selector matches today; it did not when the decision was taken, or the plugin opted out"
		}
		return
	case !now.MaySee(e.Pod): // it is today's ceiling that counts, and p says already what refuses
		p.Match = journal.MatchNot
		p.Note = "it was selected; its team may not see this pod any more"
		return
	case e.Pins[i].Selected:
		p.Match = journal.MatchSelected
	default:
		p.Match = journal.MatchError
	}
	if today == journal.MatchNot && p.Match == journal.MatchSelected {
		p.Note = "its selector does not match any more (" + p.Part + "); the decision holds for the life of the container"
	}
	if p.Match == journal.MatchSelected {
		p.Part, p.Detail = "", ""
	}
	if e.Pins[i].Recomputed {
		p.Note = strings.TrimPrefix(p.Note+"; the decision was lost and taken again", "; ")
	}
}

// left says that the plugin opted out.
func (p *PluginExplanation) left(detail string) {
	if p.Match != journal.MatchOptedOut {
		p.Detail = ""
	}
	p.Match, p.Part, p.Note = journal.MatchOptedOut, "opted out", ""
	p.Detail = cmp.Or(p.Detail, detail)
}

// tell adds what was decided, and who owns the fields now.
func (x *Explanation) tell(ds []journal.Decision) {
	var about []journal.Decision
	for i := range ds {
		if !ds[i].About(x.PodID, x.ContainerID) {
			continue
		}
		about = append(about, ds[i])
		if ds[i].Plugin == "" && ds[i].Kind == journal.KindEvent {
			x.Decisions = append(x.Decisions, ds[i])
		}
		for j := range x.Plugins {
			if p := &x.Plugins[j]; p.Plugin == ds[i].Plugin {
				p.Decisions = append(p.Decisions, ds[i])
				if ds[i].Match == journal.MatchOptedOut { // what was worked out without knowing that is wrong
					p.left("")
				}
			}
		}
	}
	if x.ContainerID != "" {
		x.Owners = journal.Owners(about, x.ContainerID)
	}
}

// ExplainFromAudit explains from the audit file alone, for when no supervisor runs. The error is that of reading it, or wraps ErrNotExplained.
func ExplainFromAudit(ctx context.Context, path, namespace, podName, container string) ([]Explanation, error) {
	var ds []journal.Decision
	err := audit.Read(ctx, path, []string{quoted("pod", podName)}, func(d journal.Decision) { ds = append(ds, d) })
	if err != nil {
		return nil, err
	}
	if out := explainPast(ds, namespace, podName, container); len(out) > 0 {
		return out, nil
	}
	return nil, notExplainedError{what: strings.TrimSuffix(namespace+"/"+podName+"/"+container, "/")}
}

// explainPast explains from decisions alone.
func explainPast(ds []journal.Decision, namespace, podName, container string) []Explanation {
	var out []Explanation
	find := func(o journal.Object) *Explanation {
		j := slices.IndexFunc(out, func(x Explanation) bool { return x.PodID == o.PodID && x.ContainerID == o.ContainerID })
		if j < 0 {
			out = append(out, Explanation{Object: o, Source: ExplainedFromAudit})
			j = len(out) - 1
		}
		if x := &out[j]; x.Container == "" {
			x.Object = o // now by name
		}
		return &out[j]
	}
	for i := range ds {
		d := &ds[i]
		for _, f := range slices.Concat(d.Changed, d.Dropped) { // in the event of another pod
			if f.Namespace == namespace && f.Pod == podName && f.PodID != "" && (container == "" || f.Container == container) {
				find(journal.Object{Namespace: namespace, Pod: podName, PodID: f.PodID, ContainerID: f.Container}).plugin(d.Plugin, d.Team, journal.MatchSelected, "", "")
			}
		}
		if d.Namespace != namespace || d.Pod != podName || d.PodID == "" || container != "" && d.Container != container && d.ContainerID != container {
			continue
		}
		x := find(d.Object)
		for _, n := range d.NotMatched {
			x.plugin(n.Plugin, d.Team, journal.MatchNot, n.Part, n.Detail)
		}
		if d.Plugin != "" {
			x.plugin(d.Plugin, d.Team, d.Match, "", "")
		}
	}
	for i := range out {
		out[i].tell(ds)
		if !slices.ContainsFunc(ds, func(d journal.Decision) bool {
			return d.Kind == journal.KindSelection && d.About(out[i].PodID, out[i].ContainerID)
		}) {
			out[i].Notes = append(out[i].Notes, "who was not selected is not kept")
		}
	}
	return out
}

// plugin adds a plugin unless it is there.
func (x *Explanation) plugin(name, team string, m journal.Match, part, detail string) {
	if slices.ContainsFunc(x.Plugins, func(p PluginExplanation) bool { return p.Plugin == name }) {
		return
	}
	x.Plugins = append(x.Plugins, PluginExplanation{Plugin: name, Team: team, Match: cmp.Or(m, journal.MatchSelected), Part: part, Detail: detail})
}
