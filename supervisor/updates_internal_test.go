package supervisor

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
)

func bigUpdate(id, key string, n int) *api.ContainerUpdate {
	return &api.ContainerUpdate{ContainerId: id, Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Unified: map[string]string{key: strings.Repeat("x", n)}}}}
}

func shares(id string, n uint64) *api.ContainerUpdate {
	return &api.ContainerUpdate{ContainerId: id, Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(n)}}}}
}

func memory(id string, n int64) *api.ContainerUpdate {
	return &api.ContainerUpdate{ContainerId: id, Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(n)}}}}
}

// arrived keeps what the runtime was last told about each container.
type arrived struct {
	mu     sync.Mutex
	shares map[string]uint64
	memory map[string]int64
}

func (a *arrived) take(u *api.ContainerUpdate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shares == nil {
		a.shares, a.memory = map[string]uint64{}, map[string]int64{}
	}
	r := u.GetLinux().GetResources()
	if v := r.GetCpu().GetShares(); v != nil {
		a.shares[u.GetContainerId()] = v.GetValue()
	}
	if v := r.GetMemory().GetLimit(); v != nil {
		a.memory[u.GetContainerId()] = v.GetValue()
	}
}

func (a *arrived) sharesOf(id string) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shares[id]
}

func (a *arrived) memoryOf(id string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.memory[id]
}

// update sends updates of a plugin's own and wants all of them accepted.
func (f *fixture) update(name string, us ...*api.ContainerUpdate) {
	f.t.Helper()
	if failed, err := f.l.inc(name).h.Update(f.t.Context(), us); err != nil || len(failed) > 0 {
		f.t.Fatalf("updates of %s are refused: %v, %v", name, failed, err)
	}
}

// TestLargeUpdatesOfAPluginDoNotTakeThoseOfOthersAlong: what does not fit into one message with the others goes into another message.
func TestLargeUpdatesOfAPluginDoNotTakeThoseOfOthersAlong(t *testing.T) {
	t.Parallel()
	var got arrived
	f, _ := serveWith(t, load(t, [2]string{"bad", sel("bad")}, [2]string{"good", sel("good")}), makers{"bad": one(&fakePlugin{}), "good": one(&fakePlugin{})}, got.take,
		[]*api.PodSandbox{pod("b", "bad", "1"), pod("g", "good", "1")}, []*api.Container{ctr("b", "bad1"), ctr("b", "bad2"), ctr("g", "good")})
	f.update("good", shares("good", 2)) // what follows waits for the rate limit together
	f.eventually("the first update", func() bool { return got.sharesOf("good") == 2 })
	for _, id := range []string{"bad1", "bad2"} {
		_, _ = f.l.inc("bad").h.Update(t.Context(), []*api.ContainerUpdate{bigUpdate(id, "memory.high", 3<<20)})
	}
	f.update("good", shares("good", 3))
	f.eventually("the update that waited beside large ones", func() bool { return got.sharesOf("good") == 3 })
}

// TestJoinedUpdatesThatOutgrowAMessageDoNotBlockTheQueue: updates of one container are joined while they wait; the sum may be more than a message holds.
func TestJoinedUpdatesThatOutgrowAMessageDoNotBlockTheQueue(t *testing.T) {
	t.Parallel()
	var got arrived
	f, _ := serveWith(t, load(t, [2]string{"bad", sel("bad")}, [2]string{"good", sel("good")}), makers{"bad": one(&fakePlugin{}), "good": one(&fakePlugin{})}, got.take,
		[]*api.PodSandbox{pod("b", "bad", "1"), pod("g", "good", "1")}, []*api.Container{ctr("b", "b"), ctr("g", "g")})
	f.update("good", shares("g", 2))
	f.eventually("the first update", func() bool { return got.sharesOf("g") == 2 })
	for i := range 3 {
		_, _ = f.l.inc("bad").h.Update(t.Context(), []*api.ContainerUpdate{bigUpdate("b", fmt.Sprint("memory.", i), 1800<<10)})
	}
	f.update("good", shares("g", 3))
	f.eventually("the update behind the joined ones", func() bool { return got.sharesOf("g") == 3 })
}

