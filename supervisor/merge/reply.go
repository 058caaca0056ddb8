package merge

import (
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// reply is what a member said, whatever the event. A nil *reply says nothing.
type reply struct {
	adjust *api.ContainerAdjustment
	update []*api.ContainerUpdate
	evict  []*api.ContainerEviction
}

func replyToCreate(rpl *api.CreateContainerResponse) *reply {
	return newReply(rpl.GetAdjust(), rpl.GetUpdate(), rpl.GetEvict())
}

func replyToUpdate(rpl *api.UpdateContainerResponse) *reply {
	return newReply(nil, rpl.GetUpdate(), rpl.GetEvict())
}

func replyToStop(rpl *api.StopContainerResponse) *reply {
	return newReply(nil, rpl.GetUpdate(), nil)
}

// newReply takes what a member said, without nil entries and without updates and
// evictions that name no container. The adaptation would panic on the former.
func newReply(adjust *api.ContainerAdjustment, update []*api.ContainerUpdate, evict []*api.ContainerEviction) *reply {
	r := &reply{}
	if adjust != nil {
		r.adjust = adjust
		for key, device := range adjust.GetLinux().GetNetDevices() {
			if _, marked := api.IsMarkedForRemoval(key); marked && device == nil {
				// NRI's helper marks removals by nil, which has no encoding.
				adjust.Linux.NetDevices[key] = &api.LinuxNetDevice{}
			}
		}
		scrub(adjust.ProtoReflect())
	}
	for _, u := range update {
		if u.GetContainerId() != "" {
			scrub(u.ProtoReflect())
			r.update = append(r.update, u)
		}
	}
	for _, v := range evict {
		if v.GetContainerId() != "" {
			r.evict = append(r.evict, v)
		}
	}
	if r.adjust == nil && len(r.update) == 0 && len(r.evict) == 0 {
		return nil
	}
	return r
}

func (r *reply) getAdjust() *api.ContainerAdjustment {
	if r == nil {
		return nil
	}
	return r.adjust
}

func (r *reply) getUpdate() []*api.ContainerUpdate {
	if r == nil {
		return nil
	}
	return r.update
}

// names tells whether the reply updates a container.
func (r *reply) names(container string) bool {
	for _, u := range r.getUpdate() {
		if container != "" && u.GetContainerId() == container {
			return true
		}
	}
	return false
}

// clone copies the parts that the adaptation changes or keeps.
func (r *reply) clone() *reply {
	if r == nil {
		return nil
	}
	c := &reply{}
	if r.adjust != nil {
		c.adjust = proto.CloneOf(r.adjust)
	}
	for _, u := range r.update {
		c.update = append(c.update, proto.CloneOf(u))
	}
	return c
}

// scrub takes nil entries out of all lists and maps of messages within m.
func scrub(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				scrubMap(v.Map())
			}
		case fd.IsList():
			if fd.Message() != nil {
				scrubList(v.List())
			}
		case fd.Message() != nil:
			scrub(v.Message())
		}
		return true
	})
}

func scrubMap(entries protoreflect.Map) {
	entries.Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
		if v.Message().IsValid() {
			scrub(v.Message())
		} else {
			entries.Clear(key)
		}
		return true
	})
}

func scrubList(list protoreflect.List) {
	kept := 0
	for i := range list.Len() {
		v := list.Get(i)
		if !v.Message().IsValid() {
			continue
		}
		scrub(v.Message())
		if kept != i {
			list.Set(kept, v)
		}
		kept++
	}
	if kept != list.Len() {
		list.Truncate(kept)
	}
}
