package merge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// TestAReplyThatIsNotAcceptedIsAsIfItWereNotThere: for the merge, for what later members see, and for conflicts. Each is judged once, in calling order, however many passes there are.
func TestAReplyThatIsNotAcceptedIsAsIfItWereNotThere(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for name, members := range map[string][]merge.Member{
		"one after the other":                     serial("a", "b", "c", "d"),
		"the first three at once, the last alone": {{Name: "a", Index: "10", Parallel: true}, {Name: "b", Index: "10", Parallel: true}, {Name: "c", Index: "10", Parallel: true}, {Name: "d", Index: "20"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replies := createReplies{env("X", "a"), env("Y", "b"), env("Y", "c"), env("X", "d")} // b is not accepted, so c is no loser; d collides with a
			var judged []int
			seen := ""
			res, err := e.CreateContainer(t.Context(), members, newCreate(), func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
				if m == 3 {
					seen = strings.Join(view.GetContainer().GetEnv(), " ")
				}
				return copyOrNil(replies[m])
			}, merge.CreateOptions{Accept: func(m int) bool {
				judged = append(judged, m)
				return m != 1
			}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(judged, []int{0, 1, 2, 3}) {
				t.Errorf("judged %v", judged)
			}
			if !strings.HasSuffix(seen, "X=a Y=c") {
				t.Errorf("the last one sees %q", seen)
			}
			if len(res.Dropped) != 1 || res.Dropped[0].Member != 3 || fmt.Sprint(envKeys(res.Reply)) != "[X Y]" {
				t.Errorf("dropped %+v, reply %v", res.Dropped, res.Reply)
			}
		})
	}
	res, err := e.CreateContainer(t.Context(), serial("a"), newCreate(), func(context.Context, int, *api.CreateContainerRequest) *api.CreateContainerResponse {
		return env("X", "a")
	}, merge.CreateOptions{Accept: func(int) bool { return false }})
	if err != nil || res.Reply.GetAdjust() != nil {
		t.Errorf("the only reply: %v, %v", res.Reply, err)
	}
}
