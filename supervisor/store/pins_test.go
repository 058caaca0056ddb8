package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestOnlyPinsThatSaySomethingAreStored(t *testing.T) {
	t.Parallel()
	sel, failed := store.Pin{Plugin: "a", Selected: true}, store.Pin{Plugin: "b", MatchErr: true}
	late := store.Pin{Plugin: "c", Selected: true, MatchErr: true, Recomputed: true}
	for _, ref := range []store.Ref{{Pod: "p"}, {Pod: "p", Container: "c"}} {
		t.Run(ref.String(), func(t *testing.T) {
			t.Parallel()
			s := made(t, "c")
			if pins, ok := s.Pins(ref); ok || pins != nil {
				t.Errorf("Pins before a decision = %v, %v, want none", pins, ok)
			}
			s.SetPins(ref, []store.Pin{{Plugin: "x"}, {Plugin: "y", Recomputed: true}})
			if pins, ok := s.Pins(ref); !ok || len(pins) != 0 {
				t.Errorf("Pins after nobody was selected = %v, %v, want an empty decision", pins, ok)
			}
			s.SetPins(ref, []store.Pin{sel, {Plugin: "x"}, failed, late})
			same(t, "pins", []store.Pin{sel, failed, late}, first(s.Pins(ref)))
			s.SetPins(ref, []store.Pin{failed})
			same(t, "pins after a new decision", []store.Pin{failed}, first(s.Pins(ref)))
		})
	}
}

func TestAddedPinsLeaveTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	ref := store.Ref{Pod: "p", Container: "c"}
	a, b := store.Pin{Plugin: "a", Selected: true}, store.Pin{Plugin: "b", Selected: true}
	s.SetPins(ref, []store.Pin{a, b})
	before := first(s.Pins(ref))

	s.AddPins(ref, store.Pin{Plugin: "a", MatchErr: true}, store.Pin{Plugin: "b"}, store.Pin{Plugin: "c", MatchErr: true})

	same(t, "pins", []store.Pin{{Plugin: "a", MatchErr: true}, {Plugin: "c", MatchErr: true}}, first(s.Pins(ref)))
	same(t, "pins handed out before", []store.Pin{a, b}, before)
}

func TestAnUninterestedPluginIsUnpinnedAndMissesNothing(t *testing.T) {
	t.Parallel()
	a, b := store.Pin{Plugin: "a", Selected: true}, store.Pin{Plugin: "b", Selected: true}
	build := func(t *testing.T) *store.Store {
		t.Helper()
		s := made(t, "c", "d")
		s.ObserveCreation(pod("q"), ctr("q", "c"), noon)
		for _, ref := range []store.Ref{{Pod: "p"}, {Pod: "p", Container: "c"}, {Pod: "p", Container: "d"}, {Pod: "q", Container: "c"}} {
			s.SetPins(ref, []store.Pin{a, b})
			s.SetWork(ref, store.Work{Plugin: "a", Reason: "busy", Missed: true})
			s.SetWork(ref, store.Work{Plugin: "b", Reason: "busy", Missed: true})
		}
		return s
	}
	cases := []struct {
		name  string
		do    func(*store.Store)
		pins  map[store.Ref][]store.Pin
		count int
	}{
		{
			"of one container", func(s *store.Store) { s.Unpin(store.Ref{Pod: "p", Container: "c"}, "a") },
			map[store.Ref][]store.Pin{{Pod: "p"}: {a, b}, {Pod: "p", Container: "c"}: {b}, {Pod: "p", Container: "d"}: {a, b}, {Pod: "q", Container: "c"}: {a, b}},
			2,
		},
		{
			"of a pod and its containers", func(s *store.Store) { s.Unpin(store.Ref{Pod: "p"}, "a") },
			map[store.Ref][]store.Pin{{Pod: "p"}: {b}, {Pod: "p", Container: "c"}: {b}, {Pod: "p", Container: "d"}: {b}, {Pod: "q", Container: "c"}: {a, b}},
			1,
		},
		{
			"everywhere, when it left the configuration", func(s *store.Store) { s.ForgetPlugin("a") },
			map[store.Ref][]store.Pin{{Pod: "p"}: {b}, {Pod: "p", Container: "c"}: {b}, {Pod: "p", Container: "d"}: {b}, {Pod: "q", Container: "c"}: {b}},
			0,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			handed := first(s.Pins(store.Ref{Pod: "p"}))
			tc.do(s)
			for ref, want := range tc.pins {
				same(t, "pins of "+ref.String(), want, first(s.Pins(ref)))
			}
			if got := s.MissedCount("a", "busy"); got != tc.count {
				t.Errorf("missed by a = %d, want %d", got, tc.count)
			}
			if got := s.MissedCount("b", "busy"); got != 3 {
				t.Errorf("missed by b = %d, want 3", got)
			}
			same(t, "pins handed out before", []store.Pin{a, b}, handed)
		})
	}
}

func TestAPluginThatLeftAPodIsNamedForTheContainersToCome(t *testing.T) {
	t.Parallel()
	s := store.New()
	s.ObservePod(&api.PodSandbox{Id: "p"}, time.Unix(0, 0))
	s.ObserveContainer(&api.PodSandbox{Id: "p"}, &api.Container{Id: "c", PodSandboxId: "p"}, time.Unix(0, 0))
	s.Unpin(store.Ref{Pod: "p", Container: "c"}, "gpu")
	if got := s.Left("p"); len(got) != 0 {
		t.Errorf("left the container, and the pod is said to be left by %v", got)
	}
	s.Unpin(store.Ref{Pod: "p"}, "gpu")
	s.Unpin(store.Ref{Pod: "p"}, "gpu")
	s.Unpin(store.Ref{Pod: "p"}, "net")
	before := s.Left("p")
	s.ForgetPlugin("gpu")
	if got := s.Left("p"); !slices.Equal(got, []string{"net"}) || !slices.Equal(before, []string{"gpu", "net"}) {
		t.Errorf("left by %v, before that by %v; want net, and gpu and net", got, before)
	}
	s.RemovePod("p")
	s.ObservePod(&api.PodSandbox{Id: "p"}, time.Unix(0, 0))
	if got := s.Left("p"); got != nil {
		t.Errorf("a new pod with the id is said to be left by %v", got)
	}
}
