package store_test

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestAPodThatCannotBeNamedIsReturnedAndNotStored(t *testing.T) {
	t.Parallel()
	s := store.New()
	if got := s.ObservePod(nil, noon); got == nil || got.GetId() != "" {
		t.Errorf("ObservePod(nil) = %v, want an empty pod", got)
	}
	nameless := &api.PodSandbox{Name: "n"}
	if got := s.ObservePod(nameless, noon); got != nameless {
		t.Errorf("ObservePod without an id = %v, want the pod as it is", got)
	}
	if pods, ctrs := s.Len(); pods != 0 || ctrs != 0 {
		t.Errorf("Len() = %d pods, %d containers, want none", pods, ctrs)
	}
}

func TestAContainerIsFoundByWhateverTheEventStillCarries(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		pod  *api.PodSandbox
		ctr  *api.Container
		want store.Ref
	}{
		{"the pod's id", &api.PodSandbox{Id: "p"}, &api.Container{Id: "only"}, store.Ref{Pod: "p", Container: "only"}},
		{"the container's sandbox id, pod nil", nil, &api.Container{Id: "only", PodSandboxId: "p"}, store.Ref{Pod: "p", Container: "only"}},
		{"the container's sandbox id, pod empty", &api.PodSandbox{}, &api.Container{Id: "only", PodSandboxId: "p"}, store.Ref{Pod: "p", Container: "only"}},
		{"the container id alone, when one pod has it", nil, &api.Container{Id: "only"}, store.Ref{Pod: "p", Container: "only"}},
		{"nothing, when two pods have the container id", nil, &api.Container{Id: "both"}, store.Ref{Container: "both"}},
		{"nothing, when no pod has it", nil, &api.Container{Id: "none"}, store.Ref{Container: "none"}},
		{"the pod's id before the container's sandbox id", &api.PodSandbox{Id: "q"}, &api.Container{Id: "both", PodSandboxId: "p"}, store.Ref{Pod: "q", Container: "both"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := made(t, "only", "both")
			s.ObserveCreation(pod("q"), ctr("q", "both"), noon)
			same(t, "Resolve", tc.want, s.Resolve(tc.pod, tc.ctr))
			same(t, "ObserveContainer", tc.want, s.ObserveContainer(tc.pod, tc.ctr, noon).Ref)
		})
	}
}

func TestARemovalWithoutAPodSeesTheStoredPod(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	got := s.ObserveContainer(nil, &api.Container{Id: "c"}, noon)
	same(t, "pod", pod("p"), got.Pod)
	same(t, "container", ctr("p", "c"), got.Container)
	if got.New || got.Replaced != nil {
		t.Errorf("observed = new %v, replaced %v, want neither", got.New, got.Replaced)
	}
}

func TestAContainerWithoutIDOrPodIsReturnedAndNotStored(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		pod  *api.PodSandbox
		ctr  *api.Container
	}{
		{"no pod", nil, &api.Container{Id: "c"}},
		{"no container", pod("p"), nil},
		{"no container id", pod("p"), &api.Container{Name: "n"}},
		{"nothing at all", nil, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			for _, got := range []store.Observed{s.ObserveCreation(tc.pod, tc.ctr, noon), s.ObserveContainer(tc.pod, tc.ctr, noon)} {
				if got.Pod == nil || got.Container == nil || got.New {
					t.Errorf("observed = %+v, want messages that are not nil and nothing new", got)
				}
			}
			if pods, ctrs := s.Len(); pods != 0 || ctrs != 0 {
				t.Errorf("Len() = %d pods, %d containers, want none", pods, ctrs)
			}
		})
	}
}

