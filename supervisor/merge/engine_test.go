package merge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

func newEngine(tb testing.TB) *merge.Engine {
	tb.Helper()
	e := merge.NewEngine()
	tb.Cleanup(e.Close)
	return e
}

// serial gives members with indexes 10, 11, … and the names given.
func serial(names ...string) []merge.Member {
	var members []merge.Member
	for i, name := range names {
		members = append(members, merge.Member{Name: name, Index: string([]byte{'1', byte('0' + i)})})
	}
	return members
}

type createReplies = []*api.CreateContainerResponse

// create merges fixed replies.
func create(tb testing.TB, e *merge.Engine, members []merge.Member, req *api.CreateContainerRequest, replies createReplies, o merge.CreateOptions) merge.CreateResult {
	tb.Helper()
	res, err := e.CreateContainer(tb.Context(), members, req, func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
		return copyOrNil(replies[m])
	}, o)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

func env(key, value string) *api.CreateContainerResponse {
	return adjusting(func(a *api.ContainerAdjustment) { a.AddEnv(key, value) })
}

func envKeys(rpl *api.CreateContainerResponse) []string {
	var keys []string
	for _, e := range rpl.GetAdjust().GetEnv() {
		keys = append(keys, e.GetKey())
	}
	return keys
}

func TestNobodySelectedGivesAnEmptyReply(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	res, err := e.CreateContainer(t.Context(), nil, newCreate(), nil, merge.CreateOptions{})
	if err != nil || res.Reply == nil || proto.Size(res.Reply) != 0 {
		t.Errorf("CreateContainer of nobody = %v, %v", res.Reply, err)
	}
	upd, err := e.UpdateContainer(t.Context(), nil, newUpdate(), nil)
	if err != nil || upd.Reply == nil || proto.Size(upd.Reply) != 0 {
		t.Errorf("UpdateContainer of nobody = %v, %v", upd.Reply, err)
	}
	stop, err := e.StopContainer(t.Context(), nil, newStop(), nil)
	if err != nil || stop.Reply == nil || proto.Size(stop.Reply) != 0 {
		t.Errorf("StopContainer of nobody = %v, %v", stop.Reply, err)
	}
}

func TestTheOnlyReplyGoesThroughAsItIs(t *testing.T) {
	t.Parallel()
	said := adjusting(func(a *api.ContainerAdjustment) {
		a.AddEnv("X", "1")
		a.RemoveEnv("A")
		a.AddMount(&api.Mount{Destination: "/x"})
		a.SetLinuxScheduler(&api.LinuxScheduler{})
	})
	said.Update = []*api.ContainerUpdate{updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(7) })}
	req := newCreate()
	res, err := newEngine(t).CreateContainer(t.Context(), serial("a"), req,
		func(_ context.Context, _ int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
			if view != req {
				t.Error("the only member got a copy of the request")
			}
			return proto.CloneOf(said)
		}, merge.CreateOptions{Owners: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said, res.Reply, protocmp.Transform()); diff != "" {
		t.Errorf("reply changed on its way (-said +sent):\n%s", diff)
	}
	if owner, _ := res.Owners.EnvOwner("ctr0", "X"); owner != "a" {
		t.Errorf("owner of X = %q, want a", owner)
	}
}

func TestMembersAreCalledByIndexAndNameAndSeeEarlierChanges(t *testing.T) {
	t.Parallel()
	members := []merge.Member{{Name: "b", Index: "20"}, {Name: "z", Index: "10"}, {Name: "a", Index: "20"}}
	var called []string
	seen := map[string][]string{}
	res, err := newEngine(t).CreateContainer(t.Context(), members, newCreate(),
		func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
			name := members[m].Name
			called = append(called, name)
			seen[name] = slices.Clone(view.GetContainer().GetEnv())
			return env("FROM_"+name, "1")
		}, merge.CreateOptions{Owners: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"z", "a", "b"}, called); diff != "" {
		t.Errorf("order of calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A=own", "B=own", "PATH=/bin", "FROM_z=1", "FROM_a=1"}, seen["b"]); diff != "" {
		t.Errorf("what b saw (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"FROM_z", "FROM_a", "FROM_b"}, envKeys(res.Reply)); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	for _, m := range members {
		if owner, _ := res.Owners.EnvOwner("ctr0", "FROM_"+m.Name); owner != m.Name {
			t.Errorf("owner of FROM_%s = %q", m.Name, owner)
		}
	}
}

