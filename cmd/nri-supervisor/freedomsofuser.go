package main

import (
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

const (
	withoutGroups  = "sandbox without group and supplementalGroups"
	withoutAdded   = "sandbox: {capabilities: {add: []}}"
	capabilityHead = "CAP_"
)

// userOf is who the plugin runs as, and in which groups.
func userOf(c *isolation.Confinement) freedom {
	root := freedom{"user", "the supervisor's, usually root", exposed, "sandbox: {user: NAME}, or {profile: strict}"}
	out := freedom{What: "user", May: "one of its own", Exposure: sealed}
	groups := groupsOf(c)
	switch {
	case !c.OwnUser && c.User == nil:
		return root
	case c.OwnUser && len(groups) > 0:
		out.Exposure, out.Lower = limited, withoutGroups
	case c.OwnUser:
	case c.User.UID == 0:
		out, out.May = root, "root"
	default:
		out = freedom{"user", strconv.FormatUint(uint64(c.User.UID), 10), limited, toStrict}
	}
	if len(groups) > 0 {
		out.May += ", " + strings.Join(groups, ", ")
	}
	if out.Exposure != exposed && len(powerfulGroups(c)) > 0 {
		out.Exposure, out.Lower = exposed, withoutGroups
	}
	if changed := holdsOf(c, "SETUID", "SETGID"); len(changed) > 0 && out.Exposure != exposed {
		out.May += ", and any other, root too (" + strings.Join(changed, ", ") + ")"
		if !slices.Contains(changed, "SETUID") {
			out.May = strings.Replace(out.May, "any other, root too", "any other group, root's too", 1)
		}
		out.Exposure, out.Lower = exposed, withoutAdded
	}
	return out
}

// groupsOf are the groups that a manifest gives, each with its name on this node: the group, then the supplementary ones.
func groupsOf(c *isolation.Confinement) []string {
	var out, others []string
	first, more := groupNumbers(c)
	for _, gid := range first {
		out = append(out, "group "+groupName(gid))
	}
	for _, gid := range more {
		others = append(others, groupName(gid))
	}
	if len(others) > 0 {
		out = append(out, "groups "+strings.Join(others, " "))
	}
	return out
}

// groupNumbers are the group, if there is a given one, and the supplementary ones.
func groupNumbers(c *isolation.Confinement) (group, supplementary []uint32) {
	switch {
	case c.User != nil:
		return []uint32{c.User.GID}, c.User.Groups
	case c.OwnGroups == nil:
		return nil, nil
	case c.OwnGroups.GID == nil:
		return nil, c.OwnGroups.Supplementary
	default:
		return []uint32{*c.OwnGroups.GID}, c.OwnGroups.Supplementary
	}
}

// powerfulGroups are those of the plugin's groups whose members read or change what is root's: disks, secrets, runtimes.
func powerfulGroups(c *isolation.Confinement) []string {
	powerful := []string{"root", "disk", "shadow", "kmem", "docker", "lxd", "incus", "incus-admin", "libvirt", "sudo", "wheel"}
	first, more := groupNumbers(c)
	var out []string
	for _, gid := range slices.Concat(first, more) {
		name := groupName(gid)
		known := slices.ContainsFunc(powerful, func(p string) bool { return strings.HasSuffix(name, "("+p+")") })
		if gid == 0 || known {
			out = append(out, name)
		}
	}
	return out
}

// groupName is the number of a group, and its name if this node has one.
func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return fmt.Sprintf("%s (%s)", id, g.Name)
	}
	return id
}

