package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

func TestTheStoreDoesWhatItsSlowTwinDoes(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed+i), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed+i, 0))
			script := make([]byte, 600)
			for n := range script {
				script[n] = byte(random.Uint32())
			}
			play(t, script)
		})
	}
}

func FuzzTheStoreDoesWhatItsSlowTwinDoes(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	f.Add([]byte{2, 0, 0, 0, 0, 8, 0, 0, 1, 1, 9, 0, 0, 1, 1, 5, 0, 0, 3, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) { play(t, script) })
}

// script reads choices from bytes; it is over when they are used up.
type script struct{ rest []byte }

func (s *script) next(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b) % n
}

func pick[T any](s *script, from ...T) T { return from[s.next(len(from))] }

// play does the same to the store and to its twin and compares everything that both can tell after each step.
func play(t *testing.T, bytes []byte) {
	t.Helper()
	s, w, in := store.New(), &twin{}, &script{rest: bytes}
	for step := 0; len(in.rest) > 0; step++ {
		at := noon.Add(time.Duration(step) * time.Second)
		did := act(s, w, in, at)
		for range step % 3 { // after two of them in a row all is packed
			s.Pack(nil)
		}
		if diff := differ(s, w); diff != "" {
			t.Fatalf("step %d, %s: store differs from its twin (-twin +store):\n%s", step, did, diff)
		}
	}
}

func act(s *store.Store, w *twin, in *script, at time.Time) string {
	ref := store.Ref{Pod: pick(in, "a", "b", "c"), Container: pick(in, "1", "2", "3")}
	podRef, plugin := store.Ref{Pod: ref.Pod}, pick(in, "gpu", "net")
	switch in.next(14) {
	case 0:
		p := somePod(in, ref.Pod)
		s.ObservePod(p, at)
		w.observePod(p, at)
		return fmt.Sprintf("ObservePod(%v)", p)
	case 1, 2:
		p, c := somePod(in, ref.Pod), someCtr(in, ref)
		s.ObserveCreation(p, c, at)
		w.create(p, c, at)
		return fmt.Sprintf("ObserveCreation(%v, %v)", p, c)
	case 3, 4:
		p, c := somePod(in, ref.Pod), someCtr(in, ref)
		s.ObserveContainer(p, c, at)
		w.observeCtr(p, c, at)
		return fmt.Sprintf("ObserveContainer(%v, %v)", p, c)
	case 5:
		return replace(s, w, in, at)
	case 6:
		return setPhase(s, w, in, ref)
	case 7:
		s.RemoveContainer(ref)
		w.removeCtr(ref)
		return fmt.Sprintf("RemoveContainer(%v)", ref)
	case 8:
		s.RemovePod(ref.Pod)
		w.removePod(ref.Pod)
		return fmt.Sprintf("RemovePod(%v)", ref.Pod)
	case 9, 10:
		at := pick(in, ref, podRef)
		pins := []store.Pin{{Plugin: plugin, Selected: true}, {Plugin: "third", Selected: in.next(2) == 0, MatchErr: true}}
		s.SetPins(at, pins)
		w.setPins(at, pins)
		return fmt.Sprintf("SetPins(%v, %v)", at, pins)
	case 11, 12:
		k := store.Work{Plugin: plugin, Reason: pick(in, "busy", "timeout"), Missed: in.next(3) > 0, At: at}
		s.SetWork(ref, k)
		w.setWork(ref, k)
		return fmt.Sprintf("SetWork(%v, %v)", ref, k)
	default:
		return forget(s, w, in, ref, plugin, at)
	}
}

func replace(s *store.Store, w *twin, in *script, at time.Time) string {
	var pods []*api.PodSandbox
	var ctrs []*api.Container
	for _, id := range []string{"a", "b", "c"} {
		if in.next(2) == 0 {
			pods = append(pods, somePod(in, id))
		}
		if in.next(3) == 0 {
			ctrs = append(ctrs, someCtr(in, store.Ref{Pod: id, Container: "1"}))
		}
	}
	since := at.Add(-time.Duration(in.next(20)) * time.Second)
	s.Replace(pods, ctrs, at, since)
	w.replace(pods, ctrs, at, since)
	return fmt.Sprintf("Replace(%v, %v, since %v)", pods, ctrs, since)
}

