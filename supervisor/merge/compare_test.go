package merge_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

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
		if diff := diffMessages(got[id].Strip(), r.Strip()); diff != "" {
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
	return diffMessages(sorted(a), sorted(b))
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

// diffMessages is cmp.Diff for messages, quick when they are equal.
func diffMessages(a, b proto.Message) string {
	if proto.Equal(a, b) {
		return ""
	}
	return gocmp.Diff(a, b, protocmp.Transform())
}

// diffUpdates is the same for lists.
func diffUpdates(a, b []*api.ContainerUpdate) string {
	return diffMessages(&api.UpdateContainerResponse{Update: a}, &api.UpdateContainerResponse{Update: b})
}
