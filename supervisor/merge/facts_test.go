package merge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// TestFactsOfTheAdaptation pins what this package makes up for. When one fails after an
// update of NRI, the code that it names may go.
func TestFactsOfTheAdaptation(t *testing.T) {
	t.Parallel()
	t.Run("a removal of a variable is forgotten (restoreInList)", func(t *testing.T) {
		t.Parallel()
		out := stock(t, []attached{{name: "a", create: adjusting(func(a *api.ContainerAdjustment) { a.RemoveEnv("A") })}}, newCreate(), nil, nil)
		if len(out.create.GetAdjust().GetEnv()) != 0 {
			t.Error("no more")
		}
	})
	t.Run("a removal is sent beside the value that it removed (restoreInMap)", func(t *testing.T) {
		t.Parallel()
		out := stock(t, []attached{
			{name: "a", create: adjusting(func(a *api.ContainerAdjustment) { a.AddAnnotation("x", "1") })},
			{name: "b", create: adjusting(func(a *api.ContainerAdjustment) { a.RemoveAnnotation("x") })},
		}, newCreate(), nil, nil)
		if len(out.create.GetAdjust().GetAnnotations()) != 2 {
			t.Error("no more")
		}
	})
	t.Run("an update echoes the request, and is nil when nobody says anything (mergedUpdates)", func(t *testing.T) {
		t.Parallel()
		quota := updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUQuota(5); u.SetLinuxPidLimits(5) }))
		out := stock(t, []attached{{name: "a", update: quota}}, nil, newUpdate(), nil)
		if got := out.update.GetUpdate()[0].GetLinux().GetResources(); got.GetMemory().GetLimit() == nil || got.GetPids() != nil {
			t.Errorf("no more: %v", got)
		}
		out = stock(t, nil, nil, newUpdate(), nil)
		if len(out.update.GetUpdate()) != 1 || out.update.GetUpdate()[0] != nil {
			t.Errorf("no more: %v", out.update)
		}
	})
	t.Run("requested pids make the second plugin lose (UpdateContainer)", func(t *testing.T) {
		t.Parallel()
		req := newUpdate()
		req.LinuxResources.Pids = &api.LinuxPids{Limit: 1}
		out := stock(t, []attached{
			{name: "a", update: updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUQuota(5) }))},
			{name: "b", update: updated(updateOf("ctr0", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(5) }))},
		}, nil, req, nil)
		if out.err == nil {
			t.Error("no more")
		}
	})
}

// TestASlowMemberIsNotCutOffByTheAdaptation: how long a member may take is the
// caller's business, and no member is closed for it.
func TestASlowMemberIsNotCutOffByTheAdaptation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := merge.NewEngine()
		defer e.Close()
		for range 2 {
			res, err := e.CreateContainer(t.Context(), serial("a", "b"), newCreate(), func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
				time.Sleep(10 * adaptation.DefaultPluginRequestTimeout)
				return env("X"+string(rune('0'+m)), "1")
			}, merge.CreateOptions{})
			if err != nil || len(envKeys(res.Reply)) != 2 {
				t.Errorf("reply %v, %v", res.Reply, err)
			}
		}
	})
}
