package store_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// packed makes the store keep everything encoded.
func packed(s *store.Store) {
	s.Pack(nil) // what came since the last time is spared once
	s.Pack(nil)
}

// without returns the message without one of its fields, or of those of its linux part, each in turn.
func without(m proto.Message) map[string]proto.Message {
	out := map[string]proto.Message{"nothing": m}
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Name() == "id" || fd.Name() == "pod_sandbox_id" {
			continue
		}
		less := proto.Clone(m)
		less.ProtoReflect().Clear(fd)
		out[string(fd.Name())] = less
		if fd.IsMap() {
			other := proto.Clone(m)
			entries := other.ProtoReflect().Mutable(fd).Map()
			entries.Clear(protoreflect.ValueOfString("key").MapKey())
			entries.Set(protoreflect.ValueOfString("another").MapKey(), protoreflect.ValueOfString("x"))
			out[string(fd.Name())+"/key"] = other
		}
		if fd.Name() != "linux" {
			continue
		}
		inner := fd.Message().Fields()
		for j := range inner.Len() {
			less := proto.Clone(m)
			less.ProtoReflect().Mutable(fd).Message().Clear(inner.Get(j))
			out["linux."+string(inner.Get(j).Name())] = less
		}
	}
	return out
}

func TestWhatIsPackedCompletesLikeWhatIsNot(t *testing.T) {
	t.Parallel()
	p, c := &api.PodSandbox{}, &api.Container{}
	populate(p.ProtoReflect())
	populate(c.ProtoReflect())
	c.PodSandboxId = p.GetId()
	for name, next := range without(p) {
		one, other := store.New(), store.New()
		for _, s := range []*store.Store{one, other} {
			s.ObservePod(proto.CloneOf(p), noon)
		}
		packed(other)
		same(t, "pod without "+name, one.ObservePod(proto.Clone(next).(*api.PodSandbox), noon), other.ObservePod(proto.Clone(next).(*api.PodSandbox), noon))
	}
	for name, next := range without(c) {
		one, other := store.New(), store.New()
		for _, s := range []*store.Store{one, other} {
			s.ObserveCreation(proto.CloneOf(p), proto.CloneOf(c), noon)
		}
		packed(other)
		same(t, "container without "+name,
			one.ObserveContainer(nil, proto.Clone(next).(*api.Container), noon), other.ObserveContainer(nil, proto.Clone(next).(*api.Container), noon))
	}
}

func TestWhatIsPackedIsThere(t *testing.T) {
	t.Parallel()
	s := store.New()
	p, c := typicalPod(1), typicalContainer(1)
	ref := s.ObserveCreation(p, c, noon).Ref
	s.SetCreated(ref)
	s.SetPins(ref, []store.Pin{{Plugin: "gpu", Selected: true}})
	s.SetWork(ref, store.Work{Plugin: "gpu", Reason: "busy", Missed: true, At: noon})
	want, _ := s.Get(ref)
	wantMissed := s.Missed()
	packed(s)
	got, _ := s.Get(ref)
	same(t, "container", want, got)
	same(t, "missing work", wantMissed, s.Missed())
	same(t, "mentioned", []store.Ref{ref}, s.Mentions("gpu"))
	for range 2 { // packed, and decoded by the first
		pods, ctrs, _ := s.Snapshot("gpu")
		same(t, "pods of the snapshot", []*api.PodSandbox{want.Pod}, pods)
		same(t, "containers of the snapshot", []*api.Container{want.Container}, ctrs)
	}
	one, _, _ := s.Snapshot("gpu")
	two, _, _ := s.Snapshot("gpu")
	if one[0] != two[0] {
		t.Error("two plugins that select the same pod at the same time get a copy each, want one that is shared")
	}
	if n := s.Pack(nil) + s.Pack(nil); n == 0 {
		t.Error("what was decoded for a snapshot is not packed again")
	}
	gone, _, _ := s.RemovePod(ref.Pod)
	same(t, "removed pod", want.Pod, gone.Pod)
	if n := s.Pack(nil) + s.Pack(nil); n != 0 {
		t.Errorf("%d bytes packed of what is gone", n)
	}
}

