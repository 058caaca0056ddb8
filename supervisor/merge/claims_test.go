package merge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// TestEveryFieldIsClaimedAsNRIClaimsIt sets one field at a time, all that an
// adjustment and an update can hold. It fails when NRI gets a field that claims do not know.
func TestEveryFieldIsClaimedAsNRIClaimsIt(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	fields := 0
	compare := func(what string, rpl *api.CreateContainerResponse) {
		fields++
		out := stock(t, []attached{{name: "a", create: rpl}}, newCreate(), nil, nil)
		if out.err != nil {
			t.Fatalf("%s: %v", what, out.err)
		}
		res := create(t, e, serial("a"), newCreate(), createReplies{rpl}, merge.CreateOptions{Owners: true})
		got := res.Owners
		for _, of := range got.GetOwners() {
			if update := len(rpl.GetUpdate()) > 0; update {
				delete(of.Simple, api.Field_PidsLimit.Key()) // NRI forgets them
			}
		}
		if diff := cmp.Diff(nonEmpty(withoutPlaces(out.owners)), nonEmpty(got), protocmp.Transform()); diff != "" {
			t.Errorf("%s: owners (-NRI +ours):\n%s", what, diff)
		}
	}
	r := &random{Rand: rand.New(rand.NewPCG(1, 6)), density: 1}
	eachField((&api.ContainerAdjustment{}).ProtoReflect().Descriptor(), nil, func(path []protoreflect.FieldDescriptor) {
		a := &api.ContainerAdjustment{}
		setOne(r, a.ProtoReflect(), path)
		compare(fmt.Sprint(names(path)), &api.CreateContainerResponse{Adjust: a})
	})
	eachField((&api.LinuxContainerUpdate{}).ProtoReflect().Descriptor(), nil, func(path []protoreflect.FieldDescriptor) {
		u := &api.ContainerUpdate{ContainerId: "other", Linux: &api.LinuxContainerUpdate{}}
		setOne(r, u.GetLinux().ProtoReflect(), path)
		compare("update "+fmt.Sprint(names(path)), &api.CreateContainerResponse{Update: []*api.ContainerUpdate{u}})
	})
	t.Logf("%d fields", fields)
	if fields < 60 {
		t.Errorf("only %d fields were tried", fields)
	}
}

// holders are messages whose fields NRI owns one by one.
func holder(m protoreflect.MessageDescriptor) bool {
	switch m.Name() {
	case "LinuxContainerAdjustment", "LinuxResources", "LinuxMemory", "LinuxCPU", "LinuxRdt", "Hooks", "LinuxContainerUpdate":
		return true
	default:
		return false
	}
}

func eachField(m protoreflect.MessageDescriptor, above []protoreflect.FieldDescriptor, f func([]protoreflect.FieldDescriptor)) {
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		path := append(slices.Clip(above), fd)
		if fd.Message() != nil && !fd.IsMap() && !fd.IsList() && holder(fd.Message()) {
			eachField(fd.Message(), path, f)
			continue
		}
		f(path)
	}
}

func setOne(r *random, m protoreflect.Message, path []protoreflect.FieldDescriptor) {
	fd := path[0]
	if len(path) > 1 {
		setOne(r, m.Mutable(fd).Message(), path[1:])
		return
	}
	switch {
	case fd.IsList():
		list := m.Mutable(fd).List()
		v := list.NewElement()
		if fd.Message() != nil {
			r.fill(v.Message())
		} else {
			v = protoreflect.ValueOfString("x")
		}
		list.Append(v)
	case fd.IsMap():
		v := m.Mutable(fd).Map().NewValue()
		if fd.MapValue().Message() == nil {
			v = protoreflect.ValueOfString("x")
		}
		m.Mutable(fd).Map().Set(protoreflect.ValueOfString("key").MapKey(), v)
	case fd.Message() != nil:
		r.fill(m.Mutable(fd).Message())
	default:
		m.Set(fd, r.scalar(fd))
	}
}

func names(path []protoreflect.FieldDescriptor) (n []protoreflect.Name) {
	for _, fd := range path {
		n = append(n, fd.Name())
	}
	return n
}

// nonEmpty takes out containers that nobody owns anything of.
func nonEmpty(owners *api.OwningPlugins) *api.OwningPlugins {
	for id, of := range owners.GetOwners() {
		if len(of.GetSimple()) == 0 && len(of.GetCompound()) == 0 {
			delete(owners.Owners, id)
		}
	}
	return owners
}

// TestTheOnlyReplyIsClaimedAsNRIClaimsIt does so for random replies: the same
// owners, and dropped exactly when NRI would refuse it.
func TestTheOnlyReplyIsClaimedAsNRIClaimsIt(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	refused := 0
	for seed := range uint64(cases) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 7)), density: 0.1 + 0.1*float64(seed%4), removals: 0.1 * float64(seed%5)}
		said := r.create()
		res := create(t, e, serial("a"), newCreate(), createReplies{said}, merge.CreateOptions{Owners: true})
		out := stock(t, []attached{{name: "a", create: cleanCreate(said, res.LostUpdates, 0)}}, newCreate(), nil, nil)
		switch {
		case len(res.Dropped) > 0 && onlyPids(res.Dropped[0]):
		case (out.err != nil) != (len(res.Dropped) > 0):
			t.Fatalf("seed %d: NRI says %v, we dropped %v", seed, out.err, res.Dropped)
		case out.err != nil:
			refused++
			checkDropped(t, seed, res.Dropped[0])
		default:
			for id, of := range res.Owners.GetOwners() {
				if id != "ctr0" {
					delete(of.Simple, api.Field_PidsLimit.Key())
				}
			}
			if diff := cmp.Diff(nonEmpty(withoutPlaces(out.owners)), nonEmpty(res.Owners), protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
				t.Fatalf("seed %d: owners (-NRI +ours):\n%s\nof %v", seed, diff, said)
			}
		}
	}
	if refused < cases/50 {
		t.Errorf("only %d refused of %d: the test does not test", refused, cases)
	}
}
