package main

import (
	"fmt"
	"os/user"
	"slices"
	"strconv"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// account is who a manifest asks to run as, in numbers; nil is what it does not name.
type account struct {
	uid, gid *uint32
	groups   []uint32
}

// applyAccount lets the plugin run as the user and the groups that its manifest names. Groups alone leave the user as it is: the
// profile's. Only here is known which numbers the names have on this node, so what must never be root is judged once more.
func applyAccount(c *isolation.Confinement, p *policy.Plugin) error {
	who, err := lookUpAccount(&p.Spec.Sandbox)
	if err != nil {
		return err
	}
	switch {
	case who.uid == nil && who.gid == nil && len(who.groups) == 0:
	case who.uid == nil && c.OwnUser:
		c.OwnGroups = &isolation.Groups{GID: who.gid, Supplementary: who.groups}
	default:
		u := isolation.User{Groups: who.groups} // only root can change groups, and stays root
		if who.uid != nil {
			u.UID = *who.uid
		}
		if who.gid != nil {
			u.GID = *who.gid
		}
		c.User, c.OwnUser = &u, false
		if u.UID != 0 {
			c.Capabilities = nil // another user has what is added, and nothing else
		}
	}
	if p.NeverRoot && isRoot(c) {
		return fmt.Errorf("sandbox: user %q with group %q and supplementalGroups %q is root or in its group on this node, and the minimum profile of team %s is strict: "+
			"leave them out, or name others", p.Spec.Sandbox.User, p.Spec.Sandbox.Group, p.Spec.Sandbox.SupplementalGroups, p.Team)
	}
	return nil
}

// isRoot tells whether the plugin may be root, or in the group of root.
func isRoot(c *isolation.Confinement) bool {
	switch {
	case c.OwnGroups != nil:
		return c.OwnGroups.GID != nil && *c.OwnGroups.GID == 0 || slices.Contains(c.OwnGroups.Supplementary, 0)
	case c.User != nil:
		return c.User.UID == 0 || c.User.GID == 0 || slices.Contains(c.User.Groups, 0)
	default:
		return !c.OwnUser
	}
}

// lookUpAccount turns names of users and groups into numbers.
func lookUpAccount(s *policy.SandboxSpec) (account, error) {
	var out account
	if s.User != "" {
		uid, gid, err := userID(s.User)
		if err != nil {
			return out, err
		}
		out.uid, out.gid = &uid, &gid
	}
	if s.Group != "" {
		gid, err := groupID(s.Group)
		if err != nil {
			return out, err
		}
		out.gid = &gid
	}
	for _, name := range s.SupplementalGroups {
		gid, err := groupID(name)
		if err != nil {
			return out, err
		}
		out.groups = append(out.groups, gid)
	}
	return out, nil
}

// userID is a user and its primary group; a number without an account has the group of the same number.
func userID(name string) (uid, gid uint32, err error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		if u, err := user.LookupId(strconv.FormatUint(n, 10)); err == nil {
			if g, err := strconv.ParseUint(u.Gid, 10, 32); err == nil {
				return uint32(n), uint32(g), nil
			}
		}
		return uint32(n), uint32(n), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fmt.Errorf("sandbox.user %q: no such user on this node", name)
	}
	n, err1 := strconv.ParseUint(u.Uid, 10, 32)
	g, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("sandbox.user %q: user %q and group %q are no numbers", name, u.Uid, u.Gid)
	}
	return uint32(n), uint32(g), nil
}

func groupID(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("sandbox: group %q: no such group on this node", name)
	}
	n, err := strconv.ParseUint(g.Gid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("sandbox: group %q: %q is no number", name, g.Gid)
	}
	return uint32(n), nil
}