func setPhase(s *store.Store, w *twin, in *script, ref store.Ref) string {
	to := pick(in, store.PhaseCreated, store.PhaseStopped)
	if to == store.PhaseCreated {
		s.SetCreated(ref)
	} else {
		s.SetStopped(ref)
	}
	if c := w.ctr(ref); c != nil {
		c.phase = max(c.phase, to)
	}
	return fmt.Sprintf("set %v to %v", ref, to)
}

func forget(s *store.Store, w *twin, in *script, ref store.Ref, plugin string, at time.Time) string {
	switch in.next(4) {
	case 0:
		s.Unpin(ref, plugin)
		w.forget(plugin, func(r store.Ref) bool { return r == ref })
		return fmt.Sprintf("Unpin(%v, %s)", ref, plugin)
	case 1:
		s.Unpin(store.Ref{Pod: ref.Pod}, plugin)
		w.forget(plugin, func(r store.Ref) bool { return r.Pod == ref.Pod })
		return fmt.Sprintf("Unpin(%v, %s)", ref.Pod, plugin)
	case 2:
		s.ForgetPlugin(plugin)
		w.forget(plugin, func(store.Ref) bool { return true })
		return fmt.Sprintf("ForgetPlugin(%s)", plugin)
	default:
		before := at.Add(-time.Duration(in.next(20)) * time.Second)
		s.DropSpared(before)
		w.dropSpared(before)
		return fmt.Sprintf("DropSpared(%v)", before)
	}
}

func somePod(in *script, id string) *api.PodSandbox {
	return &api.PodSandbox{
		Id: id, Name: pick(in, "", "x", "y"), Pid: pick[uint32](in, 0, 1),
		Labels: pick(in, nil, map[string]string{"k": "1"}, map[string]string{"k": "2", "l": "3"}),
	}
}

func someCtr(in *script, ref store.Ref) *api.Container {
	return &api.Container{
		Id: ref.Container, PodSandboxId: ref.Pod, Name: pick(in, "", "x", "y"), Pid: pick[uint32](in, 0, 1),
		State:  pick(in, api.ContainerState_CONTAINER_UNKNOWN, api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_STOPPED),
		Labels: pick(in, nil, map[string]string{"k": "1"}, map[string]string{"l": "3"}),
	}
}

// facts is all that the store can be asked, in a form that compares.
type facts struct {
	Found              []store.Ref // of a container by its id alone
	Pods, Ctrs         []store.Entry
	NPods, NCtrs       int
	SnapPods, SnapCtrs map[string][]string
	Creating           map[string][]store.Ref
	Missed             int
	Counts             map[store.MissedKey]int
}

func differ(s *store.Store, w *twin) string {
	got := facts{SnapPods: map[string][]string{}, SnapCtrs: map[string][]string{}, Creating: map[string][]store.Ref{}}
	want := facts{SnapPods: map[string][]string{}, SnapCtrs: map[string][]string{}, Creating: map[string][]store.Ref{}}
	got.Pods, got.Ctrs = all(s)
	want.Pods, want.Ctrs = w.all()
	got.NPods, got.NCtrs = s.Len()
	want.NPods, want.NCtrs = len(w.pods), len(w.ctrs)
	for _, plugin := range []string{"gpu", "net", "third"} {
		pods, ctrs, creating := s.Snapshot(plugin)
		got.SnapPods[plugin], got.SnapCtrs[plugin], got.Creating[plugin] = ids(pods), ids(ctrs), creating
		want.SnapPods[plugin], want.SnapCtrs[plugin], want.Creating[plugin] = w.snapshot(plugin)
	}
	got.Missed, got.Counts = len(s.Missed()), s.MissedCounts()
	want.Missed, want.Counts = w.missed()
	for _, id := range []string{"1", "2", "3"} {
		got.Found = append(got.Found, s.Resolve(nil, &api.Container{Id: id}))
		want.Found = append(want.Found, w.find(id))
	}
	return cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateEmpty())
}
