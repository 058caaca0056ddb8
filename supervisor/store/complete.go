package store

import (
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rule says what happens to a field that the runtime left out and that is stored.
type rule uint8

const (
	whenEmpty rule = iota // an empty field is filled as a whole
	never                 // empty is news
	byKey                 // a map keeps the stored keys that are absent
	within                // a message is completed field by field
)

// completePod returns next with what it lacks taken from prev, as a new message unless nothing is lacking. Labels and annotations of a
// sandbox never change, but a runtime whose sandbox container is gone shows fewer of them: missing keys are kept.
func completePod(next, prev *api.PodSandbox) *api.PodSandbox {
	return complete(next, prev, func(field protoreflect.Name) rule {
		switch field {
		case "pid":
			return never
		case "labels", "annotations":
			return byKey
		case "linux":
			return within
		default:
			return whenEmpty
		}
	})
}

// completeContainer does the same for containers. Their annotations are filled only as a whole, since an adjustment can remove one between
// the creation and the next event.
func completeContainer(next, prev *api.Container) *api.Container {
	return complete(next, prev, func(field protoreflect.Name) rule {
		switch field {
		case "pid", "finished_at", "exit_code", "status_reason", "status_message":
			return never
		case "linux":
			return within
		default:
			return whenEmpty
		}
	})
}

func complete[M proto.Message](next, prev M, of func(protoreflect.Name) rule) M {
	out := fill(next.ProtoReflect(), prev.ProtoReflect(), of)
	if out == nil {
		return next
	}
	return out.Interface().(M)
}

// fill returns nil if next lacks nothing. It works by reflection so that a field that a later NRI adds is not lost.
func fill(next, prev protoreflect.Message, of func(protoreflect.Name) rule) protoreflect.Message {
	var out protoreflect.Message
	set := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
		if out == nil {
			out = shallow(next)
		}
		out.Set(fd, v)
	}
	prev.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		how := of(fd.Name())
		switch {
		case how == never:
		case !next.Has(fd):
			set(fd, v)
		case how == byKey && lacksKey(next.Get(fd).Map(), v.Map()):
			union := next.NewField(fd)
			overlay(union.Map(), v.Map())
			overlay(union.Map(), next.Get(fd).Map())
			set(fd, union)
		case how == within:
			inner := fill(next.Get(fd).Message(), v.Message(), func(protoreflect.Name) rule { return whenEmpty })
			if inner != nil {
				set(fd, protoreflect.ValueOfMessage(inner))
			}
		}
		return true
	})
	return out
}

// shallow returns a new message that shares every field's content with m.
func shallow(m protoreflect.Message) protoreflect.Message {
	out := m.New()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(fd, v)
		return true
	})
	out.SetUnknown(m.GetUnknown())
	return out
}

func lacksKey(next, prev protoreflect.Map) bool {
	lacks := false
	prev.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		lacks = !next.Has(k)
		return !lacks
	})
	return lacks
}

func overlay(dst, src protoreflect.Map) {
	src.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		dst.Set(k, v)
		return true
	})
}
