package merge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// errPids stands for the adaptation where it does not look.
var errPids = errors.New("pids are set twice")

// claimsBefore gives the claims of all replies that count before a place.
func (ev *event) claimsBefore(place int) *claims {
	c := newClaims()
	for p := range place {
		c.reply(p, ev.created, ev.counting(p))
	}
	return c
}

// collisions gives everything in the reply of a place that collides.
func (ev *event) collisions(place int) []hit {
	return ev.claimsBefore(place).reply(place, ev.created, ev.counting(place))
}

// settle checks the updates of a reply that just came in. Of those with
// IgnoreFailure, the ones that collide are taken out here: the adaptation
// would leave them out without a word, yet keep part of their claims. Pids it does not
// check at all, so a reply that loses by pids is dropped here.
//
// The outcome holds for all passes. It depends on the replies before it only,
// and none of those can lose any more.
func (ev *event) settle(place int) {
	r := ev.counting(place)
	if len(r.getUpdate()) == 0 {
		return
	}
	before := newClaims()
	for p := range place {
		for _, u := range ev.counting(p).getUpdate() {
			before.update(nil, p, u)
		}
	}
	kept := make([]*api.ContainerUpdate, 0, len(r.update))
	var lost []LostUpdate
	for _, u := range r.update {
		if !u.GetIgnoreFailure() {
			for _, h := range before.update(nil, place, u) {
				if h.key.Field == api.Field_PidsLimit {
					ev.drop(place, errPids)
					return
				}
			}
			kept = append(kept, u)
			continue
		}
		if hits := before.probe(place, u); len(hits) > 0 {
			l := LostUpdate{Member: ev.order[place], Update: u}
			l.With, l.Fields = ev.summary(hits)
			lost = append(lost, l)
			continue
		}
		before.update(nil, place, u)
		kept = append(kept, u)
	}
	r.update = kept
	ev.lost = append(ev.lost, lost...)
}

// probe tells what would collide, and claims nothing.
func (c *claims) probe(place int, u *api.ContainerUpdate) []hit {
	alone := newClaims()
	own := alone.update(nil, place, u)
	var hits []hit
	for key := range alone.fields {
		if had, ok := c.fields[key]; ok {
			hits = append(hits, hit{key: key, with: had.place})
		}
	}
	return append(hits, own...)
}

// drop leaves the reply of a place out from now on. It reports false when there is no
// reply to drop, so that the caller must give up.
func (ev *event) drop(place int, cause error) bool {
	r := ev.counting(place)
	if r == nil {
		return false
	}
	hits := ev.collisions(place)
	d := Dropped{Member: ev.order[place]}
	d.With, d.Fields = ev.summary(hits)
	switch {
	case slices.ContainsFunc(d.With, func(m int) bool { return m != d.Member }):
		d.Cause = CauseConflict
		d.Message = fmt.Sprintf("sets %s, already set by %s", ev.firstOf(d.Fields), ev.names(d.With))
	case len(d.With) > 0:
		d.Cause = CauseSelfConflict
		d.Message = fmt.Sprintf("sets %s twice", ev.firstOf(d.Fields))
	case r.names(ev.created):
		d.Cause = CauseUpdatesCreated
		d.Message = fmt.Sprintf("updates container %q, which is being created: adjust it instead", ev.created)
	default:
		d.Cause = CauseRefused
		d.Message = ev.withNames(cause.Error())
	}
	ev.slots[place].out = true
	ev.dropped = append(ev.dropped, d)
	if ev.tell != nil {
		ev.tell(d)
	}
	ev.lost = slices.DeleteFunc(ev.lost, func(l LostUpdate) bool { return l.Member == d.Member })
	return true
}

// firstOf names the first field and says how many more there are.
func (ev *event) firstOf(fields []FieldKey) string {
	text := fields[0].String()
	if fields[0].Container != ev.created {
		text += fmt.Sprintf(" of container %q", fields[0].Container)
	}
	if more := len(fields) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (ev *event) names(members []int) string {
	quoted := make([]string, len(members))
	for i, m := range members {
		quoted[i] = fmt.Sprintf("%q", ev.members[m].Name)
	}
	return strings.Join(quoted, ", ")
}

// withNames puts members' names for the names that the adaptation knows.
func (ev *event) withNames(text string) string {
	for place := range ev.order {
		text = strings.ReplaceAll(text, placeIndex(place)+"-"+hostedBase, ev.at(place).Name)
	}
	return text
}
