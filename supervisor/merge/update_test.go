package merge_test

import (
	"context"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

func updating(updates ...*api.ContainerUpdate) *api.CreateContainerResponse {
	return &api.CreateContainerResponse{Update: updates}
}

func bestEffort(u *api.ContainerUpdate) *api.ContainerUpdate {
	u.SetIgnoreFailure()
	return u
}

func TestABestEffortUpdateThatCollidesIsLostAloneAndReported(t *testing.T) {
	t.Parallel()
	collides := bestEffort(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxMemoryLimit(2); u.SetLinuxCPUShares(2) }))
	fine := bestEffort(updateOf("another", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(2) }))
	said := env("FROM_B", "1")
	said.Update = []*api.ContainerUpdate{collides, fine}
	replies := createReplies{
		updating(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) })),
		said,
		updating(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxMemoryLimit(3) })),
	}
	if out := stock(t, []attached{{name: "a", create: replies[0]}, {name: "b", create: replies[1]}, {name: "c", create: replies[2]}}, newCreate(), nil, nil); out.err == nil {
		t.Error("NRI no longer keeps claims of an update that it left out: the check of our own can go")
	}

	res := create(t, newEngine(t), serial("a", "b", "c"), newCreate(), replies, merge.CreateOptions{})
	if len(res.Dropped) > 0 {
		t.Errorf("dropped: %v", res.Dropped)
	}
	want := []merge.LostUpdate{{
		Member: 1, Update: collides, With: []int{0},
		Fields: []merge.FieldKey{{Container: "other", Field: api.Field_CPUShares}},
	}}
	if diff := cmp.Diff(want, res.LostUpdates, protocmp.Transform()); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	wantReply := env("FROM_B", "1")
	wantReply.Update = []*api.ContainerUpdate{
		updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1); u.SetLinuxMemoryLimit(3) }), fine,
	}
	if diff := cmp.Diff(wantReply, res.Reply, protocmp.Transform()); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

func TestABestEffortUpdateCanCollideWithItsOwnReply(t *testing.T) {
	t.Parallel()
	for _, members := range [][]merge.Member{serial("a"), serial("a", "b")} {
		again := bestEffort(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(2) }))
		replies := createReplies{updating(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) }), again), nil}
		res := create(t, newEngine(t), members, newCreate(), replies, merge.CreateOptions{})
		if len(res.LostUpdates) != 1 || len(res.Dropped) != 0 || len(res.Reply.GetUpdate()) != 1 {
			t.Errorf("%d members: lost %v, dropped %v, reply %v", len(members), res.LostUpdates, res.Dropped, res.Reply)
		}
	}
}

func TestTheLostUpdatesOfADroppedReplyAreNotReportedTwice(t *testing.T) {
	t.Parallel()
	said := updating(bestEffort(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(2) })))
	said.Adjust = env("X", "b").GetAdjust()
	first := updating(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) }))
	first.Adjust = env("X", "a").GetAdjust()
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{first, said}, merge.CreateOptions{})
	if len(res.Dropped) != 1 || len(res.LostUpdates) != 0 {
		t.Errorf("dropped %v, lost %v", res.Dropped, res.LostUpdates)
	}
}

func TestBestEffortUpdatesOfDifferentMembersStayApart(t *testing.T) {
	t.Parallel()
	shares := func() *api.ContainerUpdate {
		return bestEffort(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) }))
	}
	limit := func() *api.ContainerUpdate {
		return bestEffort(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxMemoryLimit(1) }))
	}
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{updating(shares()), updating(limit())}, merge.CreateOptions{})
	// Another plugin of the runtime sets one of the two. The other one must live.
	first := attached{name: "first", create: updating(updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxMemoryLimit(9) }))}
	out := stock(t, []attached{first, {name: "supervisor", create: res.Reply}}, newCreate(), nil, nil)
	got := out.create.GetUpdate()[0].GetLinux().GetResources()
	if got.GetMemory().GetLimit().GetValue() != 9 || got.GetCpu().GetShares().GetValue() != 1 {
		t.Errorf("the runtime ends with %v", got)
	}
}

func TestNamingTheContainerBeingCreatedLosesTheReply(t *testing.T) {
	t.Parallel()
	said := updating(bestEffort(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(2) })))
	said.Adjust = env("X", "b").GetAdjust()
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{nil, said}, merge.CreateOptions{})
	if len(res.Dropped) != 1 || res.Dropped[0].Cause != merge.CauseUpdatesCreated || len(envKeys(res.Reply)) != 0 {
		t.Errorf("dropped %v, reply %v", res.Dropped, res.Reply)
	}
}

// update merges fixed replies.
func update(t *testing.T, req *api.UpdateContainerRequest, replies ...*api.UpdateContainerResponse) (merge.UpdateResult, []*api.UpdateContainerRequest) {
	t.Helper()
	members := serial("a", "b", "c", "d")[:len(replies)]
	views := make([]*api.UpdateContainerRequest, len(members))
	res, err := newEngine(t).UpdateContainer(t.Context(), members, req, func(_ context.Context, m int, view *api.UpdateContainerRequest) *api.UpdateContainerResponse {
		views[m] = view
		return copyOrNil(replies[m])
	})
	if err != nil {
		t.Fatal(err)
	}
	return res, views
}