func TestWhatComesBetweenTwoPacksStaysDecoded(t *testing.T) {
	t.Parallel()
	s := store.New()
	s.ObservePod(typicalPod(1), noon)
	if n := s.Pack(nil); n != 0 {
		t.Errorf("%d bytes packed of what has just come", n)
	}
	s.ObservePod(typicalPod(1), noon)
	if n := s.Pack(nil); n != 0 {
		t.Errorf("%d bytes packed of what came again", n)
	}
	if n := s.Pack(nil); n == 0 {
		t.Error("nothing packed of what has been quiet")
	}
}

// TestAnEventAboutWhatIsPackedDecodesNothing: as a rule the runtime sends all of it, so that nothing must be looked up in what is known.
func TestAnEventAboutWhatIsPackedDecodesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	const runs = 100
	s := store.New()
	p, c := make([]*api.PodSandbox, runs+1), make([]*api.Container, runs+1)
	for i := range p {
		p[i], c[i] = typicalPod(i), typicalContainer(i)
		s.ObserveCreation(p[i], c[i], noon)
	}
	packed(s)
	at := 0
	allocs := testing.AllocsPerRun(runs, func() {
		s.ObserveContainer(p[at], c[at], noon)
		at++
	})
	if most := 1.0; allocs > most { // the list of what is to be packed grows now and then
		t.Errorf("%v allocations, want at most %v", allocs, most)
	}
}

// TestAContainerThatNothingHappensToTakesLittleMoreThanItsEncoding holds that the memory of a node full of containers is that of their encoding, and comes back when they are gone.
func TestAContainerThatNothingHappensToTakesLittleMoreThanItsEncoding(t *testing.T) { //nolint:paralleltest // it reads the heap of the process
	const n, plugins = 2000, 100
	encoded := 0
	s := store.New()
	s.ObservePod(typicalPod(0), noon)
	before := heap()
	for i := range n {
		p, c := typicalPod(i), typicalContainer(i)
		encoded += proto.Size(p) + proto.Size(c)
		ref := s.ObserveCreation(p, c, noon).Ref
		s.SetCreated(ref)
		var pins []store.Pin
		for k := range plugins {
			pins = append(pins, store.Pin{Plugin: fmt.Sprintf("plugin-%d", k), Selected: true})
		}
		s.SetPins(store.Ref{Pod: ref.Pod}, pins)
		s.SetPins(ref, pins)
	}
	packed(s)
	used := int(heap()-before) / n
	t.Logf("%d bytes a container with its pod, encoded %d", used, encoded/n)
	if limit := encoded/n*9/8 + 2<<10; used > limit { // memory comes in sizes an eighth apart
		t.Errorf("%d bytes a container with its pod that %d plugins select, want at most %d", used, plugins, limit)
	}
	for i := range n {
		s.RemovePod(typicalPod(i).GetId())
	}
	packed(s)
	if left := int(heap() - before); left > n*512 { // maps do not shrink, and how far they grew depends on chance; what is kept of a container takes ten times that
		t.Errorf("%d bytes are left of %d pods that are gone", left, n)
	}
	runtime.KeepAlive(s)
}

func TestPackingPausesInBetween(t *testing.T) {
	t.Parallel()
	s := store.New()
	const n = 1000
	for i := range n {
		s.ObservePod(typicalPod(i), noon)
	}
	s.Pack(nil)
	pauses := 0
	s.Pack(func() {
		pauses++
		if pauses == 1 {
			s.ObservePod(typicalPod(1), noon) // the lock is free
		}
	})
	if pauses < n/100 {
		t.Errorf("%d pauses while %d pods were packed, want one for each 64", pauses, n)
	}
	if got := s.Warm(); got != 1 {
		t.Errorf("%d pods are decoded, want the one that came meanwhile", got)
	}
}

func TestWhatIsGoneIsNotToBePacked(t *testing.T) {
	t.Parallel()
	s := store.New()
	for i := range 100 {
		p := typicalPod(i)
		s.ObservePod(p, noon)
		if got := s.Warm(); got != 1 {
			t.Fatalf("%d pods are to be packed, want only the one that is there", got)
		}
		s.RemovePod(p.GetId())
	}
}
