package supervisor

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// TestALongLifeTakesNoMoreMemoryThanAShortOne is an hour of a busy node in a second: pods come and go, with plugins that adjust, conflict and err. What is kept of the past, such as the
// latest decisions, is bounded and full after the first of them; whatever grows from then on,
// but for a note on each pod that a plugin failed on, is kept for ever.
func TestALongLifeTakesNoMoreMemoryThanAShortOne(t *testing.T) { //nolint:paralleltest // it reads the heap of the process
	erring := setEnv("B", "1")
	well := erring.create
	erring.create = func(r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		if r.GetPod().GetLabels()["err"] != "" {
			return nil, errors.New("this pod is not to my liking")
		}
		return well(r)
	}
	f, _ := serve(t, load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x")}, [2]string{"c", sel("x")}),
		makers{"a": one(setEnv("A", "1")), "b": one(erring), "c": one(setEnv("A", "2"))})
	h := handlers{session: f.s.current.Load()}
	lives := 0
	live := func(n int) {
		t.Helper()
		for range n {
			lives++
			p := pod(fmt.Sprint("p", lives), "x", "1")
			if lives%10 == 0 {
				p.Labels["err"] = "1"
			}
			c := ctr(p.Id, fmt.Sprint("c", lives))
			c.Env = []string{"HOME=/", "PATH=/bin"}
			ctx := t.Context()
			for _, event := range []func() error{
				func() error { return h.RunPodSandbox(ctx, p) },
				func() error { _, _, err := h.CreateContainer(ctx, p, c); return err },
				func() error { return h.PostCreateContainer(ctx, p, c) },
				func() error { return h.StartContainer(ctx, p, c) },
				func() error { return h.PostStartContainer(ctx, p, c) },
				func() error { _, err := h.UpdateContainer(ctx, p, c, nil); return err },
				func() error { _, err := h.StopContainer(ctx, p, c); return err },
				func() error { return h.RemoveContainer(ctx, p, c) },
				func() error { return h.StopPodSandbox(ctx, p) },
				func() error { return h.RemovePodSandbox(ctx, p) },
			} {
				if err := event(); err != nil {
					t.Fatal(err)
				}
			}
			if lives%50 == 0 { // notifications have no limit of their own here
				f.idle()
				f.s.Rest()
			}
		}
	}
	live(600)
	before := f.heap()
	const more = 2000
	live(more)
	grown := int64(f.heap()) - int64(before)
	t.Logf("%d bytes more after %d more pods, of %d", grown, more, before)
	if limit := int64(256 * more); grown > limit {
		t.Errorf("the heap has grown by %d bytes in %d lives of pods, want at most %d", grown, more, limit)
	}
	if pods, ctrs := f.s.store.Len(); pods+ctrs > 0 {
		t.Errorf("%d pods and %d containers are known that are gone", pods, ctrs)
	}
	runtime.KeepAlive(f)
}

// idle returns when no plugin has anything to do.
func (f *fixture) idle() {
	f.t.Helper()
	for _, h := range f.s.plan().hosts {
		f.eventually(h.name+" idle", func() bool {
			left := make(chan int, 1)
			return h.box.put(message{fn: func() { left <- len(h.calls) }}) && <-left == 0
		})
	}
}

// heap is what lives on the heap, without the events that the fixture collects.
func (f *fixture) heap() uint64 {
	f.mu.Lock()
	f.evs = nil
	f.mu.Unlock()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
