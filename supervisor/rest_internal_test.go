package supervisor

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestABusyNodeIsNoReasonToCompute: what was created and removed since the last look is not to be packed, however much that was, and the events keep their processor.
func TestABusyNodeIsNoReasonToCompute(t *testing.T) {
	t.Parallel()
	var computing atomic.Int64
	cfg := load(t, [2]string{"a", sel("x")})
	f := beginWith(t, Options{Config: cfg, Registry: prometheus.NewRegistry(), Computing: func() func() {
		computing.Add(1)
		return func() {}
	}}, makers{"a": one(setEnv("A", "1"))})
	if err := f.rt.accept().synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.ready("a")
	h := handlers{session: f.s.current.Load()}
	p := pod("p", "x", "1")
	if err := h.RunPodSandbox(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	before := computing.Load()
	for i := range packedAside + 100 {
		c := ctr(p.Id, fmt.Sprint("c", i))
		if _, _, err := h.CreateContainer(t.Context(), p, c); err != nil {
			t.Fatal(err)
		}
		if err := h.RemoveContainer(t.Context(), p, c); err != nil {
			t.Fatal(err)
		}
	}
	f.s.Rest()
	if n := computing.Load() - before; n != 0 {
		t.Errorf("the rest after %d containers that are gone computed %d times, want none", packedAside+100, n)
	}
	for i := range packedAside + 100 {
		if _, _, err := h.CreateContainer(t.Context(), p, ctr(p.Id, fmt.Sprint("d", i))); err != nil {
			t.Fatal(err)
		}
	}
	before = computing.Load()
	f.s.Rest()
	if n := computing.Load() - before; n != 1 {
		t.Errorf("the rest after %d containers that are there computed %d times, want once", packedAside+100, n)
	}
}
