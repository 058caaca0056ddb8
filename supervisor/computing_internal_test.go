package supervisor

import (
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestWhatPassesOverAllContainersForAnAdministratorLeavesTheEventsTheirProcessor: it says that it computes, and when that is over.
func TestWhatPassesOverAllContainersForAnAdministratorLeavesTheEventsTheirProcessor(t *testing.T) {
	t.Parallel()
	var begun, running atomic.Int64
	f := beginWith(t, Options{Config: load(t, [2]string{"a", sel("x")}), Registry: prometheus.NewRegistry(), Computing: func() func() {
		begun.Add(1)
		running.Add(1)
		return func() { running.Add(-1) }
	}}, makers{"a": one(&fakePlugin{})})
	if err := f.rt.accept().synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.ready("a")
	f.eventually("nothing else computes", func() bool { return running.Load() == 0 })
	for name, ask := range map[string]func(){
		"the list of missing work": func() { f.s.Missed() },
		"the status page":          func() { f.s.Overview() },
		"an explanation":           func() { _, _ = f.s.Explain(t.Context(), "default", "p", "") },
	} {
		before := begun.Load()
		if ask(); begun.Load() == before {
			t.Errorf("%s: nobody said that it computes", name)
		}
		f.eventually(name+" is over", func() bool { return running.Load() == 0 })
	}
}