func TestTheOrderIsStableBeyondADozenMembers(t *testing.T) {
	t.Parallel()
	var members []merge.Member
	var want []string
	for i := range 40 {
		name := string([]byte{'a' + byte(i/10), '0' + byte(i%10)})
		members = append(members, merge.Member{Name: name, Index: "50"})
		want = append(want, name)
	}
	slices.Reverse(members)
	res, err := newEngine(t).CreateContainer(t.Context(), members, newCreate(),
		func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
			return env(members[m].Name, "1")
		}, merge.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, envKeys(res.Reply)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestMembersOfAParallelIndexAreCalledAtOnceOnOneView(t *testing.T) {
	t.Parallel()
	members := []merge.Member{
		{Name: "first", Index: "10"},
		{Name: "b", Index: "20", Parallel: true},
		{Name: "c", Index: "20", Parallel: true},
		{Name: "a", Index: "20", Parallel: true},
		{Name: "last", Index: "30", Parallel: true},
	}
	var together sync.WaitGroup
	together.Add(3)
	views := make([]*api.CreateContainerRequest, len(members))
	res, err := newEngine(t).CreateContainer(t.Context(), members, newCreate(),
		func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
			views[m] = view
			if members[m].Index == "20" {
				together.Done()
				together.Wait() // for ever, unless all three are called at once
			}
			return env(members[m].Name, "1")
		}, merge.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "a", "b", "c", "last"}, envKeys(res.Reply)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if views[1] != views[2] || views[2] != views[3] {
		t.Error("members of the stage saw different views")
	}
	if got := views[1].GetContainer().GetEnv(); !slices.Contains(got, "first=1") || slices.Contains(got, "a=1") {
		t.Errorf("the stage saw %q", got)
	}
	if got := views[4].GetContainer().GetEnv(); !slices.Contains(got, "c=1") {
		t.Errorf("the member after the stage saw %q", got)
	}
}

func TestOneSerialMemberMakesItsIndexSerial(t *testing.T) {
	t.Parallel()
	members := []merge.Member{{Name: "a", Index: "20", Parallel: true}, {Name: "b", Index: "20"}, {Name: "c", Index: "20", Parallel: true}}
	_, err := newEngine(t).CreateContainer(t.Context(), members, newCreate(),
		func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
			if got, want := len(view.GetContainer().GetEnv()), 3+m; got != want {
				t.Errorf("%s saw %d variables, want %d", members[m].Name, got, want)
			}
			return env(members[m].Name, "1")
		}, merge.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnErrorNamesWhatTheCallerGotWrong(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	noCall := func(context.Context, int, *api.CreateContainerRequest) *api.CreateContainerResponse {
		t.Error("a member was called")
		return &api.CreateContainerResponse{}
	}
	for want, try := range map[string]func() error{
		`merge CreateContainer: members 0 and 1 are both named "a"`: func() error {
			_, err := e.CreateContainer(t.Context(), []merge.Member{{Name: "a", Index: "10"}, {Name: "a", Index: "20"}}, newCreate(), noCall, merge.CreateOptions{})
			return err
		},
		`merge CreateContainer: member 1 needs an index and a name, has "" and "b"`: func() error {
			_, err := e.CreateContainer(t.Context(), []merge.Member{{Name: "a", Index: "10"}, {Name: "b"}}, newCreate(), noCall, merge.CreateOptions{})
			return err
		},
		`merge CreateContainer: the request has no container`: func() error {
			_, err := e.CreateContainer(t.Context(), serial("a"), &api.CreateContainerRequest{}, noCall, merge.CreateOptions{})
			return err
		},
		`merge UpdateContainer: the request has no container`: func() error {
			_, err := e.UpdateContainer(t.Context(), serial("a"), nil, nil)
			return err
		},
		`merge StopContainer: the request has no container`: func() error {
			_, err := e.StopContainer(t.Context(), serial("a"), nil, nil)
			return err
		},
	} {
		if err := try(); err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	}
}

func TestAfterCloseEventsAreRefused(t *testing.T) {
	t.Parallel()
	e := merge.NewEngine()
	inside := make(chan struct{})
	closed := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := e.CreateContainer(context.Background(), serial("a", "b"), newCreate(),
			func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
				if m == 0 {
					close(inside)
					<-closed
				}
				return env("X"+string(rune('0'+m)), "1")
			}, merge.CreateOptions{})
		done <- err
	}()
	<-inside
	e.Close()
	e.Close()
	close(closed)
	if err := <-done; err != nil {
		t.Errorf("an event under way at Close ended with %v", err)
	}
	if _, err := e.StopContainer(t.Context(), serial("a"), newStop(), nil); !errors.Is(err, merge.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, merge.ErrClosed)
	}
}

func TestConcurrentEventsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	const events = 8
	var together sync.WaitGroup
	together.Add(events)
	var all sync.WaitGroup
	for i := range events {
		all.Go(func() {
			mine := string(rune('A' + i))
			res, err := e.CreateContainer(t.Context(), serial("a", "b"), newCreate(),
				func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
					if m == 0 {
						together.Done()
						together.Wait() // for ever, if one event waited for another
					}
					return env(mine+string(rune('0'+m)), "1")
				}, merge.CreateOptions{})
			if err != nil {
				t.Error(err)
			}
			if got := strings.Join(envKeys(res.Reply), ","); got != mine+"0,"+mine+"1" {
				t.Errorf("event %s got %s", mine, got)
			}
		})
	}
	all.Wait()
}

func TestCallbacksGetTheCallersContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "mine"))
	cancel()
	for _, members := range [][]merge.Member{serial("a"), serial("a", "b")} {
		res, err := newEngine(t).CreateContainer(ctx, members, newCreate(),
			func(ctx context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
				if ctx.Value(key{}) != "mine" || ctx.Err() == nil {
					t.Error("not the caller's context")
				}
				if _, limited := ctx.Deadline(); limited {
					t.Error("the adaptation's own deadline reached a member")
				}
				return env(members[m].Name, "1")
			}, merge.CreateOptions{Owners: true, Validate: nil})
		if err != nil {
			t.Fatal(err)
		}
		if len(envKeys(res.Reply)) != len(members) {
			t.Errorf("a cancelled context cost a reply: %v", res.Reply)
		}
	}
}

func TestNilEntriesAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, members := range [][]merge.Member{serial("a"), serial("a", "b")} {
		res, err := newEngine(t).CreateContainer(t.Context(), members, newCreate(), func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
			if m > 0 {
				return nil
			}
			rpl := adjusting(func(a *api.ContainerAdjustment) {
				a.Env = []*api.KeyValue{nil, {Key: "X"}, nil, {Key: "Y"}, nil}
				a.Rlimits = []*api.POSIXRlimit{nil}
				a.Hooks = &api.Hooks{Prestart: []*api.Hook{nil, {Path: "/x"}}}
				a.Linux = &api.LinuxContainerAdjustment{
					NetDevices:    map[string]*api.LinuxNetDevice{"nil": nil, "-gone": nil, "eth1": {Name: "x"}},
					SeccompPolicy: &api.LinuxSeccomp{Syscalls: []*api.LinuxSyscall{nil, {Action: "x", Args: []*api.LinuxSeccompArg{nil}}}},
				}
			})
			rpl.Update = []*api.ContainerUpdate{nil, updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) }), updateOf("", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) })}
			rpl.Evict = []*api.ContainerEviction{nil, {ContainerId: "other"}, {Reason: "nobody"}}
			return rpl
		}, merge.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := adjusting(func(a *api.ContainerAdjustment) {
			a.Env = []*api.KeyValue{{Key: "X"}, {Key: "Y"}}
			a.Hooks = &api.Hooks{Prestart: []*api.Hook{{Path: "/x"}}}
			a.Linux = &api.LinuxContainerAdjustment{
				NetDevices:    map[string]*api.LinuxNetDevice{"-gone": {}, "eth1": {Name: "x"}},
				SeccompPolicy: &api.LinuxSeccomp{Syscalls: []*api.LinuxSyscall{{Action: "x"}}},
			}
		})
		want.Update = []*api.ContainerUpdate{updateOf("other", func(u *api.ContainerUpdate) { u.SetLinuxCPUShares(1) })}
		want.Evict = []*api.ContainerEviction{{ContainerId: "other"}}
		if diff := cmp.Diff(want, res.Reply, protocmp.Transform()); diff != "" {
			t.Errorf("%d members (-want +got):\n%s", len(members), diff)
		}
	}
}
