package merge_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// FuzzReplies merges what two plugins made up. nils tells where nil entries are put
// in. Whatever they say: no panic, no nil entries, no updates of nothing, and
// the same bytes each time.
func FuzzReplies(f *testing.F) {
	seeds := 0
	for seed := range uint64(20) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 8)), density: 0.4, removals: 0.3}
		a, b := r.create(), r.create()
		if a == nil || b == nil {
			continue
		}
		f.Add([]byte(encode(f, a)), []byte(encode(f, b)), uint32(seed*0x9e3779b9))
		seeds++
	}
	huge := adjusting(func(a *api.ContainerAdjustment) {
		for i := range 20000 {
			a.AddEnv(string(rune('A'+i%26))+string(rune(0x100+i)), "x")
		}
	})
	f.Add([]byte(encode(f, huge)), []byte(encode(f, huge)), uint32(0))
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, first, second []byte, nils uint32) {
		said := make(createReplies, 2)
		for i, encoded := range [][]byte{first, second} {
			rpl := &api.CreateContainerResponse{}
			if proto.Unmarshal(encoded, rpl) != nil {
				continue
			}
			said[i] = rpl
		}
		var results [2]string
		for n := range 2 {
			members := serial("a", "b")[:1+nils%2]
			r := rand.New(rand.NewPCG(uint64(nils), 0))
			res, err := e.CreateContainer(t.Context(), members, newCreate(), func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
				return withNils(r, said[m])
			}, merge.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			checkWhole(t, res.Reply.ProtoReflect())
			for _, u := range res.Reply.GetUpdate() {
				if u.GetContainerId() == "" {
					t.Error("an update of nothing was sent")
				}
			}
			results[n] = encode(t, res.Reply)
		}
		if results[0] != results[1] {
			t.Error("two runs differ")
		}
	})
}

// withNils puts nil entries into a copy of a reply.
func withNils(r *rand.Rand, rpl *api.CreateContainerResponse) *api.CreateContainerResponse {
	if rpl == nil {
		return nil
	}
	c := proto.CloneOf(rpl)
	some := func() bool { return r.IntN(2) == 0 }
	if some() {
		c.Update = append([]*api.ContainerUpdate{nil}, c.Update...)
		c.Evict = append(c.Evict, nil)
	}
	if a := c.GetAdjust(); a != nil && some() {
		a.Env = append(a.Env, nil)
		a.Mounts = append([]*api.Mount{nil}, a.Mounts...)
		a.Rlimits = append(a.Rlimits, nil)
		a.CDIDevices = append(a.CDIDevices, nil, nil)
		if a.Hooks != nil {
			a.Hooks.Prestart = append(a.Hooks.Prestart, nil)
		}
		if l := a.GetLinux(); l != nil && some() {
			l.Devices = append([]*api.LinuxDevice{nil}, l.Devices...)
			l.Namespaces = append(l.Namespaces, nil)
			if l.NetDevices != nil {
				l.NetDevices["nil"] = nil
				l.NetDevices["-nil"] = nil
			}
			if l.Resources != nil {
				l.Resources.HugepageLimits = append(l.Resources.HugepageLimits, nil)
				l.Resources.Devices = append(l.Resources.Devices, nil)
			}
			if l.SeccompPolicy != nil {
				l.SeccompPolicy.Syscalls = append(l.SeccompPolicy.Syscalls, nil)
			}
		}
	}
	for _, u := range c.GetUpdate() {
		if res := u.GetLinux().GetResources(); res != nil && some() {
			res.HugepageLimits = append(res.HugepageLimits, nil)
		}
	}
	return c
}

// checkWhole checks that there are no nil entries.
func checkWhole(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if !m.IsValid() {
		t.Errorf("a nil %s", m.Descriptor().Name())
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if fd.MapValue().Message() != nil {
					checkWhole(t, v.Message())
				}
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				if fd.Message() != nil {
					checkWhole(t, v.List().Get(i).Message())
				}
			}
		case fd.Message() != nil:
			checkWhole(t, v.Message())
		}
		return true
	})
}
