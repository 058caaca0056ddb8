package merge_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

func TestValidatorsJudgeOnceWhatIsLeftAfterConflicts(t *testing.T) {
	t.Parallel()
	members := serial("a", "b", "c", "judge")
	members[3].Validates = true
	replies := createReplies{env("X", "a"), env("X", "b"), env("Y", "c"), nil}
	var judged atomic.Int32
	res := create(t, newEngine(t), members, newCreate(), replies, merge.CreateOptions{
		Validate: func(_ context.Context, m int, req *api.ValidateContainerAdjustmentRequest) (string, bool) {
			judged.Add(1)
			if m != 3 {
				t.Errorf("member %d was asked", m)
			}
			if diff := cmp.Diff([]string{"X", "Y"}, envKeys(&api.CreateContainerResponse{Adjust: req.GetAdjust()})); diff != "" {
				t.Errorf("adjustment (-want +got):\n%s", diff)
			}
			if got := req.GetContainer().GetEnv(); len(got) != 3 {
				t.Errorf("the container is not as it was: %q", got)
			}
			var consulted []string
			for _, p := range req.GetPlugins() {
				consulted = append(consulted, p.GetIndex()+"-"+p.GetName())
			}
			if diff := cmp.Diff([]string{"10-a", "12-c", "13-judge"}, consulted); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			if owner, _ := req.GetOwners().EnvOwner("ctr0", "Y"); owner != "c" {
				t.Errorf("owner of Y = %q", owner)
			}
			return "", true
		},
	})
	if judged.Load() != 1 || res.Rejected != nil || len(res.Dropped) != 1 {
		t.Errorf("judged %d times, rejected %v, dropped %v", judged.Load(), res.Rejected, res.Dropped)
	}
}

func TestARejectionIsTheFirstInMemberOrderAndLeavesTheReply(t *testing.T) {
	t.Parallel()
	members := serial("a", "b", "c", "d")
	for i := range members {
		members[i].Validates = i > 0
	}
	var together sync.WaitGroup
	together.Add(3)
	res := create(t, newEngine(t), members, newCreate(), createReplies{env("X", "a"), nil, nil, nil}, merge.CreateOptions{
		Validate: func(_ context.Context, m int, _ *api.ValidateContainerAdjustmentRequest) (string, bool) {
			together.Done()
			together.Wait() // for ever, unless they are asked at once
			return "no X, says " + members[m].Name, m == 1
		},
	})
	if diff := cmp.Diff(&merge.Rejection{Member: 2, Reason: "no X, says c"}, res.Rejected); diff != "" {
		t.Errorf("rejection (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"X"}, envKeys(res.Reply)); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

func TestASingleMemberCanValidateItself(t *testing.T) {
	t.Parallel()
	res := create(t, newEngine(t), []merge.Member{{Name: "a", Index: "10", Validates: true}}, newCreate(), createReplies{env("X", "a")}, merge.CreateOptions{
		Validate: func(_ context.Context, _ int, req *api.ValidateContainerAdjustmentRequest) (string, bool) {
			return "set X", len(req.GetAdjust().GetEnv()) == 0
		},
	})
	if res.Rejected == nil || res.Rejected.Reason != "set X" {
		t.Errorf("rejection %v", res.Rejected)
	}
}

func TestNobodyIsAskedToValidateWithoutACallback(t *testing.T) {
	t.Parallel()
	members := serial("a", "b")
	members[0].Validates = true
	res := create(t, newEngine(t), members, newCreate(), createReplies{env("X", "a"), env("Y", "b")}, merge.CreateOptions{})
	if res.Rejected != nil || res.Owners != nil || len(envKeys(res.Reply)) != 2 {
		t.Errorf("result %+v", res)
	}
}

func TestOwnersOfHooksAreAllWhoAddedSome(t *testing.T) {
	t.Parallel()
	hook := func(path string) *api.CreateContainerResponse {
		return adjusting(func(a *api.ContainerAdjustment) {
			a.AddHooks(&api.Hooks{Prestart: []*api.Hook{{Path: path}}})
		})
	}
	res := create(t, newEngine(t), serial("a", "b", "c"), newCreate(), createReplies{hook("/1"), nil, hook("/2")}, merge.CreateOptions{Owners: true})
	if owner, _ := res.Owners.HooksOwner("ctr0"); owner != "a,c" {
		t.Errorf("owner of the hooks = %q, want a,c", owner)
	}
}

func TestAValidatorMayKeepWhatItJudged(t *testing.T) {
	t.Parallel()
	members := serial("a", "judge")
	members[1].Validates = true
	said := adjusting(func(a *api.ContainerAdjustment) { a.RemoveEnv("A"); a.AddEnv("X", "1") })
	var kept *api.ValidateContainerAdjustmentRequest
	var asJudged string
	res := create(t, newEngine(t), members, newCreate(), createReplies{said, nil}, merge.CreateOptions{
		Validate: func(_ context.Context, _ int, req *api.ValidateContainerAdjustmentRequest) (string, bool) {
			kept, asJudged = req, encode(t, req)
			return "", true
		},
	})
	if encode(t, kept) != asJudged || kept.GetAdjust() == res.Reply.GetAdjust() {
		t.Error("what was judged was changed afterwards")
	}
}

func TestOwnersAreToldAlsoAfterAnEventThatDidNotAskForThem(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for _, asked := range []bool{false, true, false, true} {
		res := create(t, e, serial("a", "b"), newCreate(), createReplies{env("X", "a"), env("Y", "b")}, merge.CreateOptions{Owners: asked})
		if (res.Owners != nil) != asked {
			t.Errorf("asked %t, got %v", asked, res.Owners)
		}
	}
}
