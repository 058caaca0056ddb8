package store_test

import (
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestWorkIsOneRecordPerPlugin(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	ref := store.Ref{Pod: "p", Container: "c"}
	s.SetWork(ref, store.Work{Plugin: "a", Outcome: "timeout", Reason: "timeout", At: noon, Missed: true})
	s.SetWork(ref, store.Work{Plugin: "b", Outcome: "rejected", At: noon, Rejected: true})
	before := s.Work(ref)
	s.SetWork(ref, store.Work{Plugin: "a", Outcome: "success", At: noon.Add(time.Second)})

	same(t, "work", []store.Work{
		{Plugin: "a", Outcome: "success", At: noon.Add(time.Second)}, {Plugin: "b", Outcome: "rejected", At: noon, Rejected: true},
	}, s.Work(ref))
	if before[0].Outcome != "timeout" || len(before) != 2 {
		t.Errorf("work handed out before changed to %v", before)
	}
	if s.Work(store.Ref{Pod: "p"}) != nil {
		t.Error("a pod has work")
	}
}

func TestMissedWorkIsListedAndCountedWhileTheContainerLives(t *testing.T) {
	t.Parallel()
	ref := store.Ref{Pod: "p", Container: "c"}
	miss := store.Work{Plugin: "gpu", Outcome: "timeout", Reason: "timeout", At: noon, Missed: true}
	cases := []struct {
		name string
		then func(*store.Store)
		want map[store.MissedKey]int
	}{
		{"at once", func(*store.Store) {}, map[store.MissedKey]int{{Plugin: "gpu", Reason: "timeout"}: 1}},
		{"set twice", func(s *store.Store) { s.SetWork(ref, miss) }, map[store.MissedKey]int{{Plugin: "gpu", Reason: "timeout"}: 1}},
		{
			"with another reason", func(s *store.Store) { s.SetWork(ref, store.Work{Plugin: "gpu", Reason: "busy", Missed: true}) },
			map[store.MissedKey]int{{Plugin: "gpu", Reason: "busy"}: 1},
		},
		{"done after all", func(s *store.Store) { s.SetWork(ref, store.Work{Plugin: "gpu", Outcome: "success"}) }, map[store.MissedKey]int{}},
		{"stopped by call", func(s *store.Store) { s.SetStopped(ref) }, map[store.MissedKey]int{}},
		{"stopped by state", func(s *store.Store) {
			s.ObserveContainer(nil, &api.Container{Id: "c", PodSandboxId: "p", State: api.ContainerState_CONTAINER_STOPPED}, noon)
		}, map[store.MissedKey]int{}},
		{"missed after it stopped", func(s *store.Store) { s.SetStopped(ref); s.SetWork(ref, miss) }, map[store.MissedKey]int{}},
		{"removed", func(s *store.Store) { s.RemoveContainer(ref) }, map[store.MissedKey]int{}},
		{"pod removed", func(s *store.Store) { s.RemovePod("p") }, map[store.MissedKey]int{}},
		{"gone at the next synchronization", func(s *store.Store) { s.Replace([]*api.PodSandbox{pod("p")}, nil, noon, noon) }, map[store.MissedKey]int{}},
		{"listed at the next synchronization", func(s *store.Store) {
			s.Replace([]*api.PodSandbox{pod("p")}, []*api.Container{ctr("p", "c")}, noon, noon)
		}, map[store.MissedKey]int{{Plugin: "gpu", Reason: "timeout"}: 1}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := made(t, "c")
			s.SetWork(ref, miss)
			tc.then(s)
			same(t, "counts", tc.want, s.MissedCounts())
			if got := len(s.Missed()); got != len(tc.want) {
				t.Errorf("Missed() lists %d, want %d", got, len(tc.want))
			}
			for key, n := range tc.want {
				if got := s.MissedCount(key.Plugin, key.Reason); got != n {
					t.Errorf("MissedCount(%q, %q) = %d, want %d", key.Plugin, key.Reason, got, n)
				}
			}
		})
	}
}

func TestMissedIsSortedForPeople(t *testing.T) {
	t.Parallel()
	s := store.New()
	add := func(ns, podName, podID, name, id string, plugins ...string) {
		ref := s.ObserveCreation(&api.PodSandbox{Id: podID, Namespace: ns, Name: podName}, &api.Container{Id: id, Name: name}, noon).Ref
		for _, plugin := range plugins {
			s.SetWork(ref, store.Work{Plugin: plugin, Reason: "timeout", At: noon, Missed: true})
		}
		s.SetWork(ref, store.Work{Plugin: "healthy", Outcome: "success"})
	}
	add("b", "x", "1", "main", "9", "gpu")
	add("a", "z", "2", "main", "8", "net", "gpu")
	add("a", "y", "3", "side", "7", "gpu")
	add("a", "y", "3", "main", "6", "gpu")

	row := func(ns, podName, podID, name, id, plugin string) store.MissedContainer {
		return store.MissedContainer{
			Ref: store.Ref{Pod: podID, Container: id}, Namespace: ns, PodName: podName, Container: name, Plugin: plugin, Reason: "timeout", At: noon,
		}
	}
	same(t, "missed", []store.MissedContainer{
		row("a", "y", "3", "main", "6", "gpu"), row("a", "y", "3", "side", "7", "gpu"), row("a", "z", "2", "main", "8", "gpu"),
		row("a", "z", "2", "main", "8", "net"), row("b", "x", "1", "main", "9", "gpu"),
	}, s.Missed())
	same(t, "counts", map[store.MissedKey]int{{Plugin: "gpu", Reason: "timeout"}: 4, {Plugin: "net", Reason: "timeout"}: 1}, s.MissedCounts())
	s.SetWork(store.Ref{Pod: "1", Container: "9"}, store.Work{Plugin: "gpu", Reason: "timeout", At: noon.Add(2 * time.Minute), Missed: true})
	s.SetWork(store.Ref{Pod: "3", Container: "7"}, store.Work{Plugin: "gpu", Reason: "timeout", At: noon.Add(time.Minute), Missed: true})
	same(t, "since", map[store.MissedKey]store.MissedSum{
		{Plugin: "gpu", Reason: "timeout"}: {Count: 4, Since: 2, First: noon.Add(time.Minute)}, {Plugin: "net", Reason: "timeout"}: {Count: 1},
	}, s.MissedSince(map[string]time.Time{"gpu": noon.Add(time.Minute), "net": noon.Add(time.Minute)}))
}

func TestTheCountsHandedOutAreACopy(t *testing.T) {
	t.Parallel()
	s := made(t, "c")
	s.SetWork(store.Ref{Pod: "p", Container: "c"}, store.Work{Plugin: "gpu", Reason: "busy", Missed: true})
	clear(s.MissedCounts())
	if got := s.MissedCount("gpu", "busy"); got != 1 {
		t.Errorf("MissedCount = %d after a caller cleared its copy, want 1", got)
	}
}
