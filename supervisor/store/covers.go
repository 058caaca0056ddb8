package store

import (
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// coversPod reports whether next, which a runtime sent, lacks nothing of the pod that raw encodes, so that completePod would return it as it is. It decodes and allocates nothing: as a rule a
// runtime leaves nothing out. False may also mean that only completePod can tell.
func coversPod(next *api.PodSandbox, raw []byte) bool {
	return covers(next.ProtoReflect(), raw, ofPod, func(field protoreflect.Name, entry []byte) bool {
		switch field {
		case "labels":
			return hasKey(next.GetLabels(), entry)
		case "annotations":
			return hasKey(next.GetAnnotations(), entry)
		default:
			return true
		}
	})
}

// coversContainer does the same for containers.
func coversContainer(next *api.Container, raw []byte) bool {
	return covers(next.ProtoReflect(), raw, ofContainer, nil)
}

// covers is fill for a previous message that is encoded. each, if there is one, is asked about every field that both have.
func covers(next protoreflect.Message, raw []byte, of func(protoreflect.Name) rule, each func(field protoreflect.Name, value []byte) bool) bool {
	fields := next.Descriptor().Fields()
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return false
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(num, typ, raw)
		if size < 0 {
			return false
		}
		value := raw[:size]
		raw = raw[size:]
		fd := fields.ByNumber(num)
		if fd == nil {
			continue // of a later protocol: what comes counts
		}
		how := of(fd.Name())
		if how == never {
			continue
		}
		if !next.Has(fd) {
			return false
		}
		if typ != protowire.BytesType {
			continue
		}
		content, _ := protowire.ConsumeBytes(value)
		if how == within && !covers(next.Get(fd).Message(), content, asAWhole, nil) {
			return false
		}
		if each != nil && !each(fd.Name(), content) {
			return false
		}
	}
	return true
}

// hasKey reports whether m has the key of an encoded entry of a map.
func hasKey(m map[string]string, entry []byte) bool {
	const key = 1
	num, typ, n := protowire.ConsumeTag(entry)
	if n < 0 || num != key || typ != protowire.BytesType {
		return false // an encoder may put the value first, or leave an empty key out
	}
	k, n := protowire.ConsumeBytes(entry[n:])
	if n < 0 {
		return false
	}
	_, ok := m[string(k)]
	return ok
}
