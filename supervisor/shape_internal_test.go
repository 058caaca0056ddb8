package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// TestAMalformedNameOrPathIsRefusedBeforeItReachesTheRuntime, also where a glob would have let it pass: what breaks lines, ends texts or cannot be seen is no name.
func TestAMalformedNameOrPathIsRefusedBeforeItReachesTheRuntime(t *testing.T) {
	t.Parallel()
	linux := func(l *api.LinuxContainerAdjustment) *api.ContainerAdjustment {
		return &api.ContainerAdjustment{Linux: l}
	}
	hooks := func(h *api.Hook) *api.ContainerAdjustment {
		return &api.ContainerAdjustment{Hooks: &api.Hooks{Poststop: []*api.Hook{h}}}
	}
	unified := func(k string) *api.ContainerAdjustment {
		return linux(&api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Unified: map[string]string{k: "1"}}})
	}
	mount := func(m *api.Mount) *api.ContainerAdjustment { return &api.ContainerAdjustment{Mounts: []*api.Mount{m}} }
	bad := map[string]*api.ContainerAdjustment{
		"a variable with a line feed":         env("GPU_A\nLD_PRELOAD", "1"),
		"a variable with an assignment":       env("GPU_A=1", "1"),
		"a variable with a NUL":               env("GPU_\x00", "1"),
		"a variable without a name":           env("", "1"),
		"a removal of nothing":                env("-", ""),
		"a removal with a line feed":          env("-GPU_\n", ""),
		"a value with a NUL":                  env("GPU_A", "1\x00"),
		"a variable that ends a paragraph":    env("GPU_\u2029", "1"),
		"a variable with a control character": env("GPU_\u0085", "1"),
		"no variable":                         {Env: []*api.KeyValue{nil}},
		"an annotation with a line feed":      {Annotations: map[string]string{"a\nb": "1"}},
		"an annotation without a key":         {Annotations: map[string]string{"-": ""}},
		"an argument with a NUL":              {Args: []string{"a\x00"}},
		"a mount at a relative path":          mount(&api.Mount{Destination: "m"}),
		"a mount at a line feed":              mount(&api.Mount{Destination: "/m\n/etc"}),
		"a mount of a NUL":                    mount(&api.Mount{Destination: "/m", Source: "/a\x00"}),
		"a mount with a type of two lines":    mount(&api.Mount{Destination: "/m", Type: "bind\nx"}),
		"a mount with an option of two lines": mount(&api.Mount{Destination: "/m", Options: []string{"ro\n"}}),
		"a removal of a relative mount":       mount(&api.Mount{Destination: "-m"}),
		"no mount":                            mount(nil),
		"two mounts at one place":             {Mounts: []*api.Mount{{Destination: "/m"}, {Destination: "/m"}}},
		"two mounts at two spellings":         {Mounts: []*api.Mount{{Destination: "/m"}, {Destination: "/x/../m/"}}},
		"a CDI device without a name":         {CDIDevices: []*api.CDIDevice{{}}},
		"a CDI device of two lines":           {CDIDevices: []*api.CDIDevice{{Name: "a/b=c\n"}}},
		"an rlimit that is none":              {Rlimits: []*api.POSIXRlimit{{Type: "nofile"}}},
		"an rlimit without a name":            {Rlimits: []*api.POSIXRlimit{{Type: "RLIMIT_"}}},
		"an rlimit of two lines":              {Rlimits: []*api.POSIXRlimit{{Type: "RLIMIT_NOFILE\n"}}},
		"an rlimit above itself":              {Rlimits: []*api.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 2, Hard: 1}}},
		"a hook at a relative path":           hooks(&api.Hook{Path: "h"}),
		"no hook":                             hooks(nil),
		"a hook with a line feed":             hooks(&api.Hook{Path: "/h\n"}),
		"a hook with a NUL":                   hooks(&api.Hook{Path: "/h", Args: []string{"\x00"}}),
		"a hook with a variable of no name":   hooks(&api.Hook{Path: "/h", Env: []string{"=x"}}),
		"a hook with a variable of two lines": hooks(&api.Hook{Path: "/h", Env: []string{"A\nB=x"}}),
		"a hook that ends before it begins":   hooks(&api.Hook{Path: "/h", Timeout: api.Int(0)}),
		"a device at a relative path":         linux(&api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "dev/a", Type: "c"}}}),
		"a device at a line feed":             linux(&api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/a\n", Type: "c"}}}),
		"a device of no type":                 linux(&api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: "/dev/a", Type: "cb"}}}),
		"a sysctl with a blank":               linux(&api.LinuxContainerAdjustment{Sysctl: map[string]string{"a b": "1"}}),
		"a sysctl of two lines":               linux(&api.LinuxContainerAdjustment{Sysctl: map[string]string{"a\nb": "1"}}),
		"a namespace without a type":          linux(&api.LinuxContainerAdjustment{Namespaces: []*api.LinuxNamespace{{}}}),
		"a namespace at a relative path":      linux(&api.LinuxContainerAdjustment{Namespaces: []*api.LinuxNamespace{{Type: "network", Path: "proc/1/ns/net"}}}),
		"a net device of two lines":           linux(&api.LinuxContainerAdjustment{NetDevices: map[string]*api.LinuxNetDevice{"eth0": {Name: "a\n"}}}),
		"a cgroup of two lines":               linux(&api.LinuxContainerAdjustment{CgroupsPath: "/a\nb"}),
		"a cgroup file elsewhere":             unified("../memory.max"),
		"a cgroup file above":                 unified(".."),
		"a cgroup file of two lines":          unified("memory.max\n"),
		"a page size elsewhere":               linux(&api.LinuxContainerAdjustment{Resources: &api.LinuxResources{HugepageLimits: []*api.HugepageLimit{{PageSize: "../2MB"}}}}),
	}
	for name, a := range bad {
		if err := checkAdjustment(a); err == nil {
			t.Errorf("%s passes", name)
		} else if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%s: the message has it, too: %q", name, err)
		}
	}
	for _, id := range []string{"", "c\n"} {
		if checkUpdate(shares(id, 1)) == nil {
			t.Errorf("an update of container %q passes", id)
		}
	}
	good := env("GPU_A", "two\nlines", "-GPU_B", "", "näme-with.dots", "1")
	good.Mounts = []*api.Mount{{Destination: "-/m"}, {Destination: "/m", Type: "bind", Source: "/opt/a b", Options: []string{"rbind", "ro"}}, {Destination: "/n/"}}
	good.Annotations = map[string]string{"a/b": "two\nlines", "-c": ""}
	good.Rlimits = []*api.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1, Hard: 1}}
	good.Hooks = &api.Hooks{Prestart: []*api.Hook{{Path: "/h", Args: []string{"h", "two\nlines"}, Env: []string{"A=b=c"}, Timeout: api.Int(5)}}}
	good.CDIDevices = []*api.CDIDevice{{Name: "vendor.com/class=a"}}
	good.Linux = &api.LinuxContainerAdjustment{
		Sysctl: map[string]string{"net.core.somaxconn": "1", "net/ipv4/conf/eth0.1/forwarding": "1"}, Namespaces: []*api.LinuxNamespace{{Type: "network", Path: "/proc/1/ns/net"}},
		Devices:   []*api.LinuxDevice{{Path: "-/dev/b"}, {Path: "/dev/a", Type: "c"}},
		Resources: &api.LinuxResources{Unified: map[string]string{"memory.high": "1"}, HugepageLimits: []*api.HugepageLimit{{PageSize: "2MB", Limit: 1}}},
	}
	if err := checkAdjustment(good); err != nil {
		t.Errorf("a good adjustment is refused: %v", err)
	}
}

