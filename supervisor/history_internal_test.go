package supervisor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// Each plugin records its work on a container on a goroutine of its own; a record that loses one makes the next run say that the plugin was installed later.
func TestWorkThatSeveralPluginsRecordAtOnceIsAllKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, loaded := state.Open(dir, state.Options{})
	s := &Supervisor{store: store.New(), history: newHistory(loaded, db), opts: Options{Computing: func() func() { return func() {} }}}
	const containers, plugins = 500, 8
	for i := range containers {
		pod := &api.PodSandbox{Id: fmt.Sprint("p", i), Name: "pod", Namespace: "default"}
		ctr := &api.Container{Id: fmt.Sprint("c", i), PodSandboxId: pod.GetId(), Name: "main"}
		s.store.ObserveCreation(pod, ctr, time.Now())
		ref := store.Ref{Pod: pod.GetId(), Container: ctr.GetId()}
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for j := range plugins {
			wg.Go(func() {
				<-begin
				s.store.SetWork(ref, store.Work{Plugin: fmt.Sprint("plugin-", j), Reason: reasonSupervisorDown, Missed: true})
				s.history.decided(s, ref)
			})
		}
		close(begin)
		wg.Wait()
	}
	s.history.settle()
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, kept := state.Open(dir, state.Options{})
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	if len(kept.Records) != containers {
		t.Fatalf("%d records are kept, want %d", len(kept.Records), containers)
	}
	for _, r := range kept.Records {
		if len(r.Plugins) != plugins {
			t.Errorf("of container %s the work of %d plugins is kept, want %d", r.Container, len(r.Plugins), plugins)
		}
	}
}
