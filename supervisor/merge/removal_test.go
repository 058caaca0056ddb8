package merge_test

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// TestRemovalsReachTheRuntime says for each kind of entry what the outer reply holds.
func TestRemovalsReachTheRuntime(t *testing.T) {
	t.Parallel()
	type change = func(*api.ContainerAdjustment)
	nothing := func(*api.ContainerAdjustment) {}
	for _, kind := range []struct {
		name        string
		remove, set change
		replace     change // remove and set in one reply
		again       change // the same set by somebody else, to tell the values apart
		replaced    change // what is left of again when it replaced something
	}{
		{
			name:    "env",
			remove:  func(a *api.ContainerAdjustment) { a.RemoveEnv("A") },
			set:     func(a *api.ContainerAdjustment) { a.AddEnv("A", "1") },
			replace: func(a *api.ContainerAdjustment) { a.RemoveEnv("A"); a.AddEnv("A", "2") },
			again:   func(a *api.ContainerAdjustment) { a.AddEnv("A", "2") },
		},
		{
			name:   "mounts",
			remove: func(a *api.ContainerAdjustment) { a.RemoveMount("/a") },
			set:    func(a *api.ContainerAdjustment) { a.AddMount(&api.Mount{Destination: "/a", Source: "1"}) },
			replace: func(a *api.ContainerAdjustment) {
				a.RemoveMount("/a")
				a.AddMount(&api.Mount{Destination: "/a", Source: "2"})
			},
			again: func(a *api.ContainerAdjustment) { a.AddMount(&api.Mount{Destination: "/a", Source: "2"}) },
		},
		{
			name:   "devices",
			remove: func(a *api.ContainerAdjustment) { a.RemoveDevice("/dev/a") },
			set:    func(a *api.ContainerAdjustment) { a.AddDevice(&api.LinuxDevice{Path: "/dev/a", Major: 1}) },
			replace: func(a *api.ContainerAdjustment) {
				a.RemoveDevice("/dev/a")
				a.AddDevice(&api.LinuxDevice{Path: "/dev/a", Major: 2})
			},
			again: func(a *api.ContainerAdjustment) { a.AddDevice(&api.LinuxDevice{Path: "/dev/a", Major: 2}) },
		},
		{
			name:    "annotations",
			remove:  func(a *api.ContainerAdjustment) { a.RemoveAnnotation("a") },
			set:     func(a *api.ContainerAdjustment) { a.AddAnnotation("a", "1") },
			replace: func(a *api.ContainerAdjustment) { a.RemoveAnnotation("a"); a.AddAnnotation("a", "2") },
			again:   func(a *api.ContainerAdjustment) { a.AddAnnotation("a", "2") },
		},
		{
			name:    "sysctl",
			remove:  func(a *api.ContainerAdjustment) { removeSysctl(a, "net.a") },
			set:     func(a *api.ContainerAdjustment) { a.SetLinuxSysctl("net.a", "1") },
			replace: func(a *api.ContainerAdjustment) { removeSysctl(a, "net.a"); a.SetLinuxSysctl("net.a", "2") },
			again:   func(a *api.ContainerAdjustment) { a.SetLinuxSysctl("net.a", "2") },
		},
		{
			name:   "net devices",
			remove: func(a *api.ContainerAdjustment) { a.RemoveLinuxNetDevice("eth0") },
			set:    func(a *api.ContainerAdjustment) { a.AddLinuxNetDevice("eth0", &api.LinuxNetDevice{Name: "1"}) },
			replace: func(a *api.ContainerAdjustment) {
				a.RemoveLinuxNetDevice("eth0")
				a.AddLinuxNetDevice("eth0", &api.LinuxNetDevice{Name: "2"})
			},
			again: func(a *api.ContainerAdjustment) { a.AddLinuxNetDevice("eth0", &api.LinuxNetDevice{Name: "2"}) },
		},
		{
			name:    "args",
			remove:  func(a *api.ContainerAdjustment) { a.Args = []string{""} },
			set:     func(a *api.ContainerAdjustment) { a.SetArgs([]string{"1"}) },
			replace: func(a *api.ContainerAdjustment) { a.UpdateArgs([]string{"2"}) },
			again:   func(a *api.ContainerAdjustment) { a.SetArgs([]string{"2"}) },
		},
		{
			name:    "rdt",
			remove:  func(a *api.ContainerAdjustment) { a.RemoveLinuxRDT() },
			set:     func(a *api.ContainerAdjustment) { a.SetLinuxRDTClosID("1") },
			replace: func(a *api.ContainerAdjustment) { a.RemoveLinuxRDT(); a.SetLinuxRDTClosID("2") },
			again:   func(a *api.ContainerAdjustment) { a.SetLinuxRDTClosID("2") },
			// A removal is about all of RDT, also what neither of them set.
			replaced: func(a *api.ContainerAdjustment) { a.RemoveLinuxRDT(); a.SetLinuxRDTClosID("2") },
		},
	} {
		if kind.replaced == nil {
			kind.replaced = kind.again
		}
		for _, tc := range []struct {
			name          string
			first, second change
			want          change
		}{
			{"what the container has is removed", kind.remove, nothing, kind.remove},
			{"what the container has is replaced", kind.replace, nothing, kind.replace},
			{"what a member set is removed by another", kind.set, kind.remove, kind.remove},
			{"what a member set is replaced by another", kind.set, kind.replace, kind.replaced},
			{"what a member replaced is removed by another", kind.replace, kind.remove, kind.remove},
			{"two members remove the same", kind.remove, kind.remove, kind.remove},
			{"what a member set stays", kind.set, nothing, kind.set},
		} {
			t.Run(kind.name+": "+tc.name, func(t *testing.T) {
				t.Parallel()
				res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{adjusting(tc.first), adjusting(tc.second)}, merge.CreateOptions{})
				if len(res.Dropped) > 0 {
					t.Fatalf("dropped: %v", res.Dropped)
				}
				if diff := cmp.Diff(adjusting(tc.want), res.Reply, protocmp.Transform()); diff != "" {
					t.Errorf("outer reply (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func removeSysctl(a *api.ContainerAdjustment, key string) {
	a.SetLinuxSysctl(api.MarkForRemoval(key), "")
}

// TestAHostedPluginReplacesWhatAnotherPluginOfTheRuntimeSet is what the
// removals in the outer reply are for.
func TestAHostedPluginReplacesWhatAnotherPluginOfTheRuntimeSet(t *testing.T) {
	t.Parallel()
	first := attached{name: "first", create: adjusting(func(a *api.ContainerAdjustment) {
		a.AddEnv("X", "first")
		a.AddMount(&api.Mount{Destination: "/x", Source: "/first"})
		a.AddDevice(&api.LinuxDevice{Path: "/dev/x", Major: 1})
		a.SetArgs([]string{"first"})
		a.AddAnnotation("x", "first")
		a.SetLinuxSysctl("x", "first")
		a.SetLinuxRDTSchemata([]string{"first"})
	})}
	ours := adjusting(func(a *api.ContainerAdjustment) {
		a.RemoveEnv("X")
		a.AddEnv("X", "ours")
		a.RemoveMount("/x")
		a.AddMount(&api.Mount{Destination: "/x", Source: "/ours"})
		a.RemoveDevice("/dev/x")
		a.AddDevice(&api.LinuxDevice{Path: "/dev/x", Major: 2})
		a.UpdateArgs([]string{"ours"})
		a.RemoveAnnotation("x")
		a.AddAnnotation("x", "ours")
		removeSysctl(a, "x")
		a.SetLinuxSysctl("x", "ours")
		a.RemoveLinuxRDT()
		a.SetLinuxRDTClosID("ours")
	})
	req := stock(t, []attached{first}, newCreate(), nil, nil).viewsCreate[1]
	res := create(t, newEngine(t), serial("a", "b"), req, createReplies{ours, env("Y", "1")}, merge.CreateOptions{})
	out := stock(t, []attached{first, {name: "supervisor", create: res.Reply}}, newCreate(), nil, nil)
	if out.err != nil {
		t.Fatalf("the runtime refuses: %v", out.err)
	}
	got := out.create.GetAdjust()
	if got.GetEnv()[0].GetValue() != "ours" || got.GetMounts()[0].GetSource() != "/ours" || got.GetArgs()[0] != "ours" ||
		got.GetLinux().GetDevices()[0].GetMajor() != 2 || got.GetAnnotations()["x"] != "ours" || got.GetLinux().GetSysctl()["x"] != "ours" ||
		got.GetLinux().GetRdt().GetClosId().GetValue() != "ours" || got.GetLinux().GetRdt().GetSchemata() != nil {
		t.Errorf("the runtime ends with %v", got)
	}
}

func TestRemovedMountsAreSortedAndComeFirst(t *testing.T) {
	t.Parallel()
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), createReplies{
		adjusting(func(a *api.ContainerAdjustment) {
			a.AddMount(&api.Mount{Destination: "/z"})
			a.RemoveMount("/r3")
			a.RemoveMount("/r1")
			a.RemoveMount("/r2")
		}),
		adjusting(func(a *api.ContainerAdjustment) {
			a.RemoveMount("/r0")
			a.AddMount(&api.Mount{Destination: "/y"})
		}),
	}, merge.CreateOptions{})
	var got []string
	for _, m := range res.Reply.GetAdjust().GetMounts() {
		got = append(got, m.GetDestination())
	}
	if diff := cmp.Diff([]string{"-/r0", "-/r1", "-/r2", "-/r3", "/z", "/y"}, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

// TestArgsThatBeginWithNothingAreNotTakenForAReplacement: after the marker, a
// first argument may itself be empty.
func TestArgsThatBeginWithNothingAreNotTakenForAReplacement(t *testing.T) {
	t.Parallel()
	replies := createReplies{
		adjusting(func(a *api.ContainerAdjustment) { a.Args = []string{"x"} }),
		adjusting(func(a *api.ContainerAdjustment) { a.Args = []string{"", "", "y"} }),
	}
	res := create(t, newEngine(t), serial("a", "b"), newCreate(), replies, merge.CreateOptions{})
	if diff := cmp.Diff([]string{"", "", "y"}, res.Reply.GetAdjust().GetArgs()); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}