// TestAnotherSpellingOfAPathOverridesNothing: a mount at /data/ would hide what another plugin has mounted at /data, and NRI takes them for two.
func TestAnotherSpellingOfAPathOverridesNothing(t *testing.T) {
	t.Parallel()
	at := func(destinations ...string) *api.ContainerAdjustment {
		a := &api.ContainerAdjustment{}
		for _, d := range destinations {
			a.Mounts = append(a.Mounts, &api.Mount{Destination: d, Source: "/x", Type: "bind"})
		}
		return a
	}
	device := func(p string) *api.ContainerAdjustment {
		return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{{Path: p, Type: "c"}}}}
	}
	for _, tt := range []struct {
		first, second *api.ContainerAdjustment
		denied        bool
	}{
		{at("/data"), at("/data/"), true},
		{at("/data"), at("/x/../data"), true},
		{at("//data"), at("/data"), true},
		{at("/data"), at("-/./data"), true},
		{at("/data"), at("-/data"), true},
		{at("/data"), at("/data"), false}, // a conflict, which is the merge's
		{at("/data"), at("/data/sub"), false},
		{at("/data", "-/data"), at("/data/"), true}, // removed first, then set
		{at("-/data"), at("/data/"), false},
		{device("/dev/a"), device("/dev//a"), true},
		{device("/dev/a"), device("/dev/b"), false},
		{device("/dev/a"), at("/dev//a"), false},
	} {
		var s setFields
		s.add(0, "first", tt.first)
		if d := s.removedBy(1, tt.second); (len(d) > 0) != tt.denied {
			t.Errorf("%v after %v: %v", tt.second, tt.first, d)
		}
		if d := s.removedBy(0, tt.second); len(d) > 0 {
			t.Errorf("%v before %v: %v", tt.second, tt.first, d)
		}
	}
}

// TestRepliesOfTheLargestSizeAreHeldAgainstEachOtherInTime: a plugin that fills a message with mounts, or with removals, delays nobody.
func TestRepliesOfTheLargestSizeAreHeldAgainstEachOtherInTime(t *testing.T) {
	t.Parallel()
	const many = 20_000
	sets, other, removes := &api.ContainerAdjustment{}, &api.ContainerAdjustment{}, &api.ContainerAdjustment{}
	for i := range many {
		at := fmt.Sprint("/m/", i)
		sets.Mounts = append(sets.Mounts, &api.Mount{Destination: at})
		other.Mounts = append(other.Mounts, &api.Mount{Destination: "/n" + at + "/"})
		removes.Mounts = append(removes.Mounts, &api.Mount{Destination: "-/n" + at})
	}
	begin := time.Now()
	var s setFields
	s.add(0, "a", sets)
	if n := len(s.removedBy(1, other)) + len(s.removedBy(1, removes)); n != 0 {
		t.Errorf("%d are found that nobody set", n)
	}
	if n := len(s.removedBy(1, sets)); n != 0 {
		t.Errorf("%d are found that are conflicts", n)
	}
	s.add(1, "b", other)
	if n := len(s.removedBy(2, removes)); n != maxOverrides {
		t.Errorf("%d are listed", n)
	}
	if took := time.Since(begin); took > 2*time.Minute { // each against each takes longer with the race detector
		t.Errorf("it took %s", took)
	}
}
