package merge_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// cases is how many random cases each differential test tries.
const cases = 150

// TestACreationEndsAsItWouldWithoutUsAndWithoutTheLosers compares, for random
// replies over all fields: what the runtime's adaptation makes of our one
// reply, with what it makes of the members' replies attached directly. In half of the
// cases another plugin of the runtime comes first.
func TestACreationEndsAsItWouldWithoutUsAndWithoutTheLosers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	tally := map[string]int{}
	for seed := range uint64(cases) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 1)), density: 0.05 + 0.05*float64(seed%5), removals: 0.1 * float64(seed%4)}
		differCreate(t, e, r, seed, tally)
	}
	t.Logf("%v", tally)
	for _, happened := range []string{"compared", "compared behind another plugin", "dropped", "lost"} {
		if tally[happened] < cases/50 {
			t.Errorf("only %d times %s in %d cases: the test does not test", tally[happened], happened, cases)
		}
	}
}

func differCreate(t *testing.T, e *merge.Engine, r *random, seed uint64, tally map[string]int) {
	t.Helper()
	var before []attached
	own := newCreate()
	req := own
	if seed%2 == 1 {
		first := attached{name: "first", create: cleanCreate(r.create(), nil, 0)}
		out := stock(t, []attached{first}, own, nil, nil)
		if out.err != nil {
			return
		}
		before, req = []attached{first}, out.viewsCreate[1]
	}

	members := serial("a", "b", "c", "d", "e")[:2+r.IntN(4)]
	replies := make(createReplies, len(members))
	for i := range replies {
		replies[i] = r.create()
	}
	views := make([]*api.CreateContainerRequest, len(members))
	untouched := encode(t, req)
	res, err := e.CreateContainer(t.Context(), members, req, func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
		views[m] = view
		return copyOrNil(replies[m])
	}, merge.CreateOptions{Owners: true})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if encode(t, req) != untouched {
		t.Fatalf("seed %d: the request was changed", seed)
	}

	// The members alone, to see who had to lose, who saw what and who owns what.
	var surviving []attached
	for i, m := range members {
		a := attached{name: m.Name, create: cleanCreate(replies[i], res.LostUpdates, i)}
		out := stock(t, append(slices.Clip(surviving), a), req, nil, nil)
		if diff := diffViews(views[i], out.viewsCreate[len(surviving)]); diff != "" {
			t.Fatalf("seed %d: view of %s (-ours +stock):\n%s", seed, m.Name, diff)
		}
		lost := slices.IndexFunc(res.Dropped, func(d merge.Dropped) bool { return d.Member == i })
		switch {
		case lost < 0 && out.err != nil:
			t.Fatalf("seed %d: %s should have lost: %v", seed, m.Name, out.err)
		case lost < 0:
			surviving = append(surviving, a)
		case out.err == nil && !onlyPids(res.Dropped[lost]):
			t.Fatalf("seed %d: %s lost for nothing: %v", seed, m.Name, res.Dropped[lost])
		default:
			tally["dropped"]++
			checkDropped(t, seed, res.Dropped[lost])
		}
	}
	for _, l := range res.LostUpdates {
		tally["lost"]++
		checkLost(t, seed, l)
	}
	alone := stock(t, surviving, req, nil, nil)
	if diff := diffMessages(res.Owners, withoutPlaces(alone.owners)); diff != "" {
		t.Fatalf("seed %d: owners (-ours +stock):\n%s", seed, diff)
	}

	theirs := stock(t, append(slices.Clone(before), surviving...), own, nil, nil)
	if theirs.err != nil {
		return // somebody collides with the runtime's other plugin
	}
	ours := stock(t, append(slices.Clone(before), attached{name: "supervisor", create: res.Reply}), own, nil, nil)
	if ours.err != nil {
		t.Fatalf("seed %d: the runtime refuses our reply: %v", seed, ours.err)
	}
	tally["compared"]++
	if before != nil {
		tally["compared behind another plugin"]++
	}
	gone := setThenRemoved(surviving)
	if diff := diffViews(without(gone, lastView(ours)), without(gone, lastView(theirs))); diff != "" {
		t.Fatalf("seed %d: what later plugins see (-ours +stock):\n%s\nreplies %v\nsent %v", seed, diff, surviving, res.Reply)
	}
	gone.from(ours.create.GetAdjust())
	gone.from(theirs.create.GetAdjust())
	if diff := gocmp.Diff(ociSpec(t, own.GetContainer(), ours.create.GetAdjust()), ociSpec(t, own.GetContainer(), theirs.create.GetAdjust())); diff != "" {
		t.Fatalf("seed %d: OCI spec (-ours +stock):\n%s\nreplies %v\nsent %v", seed, diff, surviving, res.Reply)
	}
	if diff := diffUpdates(strip(ours.create.GetUpdate()), strip(theirs.create.GetUpdate())); diff != "" {
		t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
	}
}

