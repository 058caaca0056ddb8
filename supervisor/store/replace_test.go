package store_test

import (
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestReplaceSaysWhatCameAndWhatWent(t *testing.T) {
	t.Parallel()
	s := made(t, "stays", "goes")
	s.ObserveCreation(pod("old"), ctr("old", "b"), noon)
	s.ObserveCreation(pod("old"), ctr("old", "a"), noon)
	ref := store.Ref{Pod: "p", Container: "stays"}
	s.SetPins(ref, []store.Pin{{Plugin: "gpu", Selected: true}})
	s.SetWork(ref, store.Work{Plugin: "gpu", Outcome: "success"})
	pins, work := first(s.Pins(ref)), s.Work(ref)

	diff := s.Replace(
		[]*api.PodSandbox{{Id: "p"}, pod("z"), pod("n"), nil, {Name: "no id"}},
		[]*api.Container{{Id: "stays", PodSandboxId: "p"}, ctr("n", "2"), ctr("n", "1"), nil, {Name: "no id"}, {Id: "no pod"}},
		noon, noon.Add(time.Second))

	same(t, "new pods", []string{"n", "z"}, ids(diff.NewPods))
	same(t, "new containers", []string{"1", "2"}, ids(diff.NewContainers))
	same(t, "gone pods", []store.Ref{{Pod: "old"}}, refs(diff.GonePods))
	same(t, "gone containers", []store.Ref{{Pod: "old", Container: "a"}, {Pod: "old", Container: "b"}, {Pod: "p", Container: "goes"}}, refs(diff.GoneContainers))
	same(t, "container that stays", store.Entry{
		Ref: ref, Pod: pod("p"), Container: ctr("p", "stays"), Phase: store.PhaseCreated, Pinned: true, Pins: pins, Work: work,
	}, first(s.Get(ref)))
	if pods, n := s.Len(); pods != 3 || n != 3 {
		t.Errorf("Len() = %d pods, %d containers, want 3 and 3", pods, n)
	}
}

func TestOfTwoListedWithOneRefTheLastCounts(t *testing.T) {
	t.Parallel()
	s := store.New()
	diff := s.Replace(
		[]*api.PodSandbox{{Id: "p", Name: "first"}, {Id: "p", Name: "last"}},
		[]*api.Container{{Id: "c", PodSandboxId: "p", Name: "first"}, {Id: "c", PodSandboxId: "p", Name: "last"}}, noon, noon)
	same(t, "new pods", []*api.PodSandbox{{Id: "p", Name: "last"}}, diff.NewPods)
	same(t, "new containers", []*api.Container{{Id: "c", PodSandboxId: "p", Name: "last"}}, diff.NewContainers)
}

func TestAListedContainerProvesItsPod(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	diff := s.Replace(nil, []*api.Container{ctr("p", "c"), ctr("unlisted", "d")}, noon, noon)
	same(t, "new pods", []*api.PodSandbox{{Id: "unlisted"}}, diff.NewPods)
	same(t, "gone pods", []store.Ref{}, refs(diff.GonePods))
	same(t, "pod", pod("p"), first(s.Pod("p")))
}

func TestAListedContainerHasThePhaseOfItsState(t *testing.T) {
	t.Parallel()
	for state, want := range map[api.ContainerState]store.Phase{
		api.ContainerState_CONTAINER_CREATED: store.PhaseCreated,
		api.ContainerState_CONTAINER_RUNNING: store.PhaseCreated,
		api.ContainerState_CONTAINER_STOPPED: store.PhaseStopped,
	} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			s := store.New()
			creating := s.ObserveCreation(nil, ctr("p", "creating"), noon).Ref
			stopped := s.ObserveContainer(nil, &api.Container{Id: "stopped", PodSandboxId: "p", State: api.ContainerState_CONTAINER_STOPPED}, noon).Ref
			s.SetWork(stopped, store.Work{Plugin: "gpu", Reason: "busy", Missed: true})
			listed := []*api.Container{}
			for _, ref := range []store.Ref{creating, stopped, {Pod: "p", Container: "new"}} {
				listed = append(listed, &api.Container{Id: ref.Container, PodSandboxId: "p", State: state})
			}
			s.Replace(nil, listed, noon, noon)
			_, ctrs := s.All()
			for e := range ctrs {
				if e.Phase != want {
					t.Errorf("phase of %q = %v, want %v", e.Ref, e.Phase, want)
				}
			}
			wantMissed := 0
			if want != store.PhaseStopped {
				wantMissed = 1
			}
			if got := s.MissedCount("gpu", "busy"); got != wantMissed {
				t.Errorf("missed = %d, want %d", got, wantMissed)
			}
		})
	}
}

