package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/store"
)

// noon is the instant at which the tests' story starts; the store reads no clock.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func pod(id string) *api.PodSandbox {
	return &api.PodSandbox{
		Id: id, Name: "name-" + id, Uid: "uid-" + id, Namespace: "ns-" + id, RuntimeHandler: "runc",
		Labels: map[string]string{"app": id}, Annotations: map[string]string{"note": id},
	}
}

func ctr(podID, id string) *api.Container {
	return &api.Container{
		Id: id, PodSandboxId: podID, Name: "name-" + id, State: api.ContainerState_CONTAINER_CREATED,
		Args: []string{"run", id}, Env: []string{"A=1"},
	}
}

// made returns a store with one pod "p" that holds the created containers.
func made(t *testing.T, ctrs ...string) *store.Store {
	t.Helper()
	s := store.New()
	s.ObservePod(pod("p"), noon)
	for _, id := range ctrs {
		s.ObserveCreation(pod("p"), ctr("p", id), noon)
		if !s.SetCreated(store.Ref{Pod: "p", Container: id}) {
			t.Fatalf("container %q is unknown right after its creation", id)
		}
	}
	return s
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ids[M interface{ GetId() string }](list []M) []string {
	out := []string{}
	for _, m := range list {
		out = append(out, m.GetId())
	}
	return out
}

// all is the store's All as lists.
func all(s *store.Store) (pods, ctrs []store.Entry) {
	p, c := s.All()
	return slices.Collect(p), slices.Collect(c)
}

func refs(list []store.Entry) []store.Ref {
	out := []store.Ref{}
	for _, e := range list {
		out = append(out, e.Ref)
	}
	return out
}

// populate sets every field of m, and of the messages in it, to something that is not zero.
func populate(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			entries.Set(protoreflect.ValueOfString("key").MapKey(), some(fd.MapValue(), entries.NewValue))
		case fd.IsList():
			list := m.Mutable(fd).List()
			list.Append(some(fd, list.NewElement))
		default:
			m.Set(fd, some(fd, func() protoreflect.Value { return m.NewField(fd) }))
		}
	}
}

func some(fd protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("some " + string(fd.Name()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.MessageKind:
		v := empty()
		populate(v.Message())
		return v
	default:
		panic(fmt.Sprintf("populate %s: no value for kind %v", fd.FullName(), fd.Kind()))
	}
}
