package merge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// realPlugin makes a plugin whose reply depends on what the ones before it did: it counts what it sees, takes away and sets anew, and sizes limits by what they are.
func realPlugin(name string, seed uint64) func(*api.CreateContainerRequest) *api.CreateContainerResponse {
	return func(req *api.CreateContainerRequest) *api.CreateContainerResponse {
		r := rand.New(rand.NewPCG(seed, 21))
		some := func() bool { return r.IntN(3) == 0 }
		c, a := req.GetContainer(), &api.ContainerAdjustment{}
		rpl := &api.CreateContainerResponse{Adjust: a}
		a.AddEnv("SEEN_"+name, fmt.Sprint(len(c.GetEnv()), len(c.GetMounts()), c.GetLinux().GetResources().GetMemory().GetLimit().GetValue()))
		if env := c.GetEnv(); some() && len(env) > 0 { // the last one, which an earlier plugin may have set: away with it, or in another form
			key, value, _ := strings.Cut(env[len(env)-1], "=")
			a.RemoveEnv(key)
			if some() {
				a.AddEnv(key, value+"+"+name)
			}
		}
		if m := c.GetMounts(); some() && len(m) > 0 {
			last := m[len(m)-1]
			a.RemoveMount(last.GetDestination())
			if some() {
				a.AddMount(&api.Mount{Source: last.GetSource() + "/" + name, Destination: last.GetDestination(), Type: "bind", Options: []string{"rbind"}})
			}
		}
		if some() {
			a.AddMount(&api.Mount{Source: "/s/" + name, Destination: "/m/" + name, Type: "bind", Options: []string{"rbind", "ro"}})
		}
		if some() {
			if _, has := c.GetAnnotations()["a"]; has { // the container's own
				a.RemoveAnnotation("a")
			}
			a.AddAnnotation("by-"+name, fmt.Sprint(len(c.GetMounts())))
		}
		if some() { // collides with whoever does so as well
			a.SetLinuxMemoryLimit(c.GetLinux().GetResources().GetMemory().GetLimit().GetValue() + 4096)
		}
		if some() {
			a.AddHooks(&api.Hooks{Prestart: []*api.Hook{{Path: "/hook/" + name, Args: []string{fmt.Sprint(len(c.GetHooks().GetPrestart()))}}}})
		}
		if some() {
			a.UpdateArgs(append([]string{"/wrap-" + name}, c.GetArgs()...))
		}
		if some() {
			a.AddDevice(&api.LinuxDevice{Path: "/dev/" + name, Type: "c", Major: 1, Minor: int64(len(c.GetLinux().GetDevices()))})
		}
		if some() {
			u := &api.ContainerUpdate{}
			u.SetContainerId([]string{"other1", "other2"}[r.IntN(2)])
			u.SetLinuxCPUShares(uint64(2 + len(c.GetEnv())))
			if some() {
				u.SetLinuxPidLimits(int64(10 + len(c.GetMounts())))
			}
			rpl.Update = append(rpl.Update, u)
		}
		return rpl
	}
}

// TestRealPluginsEndAsTheyWouldAttachedDirectly: plugins that read what earlier ones changed, some hosted and some beside the supervisor, end in the OCI spec and the updates
// that they would end in attached directly; where they collide, without the loser.
func TestRealPluginsEndAsTheyWouldAttachedDirectly(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	tally := map[string]int{}
	for seed := range uint64(cases) {
		differPlugins(t, e, seed, tally)
	}
	t.Logf("%v", tally)
	for _, happened := range []string{"compared", "compared beside others", "dropped"} {
		if tally[happened] < cases/50 {
			t.Errorf("only %d times %s in %d cases: the test does not test", tally[happened], happened, cases)
		}
	}
}

// FuzzRealPlugins is the same for whatever seeds are tried, and checks that the same plugins give the same bytes.
func FuzzRealPlugins(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, seed uint64) { differPlugins(t, e, seed, map[string]int{}) })
}

func differPlugins(t *testing.T, e *merge.Engine, seed uint64, tally map[string]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 22))
	own := newCreate()
	react := func(name string) attached { return attached{name: name, react: realPlugin(name, r.Uint64())} }
	var before, after []attached
	if r.IntN(2) == 0 {
		before, after = []attached{react("first")}, []attached{react("last")}
	}
	var hosted []attached
	for _, m := range serial("a", "b", "c", "d")[:2+r.IntN(3)] {
		hosted = append(hosted, react(m.Name))
	}

	// What the supervisor's plugins are asked is what the runtime's first plugin left.
	var dropped []int
	supervise := func(req *api.CreateContainerRequest) *api.CreateContainerResponse {
		var bytes [2]string
		var rpl *api.CreateContainerResponse
		for n := range bytes {
			members := serial("a", "b", "c", "d")[:len(hosted)]
			res, err := e.CreateContainer(t.Context(), members, req, func(_ context.Context, m int, view *api.CreateContainerRequest) *api.CreateContainerResponse {
				return hosted[m].react(view)
			}, merge.CreateOptions{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			dropped = dropped[:0]
			for _, d := range res.Dropped {
				dropped = append(dropped, d.Member)
			}
			rpl = res.Reply
			bytes[n] = encode(t, rpl)
		}
		if bytes[0] != bytes[1] {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		return rpl
	}
	ours := stock(t, slices.Concat(before, []attached{{name: "supervisor", react: supervise}}, after), own, nil, nil)
	var surviving []attached
	for i, p := range hosted {
		if !slices.Contains(dropped, i) {
			surviving = append(surviving, p)
		}
	}
	tally["dropped"] += len(dropped)
	theirs := stock(t, slices.Concat(before, surviving, after), own, nil, nil)
	switch {
	case theirs.err != nil:
		return // somebody collides with a plugin of the runtime: so it would without us
	case ours.err != nil:
		t.Fatalf("seed %d: beside other plugins there is a conflict that there would not be without us: %v", seed, ours.err)
	}
	tally["compared"]++
	if before != nil {
		tally["compared beside others"]++
	}
	if diff := gocmp.Diff(ociSpec(t, own.GetContainer(), ours.create.GetAdjust()), ociSpec(t, own.GetContainer(), theirs.create.GetAdjust())); diff != "" {
		t.Fatalf("seed %d: OCI spec (-ours +stock):\n%s", seed, diff)
	}
	if diff := diffUpdates(strip(ours.create.GetUpdate()), strip(theirs.create.GetUpdate())); diff != "" {
		t.Fatalf("seed %d: updates (-ours +stock):\n%s", seed, diff)
	}
}