func TestASandboxThatIsStillBeingCreatedOutlivesASynchronization(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	later := func(d time.Duration) time.Time { return noon.Add(d) }
	cases := []struct {
		name string
		life func(*store.Store)
		kept bool
	}{
		{"seen within the grace", func(s *store.Store) { s.ObservePod(pod("p"), later(5*time.Second)) }, true},
		{"seen just at its edge", func(s *store.Store) { s.ObservePod(pod("p"), noon) }, true},
		{"seen before it", func(s *store.Store) { s.ObservePod(pod("p"), later(-time.Nanosecond)) }, false},
		{"seen again: its creation is over", func(s *store.Store) {
			s.ObservePod(pod("p"), later(time.Second))
			s.ObservePod(pod("p"), later(2*time.Second))
		}, false},
		{"has had a container", func(s *store.Store) {
			s.ObservePod(pod("p"), later(time.Second))
			s.RemoveContainer(s.ObserveCreation(nil, ctr("p", "c"), later(time.Second)).Ref)
		}, false},
		{"has been listed", func(s *store.Store) {
			s.ObservePod(pod("p"), later(time.Second))
			s.Replace([]*api.PodSandbox{pod("p")}, nil, later(time.Second), noon)
		}, false},
		{"first seen in a list", func(s *store.Store) { s.Replace([]*api.PodSandbox{pod("p")}, nil, later(time.Second), noon) }, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			tc.life(s)
			now := later(grace)
			diff := s.Replace(nil, nil, now, now.Add(-grace))
			if _, ok := s.Pod("p"); ok != tc.kept || (len(diff.GonePods) == 0) != tc.kept {
				t.Errorf("pod is kept: %v, gone: %v, want kept: %v", ok, refs(diff.GonePods), tc.kept)
			}
		})
	}
}

func TestASparedSandboxIsDroppedWhenNothingIsHeardOfIt(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		since  func(*store.Store)
		before time.Time
		gone   bool
	}{
		{"nothing heard", func(*store.Store) {}, noon.Add(time.Minute), true},
		{"not yet time", func(*store.Store) {}, noon, false},
		{"a pod event", func(s *store.Store) { s.ObservePod(pod("p"), noon) }, noon.Add(time.Minute), false},
		{"a container event", func(s *store.Store) { s.ObserveContainer(nil, ctr("p", "c"), noon) }, noon.Add(time.Minute), false},
		{"listed", func(s *store.Store) {
			s.Replace([]*api.PodSandbox{pod("p"), pod("idle")}, nil, noon, noon)
		}, noon.Add(time.Minute), false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			s.ObservePod(pod("p"), noon)
			s.Replace(nil, nil, noon, noon)
			s.ObservePod(pod("idle"), noon)
			tc.since(s)
			want := []store.Ref{}
			if tc.gone {
				want = []store.Ref{{Pod: "p"}}
			}
			same(t, "dropped", want, refs(s.DropSpared(tc.before)))
			if _, ok := s.Pod("idle"); !ok {
				t.Error("a pod that no synchronization spared was dropped")
			}
		})
	}
}