// TestUpdatesOfOneContainerKeepTheFieldsOfBothPlugins: a later update of a container takes nothing from an earlier one that still waits.
func TestUpdatesOfOneContainerKeepTheFieldsOfBothPlugins(t *testing.T) {
	t.Parallel()
	var got arrived
	f, _ := serveWith(t, load(t, [2]string{"a", sel("x")}, [2]string{"b", sel("x")}), makers{"a": one(&fakePlugin{}), "b": one(&fakePlugin{})}, got.take,
		[]*api.PodSandbox{pod("p", "x", "1")}, []*api.Container{ctr("p", "c"), ctr("p", "w")})
	f.update("a", shares("w", 2))
	f.eventually("the first update", func() bool { return got.sharesOf("w") == 2 })
	f.update("a", shares("c", 7))
	f.update("b", memory("c", 1<<30))
	f.eventually("both fields", func() bool { return got.sharesOf("c") == 7 && got.memoryOf("c") == 1<<30 })
}

// TestABypassAndATripHoldBackAPluginsOwnUpdates: a plugin that takes no part in requests changes no containers on its own, either.
func TestABypassAndATripHoldBackAPluginsOwnUpdates(t *testing.T) {
	t.Parallel()
	var got arrived
	f, _ := serveWith(t, load(t, [2]string{"p", sel("x")}, [2]string{"other", sel("x")}), makers{"p": one(&fakePlugin{}), "other": one(&fakePlugin{})}, got.take,
		[]*api.PodSandbox{pod("p", "x", "1")}, []*api.Container{ctr("p", "bypassed"), ctr("p", "tripped"), ctr("p", "last")})
	f.s.Bypass(time.Minute, 0)
	_, _ = f.l.inc("p").h.Update(t.Context(), []*api.ContainerUpdate{shares("bypassed", 2)})
	f.s.Bypass(0, 0)
	if err := f.s.Act("p", "trip", 0); err != nil {
		t.Fatal(err)
	}
	_, _ = f.l.inc("p").h.Update(t.Context(), []*api.ContainerUpdate{shares("tripped", 2)})
	f.ready("other")
	f.update("other", shares("last", 2)) // updates keep their order: the earlier ones would be there by then
	f.eventually("an update of a plugin in service", func() bool { return got.sharesOf("last") == 2 })
	if b, tr := got.sharesOf("bypassed"), got.sharesOf("tripped"); b != 0 || tr != 0 {
		t.Errorf("the runtime was told of %d and %d shares", b, tr)
	}
}

// TestALargeReplyLeavesTheUpdatesOfOtherPlugins: the reply to the runtime is bounded by dropping what is large, not what is beside it.
func TestALargeReplyLeavesTheUpdatesOfOtherPlugins(t *testing.T) {
	t.Parallel()
	updates := func(id string, n int) *fakePlugin {
		return &fakePlugin{update: func(*api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
			return &api.UpdateContainerResponse{Update: []*api.ContainerUpdate{bigUpdate(id, "memory.high", n)}}, nil
		}}
	}
	both := pod("both", "bad", "1", "good", "1")
	_, s := serveWith(t, load(t, [2]string{"bad", sel("bad")}, [2]string{"good", sel("good")}), makers{"bad": one(updates("b", 4<<20-65<<10)), "good": one(updates("g", 2000))}, nil,
		[]*api.PodSandbox{both, pod("b", "bad", "1"), pod("g", "good", "1")}, []*api.Container{ctr("both", "c"), ctr("b", "b"), ctr("g", "g")})
	rpl, err := s.plugin.UpdateContainer(s.ctx(), &api.UpdateContainerRequest{Pod: both, Container: ctr("both", "c"), LinuxResources: &api.LinuxResources{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range rpl.GetUpdate() {
		if u.GetContainerId() == "g" {
			return
		}
	}
	t.Error("the small update is missing in the reply")
}