func TestContainersWithTheSameIDInTwoPodsAreTwo(t *testing.T) {
	t.Parallel()
	s := store.New()
	a, b := store.Ref{Pod: "a", Container: "c"}, store.Ref{Pod: "b", Container: "c"}
	s.ObserveCreation(pod("a"), ctr("a", "c"), noon)
	got := s.ObserveCreation(pod("b"), ctr("b", "c"), noon)
	if got.Replaced != nil {
		t.Errorf("creation in pod b replaced %v", got.Replaced.Ref)
	}
	s.SetPins(a, []store.Pin{{Plugin: "gpu", Selected: true}})
	s.SetWork(a, store.Work{Plugin: "gpu", Reason: "timeout", Missed: true})
	if pins, ok := s.Pins(b); ok || pins != nil || s.Work(b) != nil {
		t.Errorf("container of pod b has pins %v and work %v of its namesake in pod a", pins, s.Work(b))
	}
	if _, ok := s.RemoveContainer(a); !ok {
		t.Error("container of pod a is unknown")
	}
	if _, ok := s.Container(b); !ok {
		t.Error("removal in pod a removed the namesake in pod b")
	}
}

func TestACreationForAKnownIDStartsANewLife(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	ref := store.Ref{Pod: "p", Container: "c"}
	pins := []store.Pin{{Plugin: "gpu", Selected: true}}
	work := store.Work{Plugin: "gpu", Outcome: "timeout", Reason: "timeout", At: noon, Missed: true}
	s.SetPins(ref, pins)
	s.SetWork(ref, work)

	got := s.ObserveCreation(nil, &api.Container{Id: "c", PodSandboxId: "p", Name: "again"}, noon)

	same(t, "new container", &api.Container{Id: "c", PodSandboxId: "p", Name: "again"}, got.Container)
	same(t, "replaced", &store.Entry{
		Ref: ref, Pod: pod("p"), Container: ctr("p", "c"), Phase: store.PhaseCreated, Pinned: true, Pins: pins, Work: []store.Work{work},
	}, got.Replaced)
	same(t, "entry", store.Entry{Ref: ref, Pod: pod("p"), Container: got.Container, Phase: store.PhaseCreating}, first(s.Get(ref)))
	same(t, "counts", map[store.MissedKey]int{}, s.MissedCounts())
	if _, n := s.Len(); n != 1 {
		t.Errorf("Len() = %d containers, want 1", n)
	}
}

func TestAnUnknownPodIsNamedByItsContainer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want *api.PodSandbox }{
		"no pod":            {nil, &api.PodSandbox{Id: "p"}},
		"an empty pod":      {&api.PodSandbox{}, &api.PodSandbox{Id: "p"}},
		"a pod without id":  {&api.PodSandbox{Name: "n"}, &api.PodSandbox{Id: "p", Name: "n"}},
		"a pod with all it": {pod("p"), pod("p")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			same(t, "pod", tc.want, s.ObserveContainer(tc.in, ctr("p", "c"), noon).Pod)
			same(t, "stored pod", tc.want, first(s.Pod("p")))
		})
	}
}

func TestAContainerAlwaysNamesItsPod(t *testing.T) {
	t.Parallel()
	s := store.New()
	got := s.ObserveCreation(pod("p"), &api.Container{Id: "c"}, noon)
	if got.Container.GetPodSandboxId() != "p" {
		t.Errorf("container of pod %q says it is in pod %q", "p", got.Container.GetPodSandboxId())
	}
}

