package supervisor

import (
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// TestWhatWasDecidedSurvivesARestartUnderAnotherPolicy: a container keeps the plugins that were chosen for it, and a pod its quarantine, when the supervisor starts again with another selector.
func TestWhatWasDecidedSurvivesARestartUnderAnotherPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, loaded := state.Open(dir, state.Options{})
	var before, after listener
	f := begin(t, load(t, [2]string{"p", sel("x")}), db, loaded, makers{"p": one(before.plugin())})
	s := f.rt.accept()
	if err := s.synchronize(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.ready("p")
	p := pod("1", "x", "1")
	s.run(t, p, "a")
	h := f.s.plan().byName["p"]
	kept := make(chan struct{})
	h.box.put(message{fn: func() {
		h.guard.Quarantine(breaker.QuarantinedPod{Pod: "u-2", Strikes: 3, Until: time.Now().Add(5 * time.Minute)})
		h.keepQuarantine()
		close(kept)
	}})
	<-kept
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, loaded = state.Open(dir, state.Options{})
	defer func() { _ = db.Close(t.Context()) }()
	f = begin(t, load(t, [2]string{"p", sel("y")}), db, loaded, makers{"p": one(after.plugin())})
	s = f.rt.accept()
	if err := s.synchronize([]*api.PodSandbox{p}, []*api.Container{ctr("1", "a")}); err != nil {
		t.Fatal(err)
	}
	f.ready("p")
	if _, err := s.create(p, ctr("1", "b")); err != nil { // one that is new is decided about anew
		t.Fatal(err)
	}
	if _, err := s.plugin.StartContainer(s.ctx(), &api.StartContainerRequest{Pod: p, Container: ctr("1", "a")}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"Synchronize 1 a", "StartContainer a"}, after.since(0)); d != "" {
		t.Errorf("told after the restart (-want +got):\n%s", d)
	}
	if q := f.s.plan().byName["p"].guard.Snapshot().Quarantined; len(q) != 1 || q[0].Pod != "u-2" {
		t.Errorf("quarantined after the restart: %v", q)
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
}
