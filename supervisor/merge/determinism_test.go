package merge_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// TestTheSameInputGivesTheSameBytes covers the reply, what each member sees,
// and who lost against whom.
func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for seed := range uint64(20) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 4)), density: 0.3, removals: 0.3}
		members := serial("a", "b", "c", "d")
		replies := createReplies{r.create(), r.create(), r.create(), r.create()}
		var first string
		for run := range 10 {
			views := make([]*api.CreateContainerRequest, len(members))
			asSeen := make([]string, len(members))
			res, err := e.CreateContainer(t.Context(), members, newCreate(), func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
				views[m], asSeen[m] = view, encode(t, view)
				return copyOrNil(replies[m])
			}, merge.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all := encode(t, res.Reply)
			for m, view := range views {
				if encode(t, view) != asSeen[m] {
					t.Fatalf("seed %d: what member %d saw was changed afterwards", seed, m)
				}
				all += asSeen[m]
			}
			for _, d := range res.Dropped {
				all += d.Message
				for _, f := range d.Fields {
					all += f.String()
				}
			}
			if run == 0 {
				first = all
			} else if all != first {
				t.Fatalf("seed %d: run %d differs", seed, run)
			}
		}
	}
}

// TestAViewHoldsEverythingThatTheRequestHolds fails when NRI gets a field that
// the copy of a request does not know.
func TestAViewHoldsEverythingThatTheRequestHolds(t *testing.T) {
	t.Parallel()
	full := &random{Rand: rand.New(rand.NewPCG(1, 5)), density: 1}
	unknown := []byte{0xfa, 0x3f, 0x01, 'x'} // field 1023, a string

	req := &api.CreateContainerRequest{}
	full.fill(req.ProtoReflect())
	for _, m := range []proto.Message{
		req, req.GetContainer(), req.GetContainer().GetHooks(), req.GetContainer().GetLinux(),
		req.GetContainer().GetLinux().GetResources(), req.GetContainer().GetLinux().GetResources().GetMemory(),
		req.GetContainer().GetLinux().GetResources().GetCpu(),
	} {
		m.ProtoReflect().SetUnknown(unknown)
	}
	res, err := newEngine(t).CreateContainer(t.Context(), serial("a", "b"), req, func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
		if view == req || view.GetContainer() == req.GetContainer() {
			t.Error("a member got the request itself")
		}
		if encode(t, view) != encode(t, req) {
			t.Errorf("member %d saw %v\nof %v", m, view, req)
		}
		return nil
	}, merge.CreateOptions{})
	if err != nil || proto.Size(res.Reply) != 0 {
		t.Errorf("reply %v, %v", res.Reply, err)
	}

	upd := &api.UpdateContainerRequest{}
	full.fill(upd.ProtoReflect())
	upd.ProtoReflect().SetUnknown(unknown)
	_, err = newEngine(t).UpdateContainer(t.Context(), serial("a", "b"), upd, func(_ context.Context, m int, view *api.UpdateContainerRequest) *api.UpdateContainerResponse {
		if encode(t, view) != encode(t, upd) {
			t.Errorf("member %d saw %v\nof %v", m, view, upd)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
