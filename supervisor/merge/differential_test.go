package merge_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// cases is how many random cases each differential test tries.
const cases = 250

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
	if diff := gocmp.Diff(res.Owners, withoutPlaces(alone.owners), protocmp.Transform()); diff != "" {
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
	if diff := gocmp.Diff(strip(ours.create.GetUpdate()), strip(theirs.create.GetUpdate()), protocmp.Transform()); diff != "" {
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
				if diff := gocmp.Diff(withoutPids(views[i]), want, protocmp.Transform()); diff != "" {
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
		if diff := gocmp.Diff(withRequested(plain, ours), withRequested(plain, theirs), protocmp.Transform()); diff != "" {
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
		if diff := gocmp.Diff(strip(ours.stop.GetUpdate()), strip(theirs.stop.GetUpdate()), protocmp.Transform()); diff != "" {
			t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
		}
	}
}

// cleanCreate takes out of a reply what is documented not to count: updates
// without an id, of nothing, and the lost ones.
func cleanCreate(rpl *api.CreateContainerResponse, lost []merge.LostUpdate, member int) *api.CreateContainerResponse {
	if rpl == nil {
		return nil
	}
	c := proto.CloneOf(rpl)
	c.Update = cleanUpdates(c.GetUpdate(), lost, member, "ctr0")
	return c
}

func cleanUpdate(rpl *api.UpdateContainerResponse, lost []merge.LostUpdate, member int) *api.UpdateContainerResponse {
	if rpl == nil {
		return nil
	}
	return &api.UpdateContainerResponse{Update: cleanUpdates(rpl.GetUpdate(), lost, member, "")}
}

func cleanUpdates(updates []*api.ContainerUpdate, lost []merge.LostUpdate, member int, created string) []*api.ContainerUpdate {
	lost = slices.DeleteFunc(slices.Clone(lost), func(l merge.LostUpdate) bool { return l.Member != member })
	var kept []*api.ContainerUpdate
	// Of two equal ones the later is lost.
	for _, u := range slices.Backward(updates) {
		at := slices.IndexFunc(lost, func(l merge.LostUpdate) bool { return proto.Equal(l.Update, u) })
		switch {
		case at >= 0:
			lost = slices.Delete(lost, at, at+1)
		case u.GetContainerId() != "" && (u.GetContainerId() == created || proto.CloneOf(u).Strip().GetLinux() != nil || u.GetLinux().GetResources().GetPids() != nil):
			kept = append(kept, proto.CloneOf(u))
		}
	}
	slices.Reverse(kept)
	return kept
}

func onlyPids(d merge.Dropped) bool {
	return len(d.Fields) > 0 && !slices.ContainsFunc(d.Fields, func(k merge.FieldKey) bool { return k.Field != api.Field_PidsLimit })
}

func checkDropped(t *testing.T, seed uint64, d merge.Dropped) {
	t.Helper()
	explained := d.Cause == merge.CauseUpdatesCreated || len(d.With) > 0 && len(d.Fields) > 0
	if !explained || d.Message == "" || d.Cause == merge.CauseRefused || !slices.IsSorted(d.With) {
		t.Fatalf("seed %d: unexplained loss: %+v", seed, d)
	}
}

func checkLost(t *testing.T, seed uint64, l merge.LostUpdate) {
	t.Helper()
	if len(l.With) == 0 || len(l.Fields) == 0 || !l.Update.GetIgnoreFailure() {
		t.Fatalf("seed %d: unexplained loss: %+v", seed, l)
	}
}

// checkOnlySet checks that updates say what the members said and nothing else.
func checkOnlySet(t *testing.T, seed uint64, sent []*api.ContainerUpdate, members []attached) {
	t.Helper()
	sum := func(into map[string]*api.LinuxResources, updates []*api.ContainerUpdate) {
		for _, u := range updates {
			if into[u.GetContainerId()] == nil {
				into[u.GetContainerId()] = &api.LinuxResources{}
			}
			proto.Merge(into[u.GetContainerId()], proto.CloneOf(u.GetLinux().GetResources()))
		}
	}
	said, got := map[string]*api.LinuxResources{}, map[string]*api.LinuxResources{}
	sum(got, sent)
	for _, m := range members {
		sum(said, m.update.GetUpdate())
	}
	for id, r := range said {
		if diff := gocmp.Diff(got[id].Strip(), r.Strip(), protocmp.Transform()); diff != "" {
			t.Fatalf("seed %d: update of %q (-sent +said):\n%s", seed, id, diff)
		}
	}
	for id := range got {
		if said[id] == nil {
			t.Fatalf("seed %d: update of %q was sent, and nobody said it", seed, id)
		}
	}
}

// keysOfMaps are keys of annotations, sysctls and network devices.
type keysOfMaps struct{ annotations, sysctl, netDevices []string }

// setThenRemoved tells which entries one member set and a later one removed.
// NRI sends both on, and the runtime applies them in the order of a Go map; we
// send the removal only.
func setThenRemoved(members []attached) keysOfMaps {
	var adjusts []*api.ContainerAdjustment
	for _, m := range members {
		adjusts = append(adjusts, m.create.GetAdjust())
	}
	return keysOfMaps{
		annotations: goneFrom(adjusts, (*api.ContainerAdjustment).GetAnnotations),
		sysctl:      goneFrom(adjusts, func(a *api.ContainerAdjustment) map[string]string { return a.GetLinux().GetSysctl() }),
		netDevices:  goneFrom(adjusts, func(a *api.ContainerAdjustment) map[string]*api.LinuxNetDevice { return a.GetLinux().GetNetDevices() }),
	}
}

func goneFrom[V any](adjusts []*api.ContainerAdjustment, get func(*api.ContainerAdjustment) map[string]V) []string {
	set, gone := map[string]bool{}, map[string]bool{}
	for _, a := range adjusts {
		for k := range get(a) {
			if key, marked := api.IsMarkedForRemoval(k); marked {
				gone[key] = set[key]
			}
		}
		for k := range get(a) {
			if _, marked := api.IsMarkedForRemoval(k); !marked {
				set[k], gone[k] = true, false
			}
		}
	}
	var keys []string
	for k, is := range gone {
		if is {
			keys = append(keys, k)
		}
	}
	return keys
}

// from takes such entries out of an adjustment, and removals of entries that
// are set as well, which the runtime applies in random order, too.
func (k keysOfMaps) from(a *api.ContainerAdjustment) {
	settle(a.GetAnnotations(), k.annotations)
	settle(a.GetLinux().GetSysctl(), k.sysctl)
	settle(a.GetLinux().GetNetDevices(), k.netDevices)
}

func settle[V any](entries map[string]V, gone []string) {
	for _, key := range gone {
		delete(entries, key)
	}
	for key := range entries {
		delete(entries, api.MarkForRemoval(key))
	}
}

func without(gone keysOfMaps, view *api.CreateContainerRequest) *api.CreateContainerRequest {
	view = proto.CloneOf(view)
	for _, key := range gone.annotations {
		delete(view.GetContainer().GetAnnotations(), key)
	}
	for _, key := range gone.sysctl {
		delete(view.GetContainer().GetLinux().GetSysctl(), key)
	}
	for _, key := range gone.netDevices {
		delete(view.GetContainer().GetLinux().GetNetDevices(), key)
	}
	return view
}

func lastView(o *outcome) *api.CreateContainerRequest { return o.viewsCreate[len(o.viewsCreate)-1] }

// diffViews compares views but for the order of namespaces, which is random in NRI.
func diffViews(a, b *api.CreateContainerRequest) string {
	sorted := func(req *api.CreateContainerRequest) *api.CreateContainerRequest {
		req = proto.CloneOf(req)
		slices.SortFunc(req.GetContainer().GetLinux().GetNamespaces(), func(x, y *api.LinuxNamespace) int {
			return cmp.Compare(x.GetType(), y.GetType())
		})
		return req
	}
	return gocmp.Diff(sorted(a), sorted(b), protocmp.Transform())
}

func withoutPids(req *api.UpdateContainerRequest) *api.UpdateContainerRequest {
	req = proto.CloneOf(req)
	if req.GetLinuxResources() != nil {
		req.LinuxResources.Pids = nil
	}
	return req
}

// withRequested gives the updates with the requested one, which stands as it is when
// no plugin sets anything. (When one names the container and sets nothing, NRI
// forgets what the runtime asked for.)
func withRequested(req *api.UpdateContainerRequest, o *outcome) []*api.ContainerUpdate {
	updates := slices.Clone(o.update.GetUpdate())
	if last := len(updates) - 1; updates[last] == nil || proto.CloneOf(updates[last]).Strip().GetLinux() == nil {
		updates[last] = &api.ContainerUpdate{
			ContainerId: req.GetContainer().GetId(),
			Linux:       &api.LinuxContainerUpdate{Resources: req.GetLinuxResources()},
		}
	}
	return strip(updates)
}

// strip takes empty messages out, and updates of nothing.
func strip(updates []*api.ContainerUpdate) []*api.ContainerUpdate {
	var kept []*api.ContainerUpdate
	for _, u := range updates {
		u = proto.CloneOf(u)
		if u.GetLinux().GetResources() != nil {
			u.Linux.Resources.Devices, u.Linux.Resources.Pids = nil, nil // NRI does not carry them
		}
		if u = u.Strip(); u.GetLinux() != nil {
			kept = append(kept, u)
		}
	}
	return kept
}

// withoutPlaces takes the place out of the names in owners: 001-a is a.
func withoutPlaces(owners *api.OwningPlugins) *api.OwningPlugins {
	owners = proto.CloneOf(owners)
	place := regexp.MustCompile(`\d{3}-`)
	for _, of := range owners.GetOwners() {
		for field, owner := range of.GetSimple() {
			of.Simple[field] = place.ReplaceAllString(owner, "")
		}
		for _, entries := range of.GetCompound() {
			for key, owner := range entries.GetOwners() {
				entries.Owners[key] = place.ReplaceAllString(owner, "")
			}
		}
	}
	return owners
}

// String shows a plugin in the messages of failing tests.
func (a attached) String() string {
	return fmt.Sprintf("%s: %v %v %v", a.name, a.create, a.update, a.stop)
}
