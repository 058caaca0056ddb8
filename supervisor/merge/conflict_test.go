package merge_test

import (
	"context"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

func TestTheOnlyReplyIsDroppedWhenTheRuntimeWouldRefuseIt(t *testing.T) {
	t.Parallel()
	twice := adjusting(func(a *api.ContainerAdjustment) { a.AddEnv("X", "1"); a.AddEnv("X", "2") })
	created := &api.CreateContainerResponse{Update: []*api.ContainerUpdate{updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(7) })}}
	for name, tc := range map[string]struct {
		said *api.CreateContainerResponse
		want merge.Dropped
	}{
		"it sets a variable twice": {twice, merge.Dropped{
			Cause: merge.CauseSelfConflict, With: []int{0},
			Fields:  []merge.FieldKey{{Container: "ctr0", Field: api.Field_Env, Key: "X"}},
			Message: "sets Env[X] twice",
		}},
		"it updates the container that is being created": {created, merge.Dropped{
			Cause:   merge.CauseUpdatesCreated,
			Message: `updates container "ctr0", which is being created: adjust it instead`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out := stock(t, []attached{{name: "a", create: tc.said}}, newCreate(), nil, nil); out.err == nil {
				t.Fatal("NRI accepts this reply")
			}
			res := create(t, newEngine(t), serial("a"), newCreate(), createReplies{tc.said}, merge.CreateOptions{})
			if proto.Size(res.Reply) != 0 {
				t.Errorf("reply = %v, want none", res.Reply)
			}
			if diff := cmp.Diff([]merge.Dropped{tc.want}, res.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheLoserOfAConflictIsDroppedWholeAndNobodyIsCalledTwice(t *testing.T) {
	t.Parallel()
	members := serial("a", "b", "c", "d")
	replies := createReplies{
		adjusting(func(a *api.ContainerAdjustment) { a.AddEnv("X", "a"); a.SetLinuxCPUShares(1) }),
		adjusting(func(a *api.ContainerAdjustment) { a.AddEnv("Y", "b") }),
		adjusting(func(a *api.ContainerAdjustment) {
			a.AddEnv("ONLY_C", "c")
			a.AddEnv("X", "c")
			a.AddEnv("Y", "c")
			a.SetLinuxCPUShares(3)
		}),
		adjusting(func(a *api.ContainerAdjustment) { a.AddEnv("ONLY_C", "d") }),
	}
	calls := make([]int, len(members))
	var lastSaw []string
	res, err := newEngine(t).CreateContainer(t.Context(), members, newCreate(),
		func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
			calls[m]++
			lastSaw = view.GetContainer().GetEnv()
			return replies[m]
		}, merge.CreateOptions{Owners: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A=own", "B=own", "PATH=/bin", "X=a", "Y=b"}, lastSaw); diff != "" {
		t.Errorf("what d saw after c lost (-want +got):\n%s", diff)
	}
	want := []merge.Dropped{{
		Member: 2, Cause: merge.CauseConflict, With: []int{0, 1},
		Fields: []merge.FieldKey{
			{Container: "ctr0", Field: api.Field_Env, Key: "X"},
			{Container: "ctr0", Field: api.Field_Env, Key: "Y"},
			{Container: "ctr0", Field: api.Field_CPUShares},
		},
		Message: `sets Env[X] and 2 more, already set by "a", "b"`,
	}}
	if diff := cmp.Diff(want, res.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if owner, _ := res.Owners.EnvOwner("ctr0", "ONLY_C"); owner != "d" {
		t.Errorf("owner of what c wanted too = %q, want d", owner)
	}
	if diff := cmp.Diff([]string{"X", "Y", "ONLY_C"}, envKeys(res.Reply)); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

func TestAllMembersButOneMayLose(t *testing.T) {
	t.Parallel()
	var names []string
	var replies createReplies
	for i := range 9 {
		names = append(names, string(rune('a'+i)))
		replies = append(replies, env("X", names[i]))
	}
	res := create(t, newEngine(t), serial(names...), newCreate(), replies, merge.CreateOptions{})
	if len(res.Dropped) != 8 || res.Reply.GetAdjust().GetEnv()[0].GetValue() != "a" {
		t.Errorf("dropped %d, reply %v", len(res.Dropped), res.Reply)
	}
}

func TestWhoRemovedAnEntryIsWhoOneCollidesWith(t *testing.T) {
	t.Parallel()
	replies := createReplies{
		env("X", "a"),
		adjusting(func(a *api.ContainerAdjustment) { a.RemoveEnv("X") }),
		adjusting(func(a *api.ContainerAdjustment) { a.RemoveEnv("X") }),
		env("X", "d"),
	}
	res := create(t, newEngine(t), serial("a", "b", "c", "d"), newCreate(), replies, merge.CreateOptions{})
	if len(res.Dropped) != 1 || res.Dropped[0].Cause != merge.CauseConflict || !cmp.Equal(res.Dropped[0].With, []int{1}) {
		t.Errorf("dropped %+v, want d for b", res.Dropped)
	}
}

func TestOnlyWhatCollidesIsNamed(t *testing.T) {
	t.Parallel()
	replies := createReplies{
		adjusting(func(a *api.ContainerAdjustment) {
			a.SetArgs([]string{"a"})
			a.AddEnv("X", "a")
			a.AddAnnotation("x", "a")
			a.SetLinuxRDTClosID("a")
			a.SetLinuxCPUShares(1)
		}),
		adjusting(func(a *api.ContainerAdjustment) {
			a.UpdateArgs([]string{"b"})
			a.RemoveEnv("X")
			a.AddEnv("X", "b")
			a.RemoveAnnotation("x")
			a.AddAnnotation("x", "b")
			a.RemoveLinuxRDT()
			a.SetLinuxRDTClosID("b")
			a.SetLinuxCPUShares(2)
		}),
	}
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), replies, merge.CreateOptions{})
	want := []merge.FieldKey{{Container: "ctr0", Field: api.Field_CPUShares}}
	if len(res.Dropped) != 1 || !cmp.Equal(res.Dropped[0].Fields, want) {
		t.Errorf("dropped %+v, want one for %v", res.Dropped, want)
	}
}

func TestALossNamesABoundedNumberOfFields(t *testing.T) {
	t.Parallel()
	many := adjusting(func(a *api.ContainerAdjustment) {
		for i := range 10 * merge.MaxFields {
			a.AddEnv(string(rune(0x100+i)), "1")
		}
	})
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{many, many}, merge.CreateOptions{})
	if len(res.Dropped) != 1 || len(res.Dropped[0].Fields) != merge.MaxFields {
		t.Errorf("dropped %v", res.Dropped)
	}
}
