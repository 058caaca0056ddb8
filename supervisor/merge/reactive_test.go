package merge_test

import (
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// reactive makes replies over all fields of NRI that depend on every byte of what the plugin sees: seen otherwise, it replies otherwise. What NRI shows in random order is put in order first.
type reactive struct {
	seed              uint64
	density, removals float64
}

func (p reactive) random(tb testing.TB, seen proto.Message) *random {
	tb.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(encode(tb, seen)))
	return &random{Rand: rand.New(rand.NewPCG(p.seed, h.Sum64())), density: p.density, removals: p.removals}
}

func (p reactive) create(tb testing.TB, req *api.CreateContainerRequest) *api.CreateContainerResponse {
	tb.Helper()
	seen := proto.CloneOf(req)
	c := seen.GetContainer()
	slices.SortFunc(c.GetLinux().GetNamespaces(), func(a, b *api.LinuxNamespace) int { return cmp.Compare(a.GetType(), b.GetType()) })
	slices.SortFunc(c.GetMounts(), func(a, b *api.Mount) int { return cmp.Compare(a.GetDestination(), b.GetDestination()) })
	if p.removals > 0 { // what one plugin sets in a map and another removes, NRI sends on as both
		c.Annotations, c.Linux.Sysctl, c.Linux.NetDevices = nil, nil, nil
	}
	return p.random(tb, seen).create()
}

func (p reactive) update(tb testing.TB, req *api.UpdateContainerRequest) *api.UpdateContainerResponse {
	tb.Helper()
	r := p.random(tb, withoutPids(req)) // NRI does not show pids that a plugin asks for
	rpl := r.update()
	r.insist(rpl.GetUpdate())
	return rpl
}

func (p reactive) stop(tb testing.TB, req *api.StopContainerRequest) *api.StopContainerResponse {
	tb.Helper()
	r := p.random(tb, req)
	rpl := r.stop()
	r.insist(rpl.GetUpdate())
	return rpl
}

// insist makes half of the updates such that nothing may leave them out without a word.
func (r *random) insist(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		u.IgnoreFailure = u.GetIgnoreFailure() && r.IntN(2) == 0
	}
}

// cast is who takes part in one case: plugins of the runtime before and after the supervisor, and hosted ones.
type cast struct {
	before, after []reactive
	hosted        []reactive
	members       []merge.Member
}

func newCast(seed, stream uint64, density, removals float64) cast {
	r := rand.New(rand.NewPCG(seed, stream))
	one := func() reactive { return reactive{seed: r.Uint64(), density: density, removals: removals} }
	c := cast{members: serial("a", "b", "c", "d")[:1+r.IntN(4)]}
	for range c.members {
		c.hosted = append(c.hosted, one())
	}
	if seed%2 == 1 {
		c.before, c.after = []reactive{one()}, []reactive{one()}
	}
	return c
}

// attach makes plugins that are attached directly.
func attach(tb testing.TB, list []reactive) []attached {
	tb.Helper()
	out := make([]attached, len(list))
	for i, p := range list {
		out[i] = attached{
			name: "outer",
			react: func(req *api.CreateContainerRequest) *api.CreateContainerResponse {
				return cleanCreate(p.create(tb, req), nil, 0)
			},
			reactUpdate: func(req *api.UpdateContainerRequest) *api.UpdateContainerResponse {
				return cleanUpdate(p.update(tb, req), nil, 0)
			},
			reactStop: func(req *api.StopContainerRequest) *api.StopContainerResponse {
				return &api.StopContainerResponse{Update: cleanUpdates(p.stop(tb, req).GetUpdate(), nil, 0, "")}
			},
		}
	}
	return out
}

// comparable counts a case and tells whether both sides ended with something to compare. Without us plugins of the runtime may collide among themselves; with us nobody else may.
func (c cast) comparable(t *testing.T, seed uint64, tally map[string]int, ours, theirs error) bool {
	t.Helper()
	switch {
	case theirs != nil:
		tally["collided outside"]++
		return false
	case ours != nil:
		t.Fatalf("seed %d: beside other plugins there is a conflict that there would not be without us: %v", seed, ours)
	}
	tally["compared"]++
	if c.before != nil {
		tally["compared between others"]++
	}
	return true
}

// survivors lists the members that were not dropped.
func survivors(n int, dropped []merge.Dropped) []int {
	var out []int
	for i := range n {
		if !slices.ContainsFunc(dropped, func(d merge.Dropped) bool { return d.Member == i }) {
			out = append(out, i)
		}
	}
	return out
}

