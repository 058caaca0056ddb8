package store

import (
	"maps"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rule says what happens to a field that the runtime left out and that is stored.
type rule uint8

const (
	whenEmpty rule = iota // an empty field is filled as a whole
	never                 // empty is news
	within                // a message is completed field by field
)

// completePod returns next with what it lacks taken from prev, as a new message unless nothing is lacking. Labels and annotations of a
// sandbox never change, but a runtime whose sandbox container is gone shows fewer of them: missing keys are kept.
func completePod(next, prev *api.PodSandbox) *api.PodSandbox {
	out := complete(next, prev, ofPod)
	labels, annotations := lacksKey(out.GetLabels(), prev.GetLabels()), lacksKey(out.GetAnnotations(), prev.GetAnnotations())
	if !labels && !annotations {
		return out
	}
	if out == next {
		out = shallow(next.ProtoReflect()).Interface().(*api.PodSandbox)
	}
	if labels {
		out.Labels = union(prev.GetLabels(), out.GetLabels())
	}
	if annotations {
		out.Annotations = union(prev.GetAnnotations(), out.GetAnnotations())
	}
	return out
}

// completeContainer does the same for containers. Their annotations are filled only as a whole, since an adjustment can remove one between
// the creation and the next event.
func completeContainer(next, prev *api.Container) *api.Container {
	return complete(next, prev, ofContainer)
}

func ofPod(field protoreflect.Name) rule {
	switch field {
	case "pid":
		return never
	case "linux":
		return within
	default:
		return whenEmpty
	}
}

func ofContainer(field protoreflect.Name) rule {
	switch field {
	case "pid", "finished_at", "exit_code", "status_reason", "status_message":
		return never
	case "linux":
		return within
	default:
		return whenEmpty
	}
}

func complete[M proto.Message](next, prev M, of func(protoreflect.Name) rule) M {
	out := fill(next.ProtoReflect(), prev.ProtoReflect(), of)
	if out == nil {
		return next
	}
	return out.Interface().(M)
}

// fill returns nil if next lacks nothing. It works by reflection so that a field that a later NRI adds is not lost, and asks before it
// reads, since reading a list or a map allocates.
func fill(next, prev protoreflect.Message, of func(protoreflect.Name) rule) protoreflect.Message {
	var out protoreflect.Message
	set := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
		if out == nil {
			out = shallow(next)
		}
		out.Set(fd, v)
	}
	fields := next.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !prev.Has(fd) {
			continue
		}
		how, has := of(fd.Name()), next.Has(fd)
		switch {
		case how == never:
		case !has:
			set(fd, prev.Get(fd))
		case how == within:
			if inner := fill(next.Get(fd).Message(), prev.Get(fd).Message(), asAWhole); inner != nil {
				set(fd, protoreflect.ValueOfMessage(inner))
			}
		}
	}
	return out
}

func asAWhole(protoreflect.Name) rule { return whenEmpty }

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

func lacksKey(next, prev map[string]string) bool {
	for k := range prev {
		if _, ok := next[k]; !ok {
			return true
		}
	}
	return false
}

// union returns a new map with all of both; where both have a key, over wins.
func union(under, over map[string]string) map[string]string {
	out := maps.Clone(under)
	maps.Copy(out, over)
	return out
}
