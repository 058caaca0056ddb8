package merge_test

import (
	"math/rand/v2"
	"strconv"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// random fills replies: every field that NRI has, by reflection, with few
// different keys so that plugins collide.
type random struct {
	*rand.Rand
	density  float64 // how likely a field is set
	removals float64 // how likely an entry is a removal
}

// names are the values for fields whose text means something.
func (r *random) text(fd protoreflect.FieldDescriptor) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	switch fd.FullName() {
	case "nri.pkg.api.v1alpha1.KeyValue.key":
		return r.removable(pick("A", "B", "C", "D", "", "-A"))
	case "nri.pkg.api.v1alpha1.Mount.destination":
		return r.removable(pick("/a", "/b", "/c", "/d", "/proc"))
	case "nri.pkg.api.v1alpha1.LinuxDevice.path":
		return r.removable(pick("/dev/a", "/dev/b", "/dev/c", "/dev/d"))
	case "nri.pkg.api.v1alpha1.LinuxNamespace.type":
		return r.removable(pick("pid", "network", "ipc", "uts", "mount"))
	case "nri.pkg.api.v1alpha1.CDIDevice.name":
		return pick("v/c=1", "v/c=2", "v/c=3", "v/c=4")
	case "nri.pkg.api.v1alpha1.POSIXRlimit.type":
		return pick("RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CPU")
	case "nri.pkg.api.v1alpha1.HugepageLimit.page_size":
		return pick("2MB", "1GB", "64KB", "32MB")
	case "nri.pkg.api.v1alpha1.ContainerUpdate.container_id", "nri.pkg.api.v1alpha1.ContainerEviction.container_id":
		return pick("other1", "other2", "other3", "other1", "other2", "other3", "other1", "other2", "other3", "ctr0", "")
	case "nri.pkg.api.v1alpha1.ContainerAdjustment.args":
		return pick("", "x", "y", "z")
	case "nri.pkg.api.v1alpha1.Mount.options":
		return pick("ro", "rbind", "rprivate")
	default:
		return strconv.Itoa(r.IntN(1000))
	}
}

func (r *random) removable(key string) string {
	if r.Float64() < r.removals {
		return api.MarkForRemoval(key)
	}
	return key
}

func (r *random) mapKey(fd protoreflect.FieldDescriptor) string {
	key := string(rune('a' + r.IntN(6)))
	if fd.Name() == "unified" {
		return key
	}
	return r.removable(key)
}

func (r *random) fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.Float64() >= r.chance(fd) {
			continue
		}
		switch {
		case fd.IsMap():
			for range 1 + r.IntN(2) {
				key := protoreflect.ValueOfString(r.mapKey(fd)).MapKey()
				v := m.Mutable(fd).Map().NewValue()
				if fd.MapValue().Message() != nil {
					r.fill(v.Message())
				} else {
					v = protoreflect.ValueOfString(strconv.Itoa(r.IntN(1000)))
				}
				m.Mutable(fd).Map().Set(key, v)
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range 1 + r.IntN(2) {
				v := list.NewElement()
				if fd.Message() != nil {
					r.fill(v.Message())
				} else {
					v = r.scalar(fd)
				}
				list.Append(v)
			}
		case fd.Message() != nil:
			r.fill(m.Mutable(fd).Message())
		default:
			m.Set(fd, r.scalar(fd))
		}
	}
}

// chance tells how likely a field is set: always for what a message is about,
// often for messages that only hold others.
func (r *random) chance(fd protoreflect.FieldDescriptor) float64 {
	switch fd.Name() {
	case "key", "container_id", "destination", "type", "page_size":
		return 1
	case "ignore_failure":
		return 0.8
	case "linux", "resources", "adjust", "update", "memory", "cpu":
		return max(0.7, r.density)
	case "path", "name":
		if parent := fd.Parent().Name(); parent == "LinuxDevice" || parent == "CDIDevice" {
			return 1
		}
	}
	return r.density
}

func (r *random) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(r.text(fd))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(r.Int32N(1000))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(r.Int64N(1000))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(r.Uint32N(1000))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(r.Uint64N(1000))
	default:
		panic("a kind of field that NRI did not have: " + fd.Kind().String())
	}
}

// create, update and stop make one plugin's reply, or none.
func (r *random) create() *api.CreateContainerResponse {
	if r.IntN(8) == 0 {
		return nil
	}
	rpl := &api.CreateContainerResponse{}
	r.fill(rpl.ProtoReflect())
	return rpl
}

func (r *random) update() *api.UpdateContainerResponse {
	if r.IntN(8) == 0 {
		return nil
	}
	rpl := &api.UpdateContainerResponse{}
	r.fill(rpl.ProtoReflect())
	return rpl
}

func (r *random) stop() *api.StopContainerResponse {
	if r.IntN(8) == 0 {
		return nil
	}
	rpl := &api.StopContainerResponse{}
	r.fill(rpl.ProtoReflect())
	return rpl
}
