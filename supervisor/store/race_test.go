package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// TestManyGoroutinesMayUseTheStoreAtOnce is a test for the race detector; afterwards the counts must add up.
func TestManyGoroutinesMayUseTheStoreAtOnce(t *testing.T) {
	t.Parallel()
	const writers, rounds = 4, 200
	s := store.New()
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			podID := fmt.Sprintf("p%d", n)
			for i := range rounds {
				ref := s.ObserveCreation(pod(podID), ctr(podID, fmt.Sprintf("c%d", i%3)), noon).Ref
				s.SetPins(ref, []store.Pin{{Plugin: "gpu", Selected: true}})
				s.SetWork(ref, store.Work{Plugin: "gpu", Reason: "busy", Missed: true})
				s.SetCreated(ref)
				s.ObserveContainer(nil, &api.Container{Id: ref.Container, PodSandboxId: podID, Labels: map[string]string{"i": ref.Container}}, noon)
				if i%10 == 0 {
					s.RemovePod(podID)
				}
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			pods, ctrs, _ := s.Snapshot("gpu")
			for _, p := range pods {
				_ = p.String()
			}
			for _, c := range ctrs {
				_ = c.String()
			}
			listed, counted := s.Missed(), s.MissedCounts()
			_, _ = listed, counted
			all(s)
			s.Pack(nil)
			s.AddPins(store.Ref{Pod: "p0", Container: "c0"}, store.Pin{Plugin: "net", Selected: true})
			s.ForgetPlugin("net")
		}
	})
	wg.Wait()
	if got, want := s.MissedCount("gpu", "busy"), len(s.Missed()); got != want || got == 0 {
		t.Errorf("MissedCount = %d, Missed() lists %d, want the same and more than 0", got, want)
	}
}
