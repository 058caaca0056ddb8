package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestTheCapabilitiesOfManifestsAreThoseThatAreApplied(t *testing.T) {
	t.Parallel()
	applied := isolation.Capabilities()
	slices.Sort(applied)
	if diff := cmp.Diff(applied, policy.CapabilityNames()); diff != "" {
		t.Error(diff)
	}
}

func TestSecurityTellsHowToLowerWhatIsNotSealed(t *testing.T) {
	t.Parallel()
	strict, standard := isolation.Strict([]string{"/run/x"}), isolation.Standard([]string{"/run/x"})
	strict.Limits = isolation.Limits{Memory: 1 << 30, CPU: 1000, PIDs: 100}
	for name, tt := range map[string]struct {
		c       isolation.Confinement
		kernel  int // its version of Landlock
		exposed []string
		limited []string
	}{
		"none": {isolation.Confinement{}, 7, []string{
			"user", "capabilities", "files", "runtimes' sockets", "other processes", "system calls", "memory", "processor", "processes",
		}, []string{"network"}},
		"standard":                  {standard, 7, []string{"user", "memory", "processor", "processes"}, []string{"capabilities", "files", "network"}},
		"standard on Linux 6.1":     {standard, 2, []string{"user", "other processes", "memory", "processor", "processes"}, []string{"capabilities", "files", "network"}},
		"standard without Landlock": {standard, 0, []string{"user", "other processes", "memory", "processor", "processes"}, []string{"capabilities", "files", "network"}},
		"strict with limits":        {strict, 0, nil, nil},
	} {
		var exposedNow, limitedNow []string
		for _, f := range freedoms(&tt.c, tt.kernel) {
			switch f.Exposure {
			case exposed:
				exposedNow = append(exposedNow, f.What)
			case limited:
				limitedNow = append(limitedNow, f.What)
			case sealed:
			}
			if (f.Lower == "") != (f.Exposure == sealed) || f.May == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if diff := cmp.Diff(tt.exposed, exposedNow) + cmp.Diff(tt.limited, limitedNow); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatAManifestChangesIsAppliedOrThePluginDoesNotStart(t *testing.T) {
	t.Parallel()
	spec, _ := policy.DefaultSpecs()
	asRoot := true
	of := func(change func(*policy.Plugin)) isolation.Confinement {
		_, plugin := policy.DefaultSpecs()
		p := &policy.Plugin{Name: "p", Spec: plugin}
		change(p)
		confine := newConfinements(&spec)
		confine.root = asRoot
		c, err := confine.of(p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := of(func(*policy.Plugin) {}); len(c.Optional) != 3 || slices.Contains(c.Optional, isolation.PartCgroup) || !c.Cgroup || !c.TrustFile {
		t.Errorf("the default profile: optional %v, a cgroup %v, trusts only %v", c.Optional, c.Cgroup, c.TrustFile)
	}
	asRoot = false
	if c := of(func(*policy.Plugin) {}); !slices.Contains(c.Optional, isolation.PartCgroup) {
		t.Errorf("who is not root has to have cgroups: optional %v", c.Optional)
	}
	asRoot = true
	if c := of(func(p *policy.Plugin) { p.ProfileWritten, p.Spec.Sandbox.Profile = true, policy.ProfileNone }); !c.Cgroup || c.OOMScore == 0 ||
		!slices.Equal(c.Optional, []isolation.Part{isolation.PartCgroup}) {
		t.Errorf("none: something of it could survive, or outlive the supervisor in want of memory: %+v", c)
	}
	if c := of(func(p *policy.Plugin) { p.ProfileWritten = true }); len(c.Optional) != 0 {
		t.Errorf("a written profile has optional parts: %v", c.Optional)
	}
	c := of(func(p *policy.Plugin) {
		p.Spec.Sandbox.Capabilities = policy.CapabilitiesSpec{Add: []string{"NET_ADMIN"}, Drop: []string{"ALL"}}
		p.Spec.Sandbox.ReadWritePaths = []string{"/etc/cdi"}
	})
	if diff := cmp.Diff([]string{"NET_ADMIN"}, c.Capabilities); diff != "" {
		t.Error(diff)
	}
	if slices.Contains(c.Optional, isolation.PartCapabilities) || slices.Contains(c.Optional, isolation.PartMounts) {
		t.Errorf("what the manifest asks for is optional: %v", c.Optional)
	}
	if c := of(func(p *policy.Plugin) { p.Spec.Sandbox.Profile = policy.ProfileStrict }); !c.NoNetwork || !c.OwnUser || len(c.Capabilities) > 0 {
		t.Errorf("strict: %+v", c)
	}
}
