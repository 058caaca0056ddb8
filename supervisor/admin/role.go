package admin

import (
	"fmt"
	"os"
	"slices"
)

// Role is what a peer may do. It is a closed set, in rising order: each role may do what those before it may.
type Role uint8

// The roles.
const (
	// RoleNone may do nothing.
	RoleNone Role = iota
	// RoleView may read: status, missing work, decisions, explanations.
	RoleView
	// RoleOperate may carry out actions on single plugins, change the level of the log, and record events without values.
	RoleOperate
	// RoleAdmin may do everything.
	RoleAdmin
)

// String returns "none", "view", "operate" or "admin".
func (r Role) String() string {
	switch r {
	case RoleNone:
		return "none"
	case RoleView:
		return "view"
	case RoleOperate:
		return "operate"
	case RoleAdmin:
		return "admin"
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// Members are the users and groups of a role, by their numbers.
type Members struct {
	// UIDs and GIDs are the numbers of users and groups.
	UIDs, GIDs []uint32
}

func (m Members) has(uid uint32, gids []uint32) bool {
	return slices.Contains(m.UIDs, uid) || slices.ContainsFunc(gids, func(g uint32) bool { return slices.Contains(m.GIDs, g) })
}

// Roles say who has which role. Root and the user that the supervisor runs as have RoleAdmin in any case; the zero value gives nobody else any.
type Roles struct {
	// View, Operate and Admin are the members of RoleView, RoleOperate and RoleAdmin.
	View, Operate, Admin Members
}

// of returns the highest role of a user with these groups.
func (r Roles) of(uid uint32, gids []uint32) Role {
	switch {
	case uid == 0, uid == uint32(os.Geteuid()), r.Admin.has(uid, gids): //nolint:gosec // a uid fits: it is one of uid_t
		return RoleAdmin
	case r.Operate.has(uid, gids):
		return RoleOperate
	case r.View.has(uid, gids):
		return RoleView
	default:
		return RoleNone
	}
}

// reach says who must be able to connect: nobody else, one group, or everybody, because the mode of a file has room for one group only. Who may ask for what is decided by the kernel's
// word on who connected, not by the mode.
func (r Roles) reach() (gid int, others bool) {
	gid = -1
	for _, m := range []Members{r.View, r.Operate, r.Admin} {
		for _, u := range m.UIDs {
			if u != 0 && u != uint32(os.Geteuid()) { //nolint:gosec // as above
				return -1, true
			}
		}
		for _, g := range m.GIDs {
			if gid >= 0 && uint32(gid) != g {
				return -1, true
			}
			gid = int(g)
		}
	}
	return gid, false
}