func updated(updates ...*api.ContainerUpdate) *api.UpdateContainerResponse {
	return &api.UpdateContainerResponse{Update: updates}
}

func TestAnUpdateSendsOnlyWhatAMemberSet(t *testing.T) {
	t.Parallel()
	res, _ := update(t, newUpdate(),
		updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUQuota(5) })),
		updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxMemoryLimit(7) }), updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxPidLimits(3) })),
	)
	want := updated(
		updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUQuota(5); u.SetLinuxMemoryLimit(7) }),
		updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxPidLimits(3) }),
	)
	if diff := cmp.Diff(want, res.Reply, protocmp.Transform()); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	for field, owner := range map[api.Field]string{api.Field_CPUQuota: "a", api.Field_MemLimit: "b"} {
		if got := res.Owners.GetOwners()["ctr0"].GetSimple()[field.Key()]; got != owner {
			t.Errorf("owner of %s = %q, want %q", field, got, owner)
		}
	}
}

func TestAnUpdateThatNobodyTouchesIsEmpty(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]*api.UpdateContainerResponse{
		"nobody replies":         nil,
		"somebody names nothing": updated(updateOf("", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) })),
		"somebody sets nothing": updated(updateOf("ctr0", func(u *api.ContainerUpdate) {
			u.Linux = &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}}}
		})),
		"somebody replies with nil": updated(nil, nil),
	} {
		res, _ := update(t, newUpdate(), nil, reply)
		if len(res.Reply.GetUpdate()) != 0 {
			t.Errorf("%s: reply %v", name, res.Reply)
		}
	}
}

func TestPidsAreKeptSeenAndCheckedForConflicts(t *testing.T) {
	t.Parallel()
	req := newUpdate()
	req.LinuxResources.Pids = &api.LinuxPids{Limit: 10}
	pids := func(n int64) *api.UpdateContainerResponse {
		return updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxPidLimits(n) }))
	}
	res, views := update(t, req,
		updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUQuota(5) })),
		pids(20), pids(30), updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxMemorySwap(1) })))

	var seen []int64
	for _, v := range views {
		seen = append(seen, v.GetLinuxResources().GetPids().GetLimit())
	}
	if diff := cmp.Diff([]int64{10, 10, 20, 20}, seen); diff != "" {
		t.Errorf("pids seen (-want +got):\n%s", diff)
	}
	want := []merge.Dropped{{
		Member: 2, Cause: merge.CauseConflict, With: []int{1},
		Fields:  []merge.FieldKey{{Container: "ctr0", Field: api.Field_PidsLimit}},
		Message: `sets PidsLimit of container "ctr0", already set by "b"`,
	}}
	if diff := cmp.Diff(want, res.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if len(res.Reply.GetUpdate()) != 1 || res.Reply.GetUpdate()[0].GetLinux().GetResources().GetPids().GetLimit() != 20 {
		t.Errorf("reply %v", res.Reply)
	}
	if out := stock(t, []attached{{name: "supervisor", update: res.Reply}}, nil, req, nil); out.err != nil {
		t.Errorf("the runtime refuses: %v", out.err)
	}
}

func TestPidsOfBestEffortUpdatesAreCheckedToo(t *testing.T) {
	t.Parallel()
	pids := func() *api.ContainerUpdate {
		return updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxPidLimits(1) })
	}
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{updating(pids()), updating(bestEffort(pids()))}, merge.CreateOptions{})
	if len(res.LostUpdates) != 1 || len(res.Dropped) != 0 {
		t.Errorf("lost %v, dropped %v", res.LostUpdates, res.Dropped)
	}
}

// TestWithRequestedPidsAContainerIsNamedOnce: the runtime's adaptation would
// take a second update of it for a conflict of ours with ourselves.
func TestWithRequestedPidsAContainerIsNamedOnce(t *testing.T) {
	t.Parallel()
	req := newUpdate()
	req.LinuxResources.Pids = &api.LinuxPids{Limit: 10}
	quota := updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUQuota(5) })
	limit := updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxMemoryLimit(5) })
	for name, replies := range map[string][]*api.UpdateContainerResponse{
		"both best effort": {updated(bestEffort(proto.CloneOf(quota))), updated(bestEffort(proto.CloneOf(limit)))},
		"one best effort":  {updated(bestEffort(proto.CloneOf(quota))), updated(limit)},
		"none best effort": {updated(quota), updated(limit)},
		"all of one":       {updated(quota, bestEffort(proto.CloneOf(limit)))},
	} {
		res, _ := update(t, req, replies...)
		out := stock(t, []attached{{name: "supervisor", update: res.Reply}}, nil, req, nil)
		if out.err != nil {
			t.Errorf("%s: the runtime refuses: %v", name, out.err)
			continue
		}
		got := out.update.GetUpdate()[0]
		if r := got.GetLinux().GetResources(); r.GetCpu().GetQuota().GetValue() != 5 || r.GetMemory().GetLimit().GetValue() != 5 {
			t.Errorf("%s: the runtime ends with %v", name, got)
		}
		if got.GetIgnoreFailure() != (name == "both best effort") {
			t.Errorf("%s: ignore failure = %t", name, got.GetIgnoreFailure())
		}
	}
}