func TestAPhaseMovesForwardOnly(t *testing.T) {
	t.Parallel()
	state := func(v api.ContainerState) func(*store.Store, store.Ref) {
		return func(s *store.Store, ref store.Ref) {
			s.ObserveContainer(nil, &api.Container{Id: ref.Container, PodSandboxId: ref.Pod, State: v}, noon)
		}
	}
	created := func(s *store.Store, ref store.Ref) { s.SetCreated(ref) }
	stopped := func(s *store.Store, ref store.Ref) { s.SetStopped(ref) }
	cases := []struct {
		name  string
		steps []func(*store.Store, store.Ref)
		want  store.Phase
	}{
		{"a creation is creating", nil, store.PhaseCreating},
		{"an event that proves nothing leaves it", []func(*store.Store, store.Ref){state(api.ContainerState_CONTAINER_CREATED)}, store.PhaseCreating},
		{"created", []func(*store.Store, store.Ref){created}, store.PhaseCreated},
		{"running is created", []func(*store.Store, store.Ref){state(api.ContainerState_CONTAINER_RUNNING)}, store.PhaseCreated},
		{"paused is created", []func(*store.Store, store.Ref){state(api.ContainerState_CONTAINER_PAUSED)}, store.PhaseCreated},
		{"stopped by call", []func(*store.Store, store.Ref){created, stopped}, store.PhaseStopped},
		{"stopped by state", []func(*store.Store, store.Ref){state(api.ContainerState_CONTAINER_STOPPED)}, store.PhaseStopped},
		{"stopped stays stopped", []func(*store.Store, store.Ref){stopped, created, state(api.ContainerState_CONTAINER_RUNNING)}, store.PhaseStopped},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			ref := s.ObserveCreation(pod("p"), &api.Container{Id: "c"}, noon).Ref
			for _, step := range tc.steps {
				step(s, ref)
			}
			if got := first(s.Get(ref)).Phase; got != tc.want {
				t.Errorf("phase = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAContainerFirstSeenAfterItsCreationIsCreated(t *testing.T) {
	t.Parallel()
	s := store.New()
	got := s.ObserveContainer(pod("p"), ctr("p", "c"), noon)
	if !got.New || first(s.Get(got.Ref)).Phase != store.PhaseCreated {
		t.Errorf("observed = new %v in phase %v, want new and created", got.New, first(s.Get(got.Ref)).Phase)
	}
}

func TestWhatIsUnknownChangesNothing(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	wantPods, wantCtrs := all(s)
	for _, ref := range []store.Ref{{}, {Pod: "x"}, {Pod: "p", Container: "x"}, {Pod: "x", Container: "c"}, {Container: "c"}} {
		pin := store.Pin{Plugin: "gpu", Selected: true}
		for name, known := range map[string]bool{
			"SetPins": s.SetPins(ref, []store.Pin{pin}), "AddPins": s.AddPins(ref, pin), "Unpin": s.Unpin(ref, "gpu"),
			"SetWork": s.SetWork(ref, store.Work{Plugin: "gpu", Missed: true}), "SetCreated": s.SetCreated(ref), "SetStopped": s.SetStopped(ref),
		} {
			if known {
				t.Errorf("%s(%q) found something", name, ref)
			}
		}
		if _, ok := s.Get(ref); ok {
			t.Errorf("Get(%q) found something", ref)
		}
		if _, ok := s.RemoveContainer(ref); ok {
			t.Errorf("RemoveContainer(%q) found something", ref)
		}
	}
	if _, _, ok := s.RemovePod("x"); ok {
		t.Error("RemovePod of an unknown pod found something")
	}
	if s.SetWork(store.Ref{Pod: "p"}, store.Work{Plugin: "gpu", Missed: true}) || s.SetStopped(store.Ref{Pod: "p"}) {
		t.Error("a pod has work or a phase")
	}
	pods, ctrs := all(s)
	same(t, "pods", wantPods, pods)
	same(t, "containers", wantCtrs, ctrs)
	same(t, "missed counts", map[store.MissedKey]int{}, s.MissedCounts())
}

func TestARemovedPodTakesItsContainersWithIt(t *testing.T) {
	t.Parallel()
	s := made(t, "b", "a")
	s.ObserveCreation(pod("q"), ctr("q", "a"), noon)
	s.SetWork(store.Ref{Pod: "p", Container: "a"}, store.Work{Plugin: "gpu", Reason: "busy", Missed: true})

	gone, ctrs, ok := s.RemovePod("p")

	if !ok {
		t.Fatal("pod p is unknown")
	}
	same(t, "pod", store.Entry{Ref: store.Ref{Pod: "p"}, Pod: pod("p"), Phase: store.PhaseCreated}, gone)
	same(t, "containers", []store.Ref{{Pod: "p", Container: "a"}, {Pod: "p", Container: "b"}}, refs(ctrs))
	same(t, "counts", map[store.MissedKey]int{}, s.MissedCounts())
	if pods, n := s.Len(); pods != 1 || n != 1 {
		t.Errorf("Len() = %d pods, %d containers, want 1 and 1", pods, n)
	}
}

func TestNamesOfPhasesAndRefs(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"creating": store.PhaseCreating.String(), "created": store.PhaseCreated.String(), "stopped": store.PhaseStopped.String(),
		"phase(9)": store.Phase(9).String(), "p": store.Ref{Pod: "p"}.String(), "p/c": store.Ref{Pod: "p", Container: "c"}.String(),
	} {
		if got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