// TestACreationByPluginsThatReadWhatEarlierOnesChangedEndsAsAttachedDirectly: each field of NRI, removals, hooks and updates, alone and between other plugins of the runtime.
func TestACreationByPluginsThatReadWhatEarlierOnesChangedEndsAsAttachedDirectly(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	tally := map[string]int{}
	for seed := range uint64(cases) {
		c := newCast(seed, 31, 0.02+0.02*float64(seed%4), 0.15*float64(seed/2%3))
		own := newCreate()
		var res merge.CreateResult
		supervise := func(req *api.CreateContainerRequest) *api.CreateContainerResponse {
			var err error
			res, err = e.CreateContainer(t.Context(), c.members, req, func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
				return c.hosted[m].create(t, view)
			}, merge.CreateOptions{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return res.Reply
		}
		ours := stock(t, slices.Concat(attach(t, c.before), []attached{{name: "supervisor", react: supervise}}, attach(t, c.after)), own, nil, nil)
		var surviving []attached
		var replies []*api.CreateContainerResponse
		for _, i := range survivors(len(c.members), res.Dropped) {
			surviving = append(surviving, attached{name: c.members[i].Name, react: func(req *api.CreateContainerRequest) *api.CreateContainerResponse {
				rpl := cleanCreate(c.hosted[i].create(t, req), res.LostUpdates, i)
				replies = append(replies, rpl)
				return rpl
			}})
		}
		tally["dropped"] += len(res.Dropped)
		tally["lost"] += len(res.LostUpdates)
		theirs := stock(t, slices.Concat(attach(t, c.before), surviving, attach(t, c.after)), own, nil, nil)
		if !c.comparable(t, seed, tally, ours.err, theirs.err) {
			continue
		}
		var all []attached
		for _, rpl := range replies {
			all = append(all, attached{create: rpl})
		}
		gone := setThenRemoved(all)
		gone.from(ours.create.GetAdjust())
		gone.from(theirs.create.GetAdjust())
		if diff := gocmp.Diff(ociSpec(t, own.GetContainer(), ours.create.GetAdjust()), ociSpec(t, own.GetContainer(), theirs.create.GetAdjust())); diff != "" {
			t.Fatalf("seed %d: OCI spec (-ours +stock):\n%s", seed, diff)
		}
		if diff := diffUpdates(strip(ours.create.GetUpdate()), strip(theirs.create.GetUpdate())); diff != "" {
			t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
		}
	}
	tested(t, tally)
}

// TestAnUpdateByPluginsThatReadWhatEarlierOnesChangedEndsAsAttachedDirectly likewise.
func TestAnUpdateByPluginsThatReadWhatEarlierOnesChangedEndsAsAttachedDirectly(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	tally := map[string]int{}
	for seed := range uint64(cases) {
		c := newCast(seed, 32, 0.15+0.1*float64(seed%4), 0)
		own := newUpdate()
		var res merge.UpdateResult
		supervise := func(req *api.UpdateContainerRequest) *api.UpdateContainerResponse {
			var err error
			res, err = e.UpdateContainer(t.Context(), c.members, req, func(_ context.Context, m int, view *api.UpdateContainerRequest) *api.UpdateContainerResponse {
				return c.hosted[m].update(t, view)
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return res.Reply
		}
		ours := stock(t, slices.Concat(attach(t, c.before), []attached{{name: "supervisor", reactUpdate: supervise}}, attach(t, c.after)), nil, own, nil)
		var surviving []attached
		for _, i := range survivors(len(c.members), res.Dropped) {
			surviving = append(surviving, attached{name: c.members[i].Name, reactUpdate: func(req *api.UpdateContainerRequest) *api.UpdateContainerResponse {
				return cleanUpdate(c.hosted[i].update(t, req), res.LostUpdates, i)
			}})
		}
		tally["dropped"] += len(res.Dropped)
		tally["lost"] += len(res.LostUpdates)
		theirs := stock(t, slices.Concat(attach(t, c.before), surviving, attach(t, c.after)), nil, own, nil)
		if !c.comparable(t, seed, tally, ours.err, theirs.err) {
			continue
		}
		if diff := diffUpdates(withRequested(own, ours), withRequested(own, theirs)); diff != "" {
			t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
		}
	}
	tested(t, tally)
}

// TestAStopByPluginsThatReadTheRequestEndsAsAttachedDirectly likewise; a stop shows nobody what earlier plugins asked for.
func TestAStopByPluginsThatReadTheRequestEndsAsAttachedDirectly(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	tally := map[string]int{}
	for seed := range uint64(cases) {
		c := newCast(seed, 33, 0.15+0.1*float64(seed%4), 0)
		own := newStop()
		own.Container.Args = []string{string(rune('a' + seed%26))}
		var res merge.StopResult
		supervise := func(req *api.StopContainerRequest) *api.StopContainerResponse {
			var err error
			res, err = e.StopContainer(t.Context(), c.members, req, func(_ context.Context, m int, view *api.StopContainerRequest) *api.StopContainerResponse {
				return c.hosted[m].stop(t, view)
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return res.Reply
		}
		ours := stock(t, slices.Concat(attach(t, c.before), []attached{{name: "supervisor", reactStop: supervise}}, attach(t, c.after)), nil, nil, own)
		var surviving []attached
		for _, i := range survivors(len(c.members), res.Dropped) {
			surviving = append(surviving, attached{name: c.members[i].Name, reactStop: func(req *api.StopContainerRequest) *api.StopContainerResponse {
				return &api.StopContainerResponse{Update: cleanUpdates(c.hosted[i].stop(t, req).GetUpdate(), res.LostUpdates, i, "")}
			}})
		}
		tally["dropped"] += len(res.Dropped)
		tally["lost"] += len(res.LostUpdates)
		theirs := stock(t, slices.Concat(attach(t, c.before), surviving, attach(t, c.after)), nil, nil, own)
		if !c.comparable(t, seed, tally, ours.err, theirs.err) {
			continue
		}
		if diff := diffUpdates(strip(ours.stop.GetUpdate()), strip(theirs.stop.GetUpdate())); diff != "" {
			t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
		}
	}
	tested(t, tally)
}

// tested fails a test whose cases were not what they are meant to be.
func tested(t *testing.T, tally map[string]int) {
	t.Helper()
	t.Logf("%v", tally)
	for _, happened := range []string{"compared", "compared between others", "dropped"} {
		if tally[happened] < cases/20 {
			t.Errorf("only %d times %s in %d cases: the test does not test", tally[happened], happened, cases)
		}
	}
}