// TestAnUpdateEndsAsItWouldWithoutUsAndWithoutTheLosers is the same for
// UpdateContainer, and checks that nothing is sent that nobody set.
func TestAnUpdateEndsAsItWouldWithoutUsAndWithoutTheLosers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	tally := map[string]int{}
	for seed := range uint64(cases) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 2)), density: 0.1 + 0.05*float64(seed%5)}
		members := serial("a", "b", "c", "d", "e")[:1+r.IntN(5)]
		replies := make([]*api.UpdateContainerResponse, len(members))
		for i := range replies {
			replies[i] = r.update()
		}
		views := make([]*api.UpdateContainerRequest, len(members))
		plain := newUpdate()
		req := newUpdate()
		if seed%2 == 1 {
			// With pids in the request, NRI lets nobody but the first plugin
			// update anything. So it is asked without.
			req.LinuxResources.Pids = &api.LinuxPids{Limit: 9}
		}
		untouched := encode(t, req)
		res, err := e.UpdateContainer(t.Context(), members, req, func(_ context.Context, m int, view *api.UpdateContainerRequest) *api.UpdateContainerResponse {
			views[m] = view
			return copyOrNil(replies[m])
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if encode(t, req) != untouched {
			t.Fatalf("seed %d: the request was changed", seed)
		}
		var surviving []attached
		for i, m := range members {
			a := attached{name: m.Name, update: cleanUpdate(replies[i], res.LostUpdates, i)}
			out := stock(t, append(slices.Clip(surviving), a), nil, plain, nil)
			if len(members) > 1 {
				want := out.viewsUpdate[len(surviving)]
				if diff := diffMessages(withoutPids(views[i]), want); diff != "" {
					t.Fatalf("seed %d: view of %s (-ours +stock):\n%s", seed, m.Name, diff)
				}
			}
			lost := slices.IndexFunc(res.Dropped, func(d merge.Dropped) bool { return d.Member == i })
			switch {
			case lost < 0 && out.err != nil:
				t.Fatalf("seed %d: %s should have lost: %v", seed, m.Name, out.err)
			case lost < 0:
				surviving = append(surviving, a)
			case out.err == nil && !onlyPids(res.Dropped[lost]):
				t.Fatalf("seed %d: %s lost for nothing: %v", seed, m.Name, res.Dropped[lost])
			default:
				tally["dropped"]++
				checkDropped(t, seed, res.Dropped[lost])
			}
		}
		theirs := stock(t, surviving, nil, plain, nil)
		ours := stock(t, []attached{{name: "supervisor", update: res.Reply}}, nil, req, nil)
		if ours.err != nil {
			t.Fatalf("seed %d: the runtime refuses our reply: %v", seed, ours.err)
		}
		tally["compared"]++
		if diff := diffUpdates(withRequested(plain, ours), withRequested(plain, theirs)); diff != "" {
			t.Fatalf("seed %d: updates (-ours +stock):\n%s\nreplies %v", seed, diff, surviving)
		}
		checkOnlySet(t, seed, res.Reply.GetUpdate(), surviving)
	}
	t.Logf("%v", tally)
	if tally["dropped"] < cases/20 {
		t.Errorf("only %d dropped: the test does not test", tally["dropped"])
	}
}

// TestAStopEndsAsItWouldWithoutUsAndWithoutTheLosers is the same for StopContainer.
func TestAStopEndsAsItWouldWithoutUsAndWithoutTheLosers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for seed := range uint64(cases) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 3)), density: 0.1 + 0.05*float64(seed%5)}
		members := serial("a", "b", "c", "d", "e")[:1+r.IntN(5)]
		replies := make([]*api.StopContainerResponse, len(members))
		for i := range replies {
			replies[i] = r.stop()
		}
		req := newStop()
		res, err := e.StopContainer(t.Context(), members, req, func(_ context.Context, m int, view *api.StopContainerRequest) *api.StopContainerResponse {
			if view != req {
				t.Errorf("seed %d: not the request", seed)
			}
			return copyOrNil(replies[m])
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var surviving []attached
		for i, m := range members {
			a := attached{name: m.Name}
			if replies[i] != nil {
				a.stop = &api.StopContainerResponse{Update: cleanUpdates(replies[i].GetUpdate(), res.LostUpdates, i, "")}
			}
			out := stock(t, append(slices.Clip(surviving), a), nil, nil, req)
			lost := slices.IndexFunc(res.Dropped, func(d merge.Dropped) bool { return d.Member == i })
			switch {
			case lost < 0 && out.err != nil:
				t.Fatalf("seed %d: %s should have lost: %v", seed, m.Name, out.err)
			case lost < 0:
				surviving = append(surviving, a)
			case out.err == nil && !onlyPids(res.Dropped[lost]):
				t.Fatalf("seed %d: %s lost for nothing: %v", seed, m.Name, res.Dropped[lost])
			}
		}
		theirs := stock(t, surviving, nil, nil, req)
		ours := stock(t, []attached{{name: "supervisor", stop: res.Reply}}, nil, nil, req)
		if ours.err != nil {
			t.Fatalf("seed %d: the runtime refuses our reply: %v", seed, ours.err)
		}
		if diff := diffUpdates(strip(ours.stop.GetUpdate()), strip(theirs.stop.GetUpdate())); diff != "" {
			t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
		}
	}
}
