package main

import (
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// rolesOf turns the roles of the configuration, which has been validated, into the admin socket's.
func rolesOf(spec policy.RolesSpec) admin.Roles {
	return admin.Roles{View: membersOf(spec.View), Operate: membersOf(spec.Operate), Admin: membersOf(spec.Admin)}
}

func membersOf(list []string) admin.Members {
	var out admin.Members
	for _, member := range list {
		id, group, err := policy.ParseMember(member)
		switch {
		case err != nil: // not a member, and so nobody
		case group:
			out.GIDs = append(out.GIDs, id)
		default:
			out.UIDs = append(out.UIDs, id)
		}
	}
	return out
}
