package merge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// event is one event on its way through the members. It lives on one
// goroutine, apart from the callbacks of a stage.
//
// A place is a member's position in calling order. The adaptation knows
// places only.
type event struct {
	members []Member
	order   []int // place → member
	slots   []slot
	last    int // the place whose handler returned last in this pass, or -1

	created string         // id of the container being created
	updated string         // id of the container being updated
	pids    *api.LinuxPids // what the runtime asked for in an update

	// One of these is set.
	create func(member int, view *api.CreateContainerRequest) *reply
	update func(member int, view *api.UpdateContainerRequest) *reply
	stop   func(member int, view *api.StopContainerRequest) *reply

	validate  func(member int, req *api.ValidateContainerAdjustmentRequest) (string, bool)
	rejection *Rejection
	owners    *api.OwningPlugins

	accept  func(member int) bool // or nil
	tell    func(Dropped)         // or nil
	dropped []Dropped
	lost    []LostUpdate
}

// slot is what is known about a place.
type slot struct {
	stageEnd int    // first place after its stage
	asked    bool   // the member was called
	settled  bool   // its updates were checked
	out      bool   // its reply was dropped
	reply    *reply // nil = nothing to say
}

func newEvent(members []Member) (*event, error) {
	ev := &event{
		members: members,
		order:   make([]int, len(members)),
		slots:   make([]slot, len(members)),
		last:    -1,
	}
	for i := range members {
		if members[i].Name == "" || members[i].Index == "" {
			return nil, fmt.Errorf("member %d needs an index and a name, has %q and %q", i, members[i].Index, members[i].Name)
		}
		for j := range i {
			if members[i].Name == members[j].Name {
				return nil, fmt.Errorf("members %d and %d are both named %q", j, i, members[i].Name)
			}
		}
		ev.order[i] = i
	}
	slices.SortFunc(ev.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(members[a].Index, members[b].Index), cmp.Compare(members[a].Name, members[b].Name))
	})

	// A stage is a whole index, if all of it is parallel.
	for begin := 0; begin < len(ev.order); {
		end, parallel := begin, true
		for end < len(ev.order) && ev.at(end).Index == ev.at(begin).Index {
			parallel = parallel && ev.at(end).Parallel
			end++
		}
		for place := begin; place < end; place++ {
			ev.slots[place].stageEnd = place + 1
			if parallel {
				ev.slots[place].stageEnd = end
			}
		}
		begin = end
	}
	return ev, nil
}

func (ev *event) at(place int) *Member { return &ev.members[ev.order[place]] }

func (ev *event) hasValidators() bool {
	return ev.validate != nil && slices.ContainsFunc(ev.members, func(m Member) bool { return m.Validates })
}

// ask calls the members of the stage that begins at place.
func (ev *event) ask(place int, call func(member int) *reply) {
	stage := ev.slots[place:ev.slots[place].stageEnd]
	each(len(stage), func(i int) {
		stage[i].reply = call(ev.order[place+i])
		stage[i].asked = true
	})
}

// each calls f for 0 to n-1, at once if there is more than one, and returns when
// all calls have.
func each(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// alone takes the reply of the only member, if there is one, past the adaptation.
// A reply that collides with itself would fail the request in the runtime, and
// is dropped like any other that collides.
func (ev *event) alone(call func(member int) *reply) {
	if len(ev.members) == 0 {
		return
	}
	ev.ask(0, call)
	ev.close(0)
	if r := ev.counting(0); r != nil && (r.names(ev.created) || len(ev.collisions(0)) > 0) {
		ev.drop(0, errors.New("no adaptation was asked"))
	}
}

// counting gives the reply of a place, or nil if there is none that counts.
func (ev *event) counting(place int) *reply {
	if ev.slots[place].out {
		return nil
	}
	return ev.slots[place].reply
}

// answer closes a place's turn: it gives the copy of its reply that the
// adaptation may take apart, or nil.
func (ev *event) answer(place int) *reply {
	ev.close(place)
	ev.last = place
	return ev.counting(place).clone()
}

// close settles a place's reply when its turn comes first: whether it is accepted, and which of its updates count.
func (ev *event) close(place int) {
	slot := &ev.slots[place]
	if slot.settled {
		return
	}
	slot.settled = true
	if slot.reply != nil && ev.accept != nil && !ev.accept(ev.order[place]) {
		slot.out = true
		return
	}
	ev.settle(place)
}

func (ev *event) turnCreate(place int, req *api.CreateContainerRequest) *api.CreateContainerResponse {
	if !ev.slots[place].asked {
		view := ev.viewCreate(place, req)
		ev.ask(place, func(member int) *reply { return ev.create(member, view) })
	}
	r := ev.answer(place)
	if r == nil {
		return nil
	}
	return &api.CreateContainerResponse{Adjust: r.adjust, Update: r.update}
}

func (ev *event) turnUpdate(place int, req *api.UpdateContainerRequest) *api.UpdateContainerResponse {
	if !ev.slots[place].asked {
		view := ev.viewUpdate(place, req)
		ev.ask(place, func(member int) *reply { return ev.update(member, view) })
	}
	r := ev.answer(place)
	if r == nil {
		return nil
	}
	return &api.UpdateContainerResponse{Update: r.update}
}

func (ev *event) turnStop(place int, req *api.StopContainerRequest) *api.StopContainerResponse {
	if !ev.slots[place].asked {
		ev.ask(place, func(member int) *reply { return ev.stop(member, req) })
	}
	r := ev.answer(place)
	if r == nil {
		return nil
	}
	return &api.StopContainerResponse{Update: r.update}
}
