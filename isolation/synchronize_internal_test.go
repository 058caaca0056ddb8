package isolation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

func TestStateIsSplitIntoPartsThatFitCompleteAndInOrder(t *testing.T) {
	t.Parallel()
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	for round := range 200 {
		limit := 200 + r.IntN(800)
		var pods []*api.PodSandbox
		var ctrs []*api.Container
		var want []string
		for k := range r.IntN(40) {
			id := fmt.Sprint("p", k)
			pods = append(pods, &api.PodSandbox{Id: id, Name: strings.Repeat("n", r.IntN(150))})
			want = append(want, id)
		}
		for k := range r.IntN(40) {
			id := fmt.Sprint("c", k)
			ctrs = append(ctrs, &api.Container{Id: id, Args: []string{strings.Repeat("a", r.IntN(150))}})
			want = append(want, id)
		}
		parts, err := splitState(pods, ctrs, limit)
		if err != nil {
			t.Fatal(err)
		}
		var gotPods, gotCtrs []string
		for k, part := range parts {
			if size := proto.Size(part); size > limit {
				t.Errorf("round %d: part of %d bytes, the limit is %d", round, size, limit)
			}
			if last := k == len(parts)-1; part.GetMore() == last {
				t.Errorf("round %d: part %d of %d has More %v", round, k+1, len(parts), part.GetMore())
			}
			if k > 0 && len(part.GetPods())+len(part.GetContainers()) == 0 {
				t.Errorf("round %d: part %d is empty", round, k+1)
			}
			for _, p := range part.GetPods() {
				gotPods = append(gotPods, p.GetId())
			}
			for _, c := range part.GetContainers() {
				gotCtrs = append(gotCtrs, c.GetId())
			}
		}
		if diff := cmp.Diff(want, append(gotPods, gotCtrs...)); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
	}
}

func TestAnEmptyStateIsOneMessage(t *testing.T) {
	t.Parallel()
	parts, err := splitState(nil, nil, maxSyncPart)
	if err != nil || len(parts) != 1 || parts[0].GetMore() {
		t.Errorf("got %v, %v", parts, err)
	}
}

// fakePlugin answers Synchronize and the events with functions.
type fakePlugin struct {
	api.PluginService
	synchronize func(*api.SynchronizeRequest) (*api.SynchronizeResponse, error)
	event       func(name string) error
}

func (f *fakePlugin) Synchronize(_ context.Context, r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	return f.synchronize(r)
}

func TestAPluginThatDoesNotUnderstandPartsIsTold(t *testing.T) {
	t.Parallel()
	pods := []*api.PodSandbox{{Id: strings.Repeat("a", 100)}, {Id: strings.Repeat("b", 100)}}
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		answer func(*api.SynchronizeRequest) (*api.SynchronizeResponse, error)
		limit  int
		want   error
		text   string
	}{
		"understands": {func(r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
			return &api.SynchronizeResponse{More: r.GetMore()}, nil
		}, 150, nil, ""},
		"does not echo More": {func(*api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
			return &api.SynchronizeResponse{}, nil
		}, 150, errNoParts, "synchronize part 1 of 2"},
		"answers a part with updates": {func(r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
			return &api.SynchronizeResponse{More: r.GetMore(), Update: []*api.ContainerUpdate{{}}}, nil
		}, 150, errNoParts, "synchronize part 1 of 2"},
		"needs no parts": {func(*api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
			return &api.SynchronizeResponse{}, nil
		}, 1000, nil, ""},
		"fails": {func(*api.SynchronizeRequest) (*api.SynchronizeResponse, error) { return nil, boom }, 150, boom, "part 1 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := synchronize(t.Context(), &fakePlugin{synchronize: tt.answer}, pods, nil, tt.limit)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}