// capabilitiesOf are those that the plugin has, with a word on each with which it can do harm to the node.
func capabilitiesOf(c *isolation.Confinement) freedom {
	const what = "capabilities"
	switch {
	case !c.CutCapabilities && (c.User == nil || c.User.UID == 0):
		return freedom{what, "all of the supervisor's", exposed, toStandard}
	case !c.CutCapabilities:
		return freedom{what, "none, but for those of setuid programs that it executes", limited, toStandard}
	case len(c.Capabilities) == 0:
		return freedom{What: what, May: "none", Exposure: sealed}
	}
	out := freedom{What: what, Exposure: limited, Lower: "sandbox: {capabilities: {drop: [ALL]}}"}
	var list []string
	keys := masterKeys()
	if c.NoNetwork {
		delete(keys, "NET_RAW") // of its own empty network
	}
	for _, name := range c.Capabilities {
		name = strings.TrimPrefix(name, capabilityHead)
		gives, isKey := keys[name]
		if isKey {
			name += " (" + gives + ")"
			out.Exposure, out.Lower = exposed, withoutAdded
		}
		list = append(list, name)
	}
	out.May = strings.Join(list, ", ")
	return out
}

// masterKeys are the capabilities with which a plugin harms the node or other programs whatever else is taken from it, and what each gives, capabilities(7).
func masterKeys() map[string]string {
	return map[string]string{
		"AUDIT_CONTROL":      "what the kernel audits",
		"BPF":                "programs in the kernel",
		"CHECKPOINT_RESTORE": "processes' memory and numbers",
		"DAC_READ_SEARCH":    "reads each file, hidden ones too",
		"KILL":               "signals to processes of each user",
		"LINUX_IMMUTABLE":    "files that nobody can change",
		"MAC_ADMIN":          "the rules of SELinux, AppArmor or Smack",
		"MAC_OVERRIDE":       "beyond the rules of Smack",
		"MKNOD":              "makes files of each device",
		"NET_ADMIN":          "network settings, sockets of all families",
		"NET_RAW":            "reads and forges the node's traffic",
		"PERFMON":            "measures and looks into each process and the kernel",
		"SETFCAP":            "makes programs privileged",
		"SETGID":             "enters each group",
		"SETPCAP":            "hands its capabilities to what it executes",
		"SETUID":             "becomes each user, root too",
		"SYS_ADMIN":          "mounts, and most of what root may",
		"SYS_BOOT":           "restarts the node, or another kernel",
		"SYS_MODULE":         "code in the kernel",
		"SYS_NICE":           "slows down other processes",
		"SYS_PACCT":          "records what processes are executed",
		"SYS_PTRACE":         "other processes' memory",
		"SYS_RAWIO":          "hardware and the kernel's memory",
		"SYS_RESOURCE":       "exceeds limits and quotas",
		"SYS_TIME":           "sets the node's clock",
		"SYS_TTY_CONFIG":     "the consoles",
		"SYSLOG":             "the kernel's messages and addresses",
	}
}

// holdsOf are those of the names that the plugin has as capabilities.
func holdsOf(c *isolation.Confinement, names ...string) []string {
	var out []string
	for _, name := range names {
		if slices.ContainsFunc(c.Capabilities, func(has string) bool { return strings.TrimPrefix(has, capabilityHead) == name }) {
			out = append(out, name)
		}
	}
	return out
}

// perProcess are the limits of setrlimit(2).
func perProcess(c *isolation.Confinement) freedom {
	out := []string{"core 0", "nofile 1024, can be raised"}
	if c.NoFile > 0 {
		out[1] = fmt.Sprintf("nofile %d", c.NoFile)
	}
	for _, l := range c.RLimits {
		out = append(out, fmt.Sprintf("%s %d", l.Resource, l.Value))
	}
	f := freedom{What: "limits of each process", May: strings.Join(out, ", "), Exposure: sealed}
	switch {
	case len(holdsOf(c, "SYS_RESOURCE")) > 0:
		f.May, f.Exposure, f.Lower = f.May+"; all can be raised (SYS_RESOURCE)", limited, withoutAdded
	case !c.CutCapabilities && likeRoot(c):
		f.May, f.Exposure, f.Lower = f.May+"; root can raise all", limited, toStandard
	}
	return f
}
