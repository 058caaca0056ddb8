package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// confinementOf is that of a plugin of team t with the sandbox.
func confinementOf(neverRoot bool, sandbox policy.SandboxSpec) (isolation.Confinement, error) {
	spec, plugin := policy.DefaultSpecs()
	sandbox.Seccomp, sandbox.Network = plugin.Sandbox.Seccomp, plugin.Sandbox.Network
	plugin.Sandbox = sandbox
	return newConfinements(&spec, nil).of(&policy.Plugin{Name: "p", Team: "t", NeverRoot: neverRoot, Spec: plugin})
}

func TestGroupsAloneLeaveThePluginTheUserOfItsProfile(t *testing.T) {
	t.Parallel()
	for _, s := range []policy.SandboxSpec{
		{Group: "1000"}, {SupplementalGroups: []string{"2000", "3000"}}, {Group: "1000", SupplementalGroups: []string{"2000", "3000"}},
	} {
		s.Profile = policy.ProfileStrict
		c, err := confinementOf(true, s)
		if err != nil || !c.OwnUser || c.User != nil || c.OwnGroups == nil {
			t.Errorf("strict with %+v: %+v, %v", s, c, err)
			continue
		}
		if gid := c.OwnGroups.GID; (gid != nil) != (s.Group != "") || gid != nil && *gid != 1000 {
			t.Errorf("strict with %+v has the group %v", s, gid)
		}
		if got := c.OwnGroups.Supplementary; len(got) != len(s.SupplementalGroups) || len(got) > 0 && !slices.Equal(got, []uint32{2000, 3000}) {
			t.Errorf("strict with %+v has the groups %v", s, got)
		}
		for _, f := range freedoms(&c, 7) {
			if f.What == "user" && (f.Exposure != limited || !strings.HasPrefix(f.May, "one of its own, group")) {
				t.Errorf("strict with %+v is shown as %+v", s, f)
			}
		}
		s.Profile = policy.ProfileStandard
		c, err = confinementOf(false, s)
		if err != nil || c.OwnUser || c.OwnGroups != nil || c.User == nil || c.User.UID != 0 || (c.User.GID == 1000) != (s.Group != "") ||
			len(c.User.Groups) != len(s.SupplementalGroups) || len(c.Capabilities) == 0 {
			t.Errorf("standard with %+v: %+v, %v", s, c, err)
		}
	}
	if c, err := confinementOf(true, policy.SandboxSpec{Profile: policy.ProfileStrict, User: "4000"}); err != nil || c.OwnUser || c.User == nil || c.User.UID != 4000 {
		t.Errorf("strict with a user: %+v, %v", c, err)
	}
}

func TestWhoTurnsOutToBeRootIsRefusedInATeamWhoseMinimumIsStrict(t *testing.T) {
	t.Parallel()
	// The names stand for those that only the node's accounts show to be root's.
	for _, s := range []policy.SandboxSpec{
		{User: "root"},
		{User: "0"},
		{User: "00"},
		{User: "root", Group: "1000"},
		{Group: "root"},
		{User: "1000", Group: "root"},
		{SupplementalGroups: []string{"root"}},
		{User: "1000", SupplementalGroups: []string{"0"}},
	} {
		s.Profile = policy.ProfileStrict
		if c, err := confinementOf(true, s); err == nil || !strings.Contains(err.Error(), "the minimum profile of team t is strict") {
			t.Errorf("%+v: %+v, %v", s, c, err)
		}
		if _, err := confinementOf(false, s); err != nil {
			t.Errorf("%+v without such a minimum: %v", s, err)
		}
	}
}
