package store_test

import (
	"fmt"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestASnapshotHoldsWhatIsSelectedAndNothingElse(t *testing.T) {
	t.Parallel()
	const plugin = "gpu"
	sel, failed, other := store.Pin{Plugin: plugin, Selected: true}, store.Pin{Plugin: plugin, MatchErr: true}, store.Pin{Plugin: "net", Selected: true}
	type ctrCase struct {
		phase store.Phase
		pins  []store.Pin
	}
	cases := []struct {
		name     string
		pod      []store.Pin
		ctrs     map[string]ctrCase
		pods     []string
		listed   []string
		creating []store.Ref
	}{
		{name: "nothing selected", pod: []store.Pin{other}, ctrs: map[string]ctrCase{"a": {store.PhaseCreated, []store.Pin{other}}}},
		{name: "a pod alone", pod: []store.Pin{other, sel}, ctrs: map[string]ctrCase{"a": {store.PhaseCreated, nil}}, pods: []string{"p"}},
		{
			name: "a container brings its pod along", ctrs: map[string]ctrCase{"b": {store.PhaseCreated, []store.Pin{sel}}, "a": {store.PhaseCreated, []store.Pin{other, sel}}, "c": {store.PhaseCreated, nil}},
			pods: []string{"p"}, listed: []string{"a", "b"},
		},
		{
			name: "a container in creation is named apart", ctrs: map[string]ctrCase{"a": {store.PhaseCreating, []store.Pin{sel}}},
			pods: []string{"p"}, creating: []store.Ref{{Pod: "p", Container: "a"}},
		},
		{name: "a stopped container is left out", ctrs: map[string]ctrCase{"a": {store.PhaseStopped, []store.Pin{sel}}}},
		{name: "a selector that failed selects nothing", pod: []store.Pin{failed}, ctrs: map[string]ctrCase{"a": {store.PhaseCreated, []store.Pin{failed}}}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			s.ObservePod(pod("p"), noon)
			s.SetPins(store.Ref{Pod: "p"}, tc.pod)
			for id, c := range tc.ctrs {
				ref := s.ObserveCreation(nil, ctr("p", id), noon).Ref
				s.SetPins(ref, c.pins)
				switch c.phase {
				case store.PhaseCreated:
					s.SetCreated(ref)
				case store.PhaseStopped:
					s.SetStopped(ref)
				case store.PhaseCreating:
				}
			}
			pods, ctrs, creating := s.Snapshot(plugin)
			same(t, "pods", append([]string{}, tc.pods...), ids(pods))
			same(t, "containers", append([]string{}, tc.listed...), ids(ctrs))
			same(t, "creating", tc.creating, creating)
		})
	}
}

func TestASnapshotIsSorted(t *testing.T) {
	t.Parallel()
	s := store.New()
	var pods, ctrs []string
	for i := range 40 {
		pods = append(pods, fmt.Sprintf("p%02d", i))
		ctrs = append(ctrs, fmt.Sprintf("c%02d", 40-i)) // container ids run against pod ids
	}
	for i := 39; i >= 0; i-- {
		ref := s.ObserveContainer(&api.PodSandbox{Id: pods[i]}, &api.Container{Id: ctrs[i]}, noon).Ref
		s.SetPins(ref, []store.Pin{{Plugin: "gpu", Selected: true}})
	}
	gotPods, gotCtrs, _ := s.Snapshot("gpu")
	same(t, "pods", pods, ids(gotPods))
	same(t, "containers", ctrs, ids(gotCtrs))
	allPods, allCtrs := all(s)
	for i := range pods {
		if allPods[i].Ref.Pod != pods[i] || allCtrs[i].Ref.Container != ctrs[i] {
			t.Fatalf("All() at %d = %v and %v, want %v and %v", i, allPods[i].Ref, allCtrs[i].Ref, pods[i], ctrs[i])
		}
	}
}
