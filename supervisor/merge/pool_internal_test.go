package merge

import (
	"context"
	"os"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

func TestAdaptationsAreReusedAndTheOnesUnusedForLongestGo(t *testing.T) {
	t.Parallel()
	e := NewEngine()
	defer e.Close()
	// use runs an event with n members.
	use := func(n int) {
		var members []Member
		for i := range n {
			members = append(members, Member{Name: placeIndex(i), Index: "10"})
		}
		_, err := e.StopContainer(t.Context(), members, &api.StopContainerRequest{Container: &api.Container{Id: "c"}},
			func(context.Context, int, *api.StopContainerRequest) *api.StopContainerResponse { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	last := func() *hosted { return e.idle[len(e.idle)-1] }

	use(2)
	two := last()
	use(2)
	if len(e.idle) != 1 || last() != two {
		t.Fatal("the second event of two members did not use the adaptation of the first")
	}
	for n := 3; n < 2+maxIdle; n++ {
		use(n)
	}
	use(2)
	if len(e.idle) != maxIdle || last() != two {
		t.Fatalf("%d idle, want %d with that of two members last", len(e.idle), maxIdle)
	}
	use(2 + maxIdle)
	if len(e.idle) != maxIdle || e.idle[0].shape.members != 4 {
		t.Fatalf("%d idle, first is for %d members; want %d and 4", len(e.idle), e.idle[0].shape.members, maxIdle)
	}
	if two.event != nil {
		t.Error("an idle adaptation holds on to its event")
	}
}

func TestThereIsNothingToLaunch(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(noPlugins); !os.IsNotExist(err) {
		t.Errorf("stat %s: %v, want that it does not exist", noPlugins, err)
	}
	if err := os.Mkdir(noPlugins, 0o700); err == nil {
		t.Errorf("%s can be made", noPlugins)
	}
}

func TestNamesAreFoundFromPlacesAndOnlyFromThem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"00000-hosted": 0, "00042-hosted": 42, "99999-hosted": 99999} {
		if got, ok := placeOf(name); !ok || got != want {
			t.Errorf("placeOf(%q) = %d, %t; want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "hosted", "7-hosted", "00001-other", "0000x-hosted", "-00001-hosted"} {
		if got, ok := placeOf(name); ok {
			t.Errorf("placeOf(%q) = %d", name, got)
		}
	}
}
