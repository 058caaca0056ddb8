package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// freedoms are the lines of one plugin, on a kernel with a version of Landlock.
func freedoms(c *isolation.Confinement, landlock int) []freedom {
	const strict, standard = toStrict, toStandard
	pick := func(what string, ok bool, good, bad freedom) freedom {
		if ok {
			bad = good
		}
		bad.What = what
		return bad
	}
	caps := freedom{What: "capabilities", May: "none", Exposure: sealed}
	switch {
	case !c.CutCapabilities:
		caps = freedom{"capabilities", "all of the supervisor's", exposed, standard}
	case slices.ContainsFunc(c.Capabilities, func(name string) bool { return slices.Contains(masterKeys(), name) }):
		caps = freedom{"capabilities", strings.Join(c.Capabilities, ", "), exposed, "sandbox: {capabilities: {add: []}}"}
	case len(c.Capabilities) > 0:
		caps = freedom{"capabilities", strings.Join(c.Capabilities, ", "), limited, "sandbox: {capabilities: {drop: [ALL]}}"}
	}
	user := freedom{"user", "the supervisor's, usually root", exposed, "sandbox: {user: NAME}, or {profile: strict}"}
	switch {
	case c.OwnUser && c.OwnGroups != nil:
		user = freedom{"user", "one of its own" + groupsOf(c.OwnGroups), limited, "sandbox without group and supplementalGroups"}
	case c.OwnUser:
		user = freedom{What: "user", May: "one of its own", Exposure: sealed}
	case c.User != nil && c.User.UID != 0:
		user = freedom{What: "user", May: fmt.Sprintf("%d, group %d", c.User.UID, c.User.GID), Exposure: limited, Lower: strict}
	}
	limit := func(what, field string, n int64, unit, example string) freedom {
		return pick(what, n > 0, freedom{May: fmt.Sprintf("at most %d%s", n, unit), Exposure: sealed},
			freedom{"", "no limit", exposed, "resources: {limits: {" + field + ": " + example + "}}"})
	}
	return []freedom{
		user, caps, filesOf(c), diskOf(c), devicesOf(c),
		socketsOf(c),
		pick("other processes", c.Shield, shielded(c, landlock), freedom{"", "as its user may", exposed, standard}),
		pick("system calls", c.Seccomp, freedom{May: "filtered", Exposure: sealed}, freedom{"", "all", exposed, "sandbox: {seccomp: default}, with profile standard or strict"}),
		pick("network", c.NoNetwork, freedom{May: "none", Exposure: sealed}, freedom{"", "the host's", limited, "sandbox: {network: none}"}),
		limit("memory", "memory", c.Limits.Memory, " bytes", "128Mi"),
		limit("processor", "cpu", c.Limits.CPU, "m", "500m"),
		limit("processes", "pids", c.Limits.PIDs, "", "64"),
		{What: "limits of each process", May: perProcess(c), Exposure: sealed},
		cgroupOf(c), survivorsOf(c),
	}
}

const (
	toStandard = "sandbox: {profile: standard}"
	toStrict   = "sandbox: {profile: strict}"
	unlisted   = "sandbox: {readWritePaths: []}"
)

// cgroupOf is whose cgroup the plugin is in.
func cgroupOf(c *isolation.Confinement) freedom {
	switch {
	case c.Limits != isolation.Limits{}, c.Cgroup && !slices.Contains(c.Optional, isolation.PartCgroup):
		return freedom{What: "cgroup", May: "one of its own, below the supervisor's", Exposure: sealed}
	case c.Cgroup:
		return freedom{"cgroup", "one of its own, if this host has cgroups", limited, toStandard}
	default:
		return freedom{"cgroup", "the supervisor's", exposed, toStandard}
	}
}

// survivorsOf is what can be left of the plugin when it has ended.
func survivorsOf(c *isolation.Confinement) freedom {
	out := cgroupOf(c)
	out.What = "survivors"
	switch out.Exposure {
	case sealed:
		out.May = "none: its cgroup is killed at its end and at the supervisor's"
	case limited:
		out.May = "none, if it has a cgroup"
	case exposed:
		out.May = "processes that it started in a session of their own"
	}
	return out
}

// masterKeys are the capabilities with which a plugin is root on the node whatever else is taken from it.
func masterKeys() []string {
	return []string{"SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "BPF", "DAC_READ_SEARCH"}
}

// socketsOf is which of the hidden sockets and folders the plugin sees after all.
func socketsOf(c *isolation.Confinement) freedom {
	const what = "runtimes' sockets"
	if len(c.Hide) == 0 {
		return freedom{what, "can connect as its user may", exposed, toStandard}
	}
	var seen []string
	for _, path := range slices.Concat(c.ReadOnly, c.ReadWrite) {
		hidden := slices.ContainsFunc(c.Hide, func(dir string) bool { return within(path, dir) || within(resolved(path), resolved(dir)) })
		if hidden && !slices.Contains(seen, path) {
			seen = append(seen, path)
		}
	}
	if len(seen) > 0 {
		return freedom{what, "hidden, but for " + strings.Join(seen, ", "), exposed, "sandbox without " + strings.Join(seen, ", ")}
	}
	return freedom{What: what, May: "hidden", Exposure: sealed}
}

// resolved is the path without links, or as it is if there is nothing.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// filesOf is what the plugin may do with files.
func filesOf(c *isolation.Confinement) freedom {
	written := slices.DeleteFunc(slices.Clone(c.ReadWrite), func(path string) bool { return within(path, "/dev") })
	out := freedom{"files", "all that its user may", exposed, toStandard}
	switch {
	case c.ConfineFiles && len(written) > 0:
		out = freedom{"files", "reads the system's, writes its own" + listed(written), limited, unlisted}
	case c.ConfineFiles:
		out = freedom{What: "files", May: "reads the system's, writes its own", Exposure: sealed}
	case len(c.Protect) > 0:
		out = freedom{"files", "all but writing to " + c.Protect[0] + ", " + c.Protect[1] + " and the like" + writable(written), limited, toStrict}
	}
	return out
}

// diskOf is how much of the host's file systems the plugin can fill. What it has in memory counts for its memory limit.
func diskOf(c *isolation.Confinement) freedom {
	own := fmt.Sprintf("%d MiB in memory", isolation.OwnFiles(c)>>20)
	written := slices.DeleteFunc(slices.Clone(c.ReadWrite), func(path string) bool { return within(path, "/dev") })
	switch {
	case c.ConfineFiles && len(written) > 0:
		return freedom{"disk", own + ", and what " + strings.Join(written, ", ") + " holds", limited, unlisted}
	case c.ConfineFiles:
		return freedom{What: "disk", May: own, Exposure: sealed}
	case len(c.Protect) > 0:
		return freedom{"disk", own + ", and the host's disks where it may write, such as /var", limited, toStrict}
	default:
		return freedom{"disk", "all that its user may, /run too, without which no runtime works", exposed, toStandard}
	}
}

func writable(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return "; may write to " + strings.Join(paths, ", ")
}

// devicesOf is which devices the plugin can open.
func devicesOf(c *isolation.Confinement) freedom {
	var opened []string
	for _, path := range slices.Concat(c.ReadOnly, c.ReadWrite) {
		if within(path, "/dev") && !slices.Contains(opened, path) {
			opened = append(opened, path)
		}
	}
	switch {
	case !c.NoDevices:
		return freedom{"devices", "all that its user may", exposed, toStandard}
	case len(opened) > 0:
		return freedom{"devices", "null, zero, full, random" + listed(opened), limited, "sandbox without " + strings.Join(opened, ", ")}
	default:
		return freedom{What: "devices", May: "null, zero, full, random", Exposure: sealed}
	}
}

// within tells whether path is dir or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// groupsOf are the groups that a manifest gives to a user of the plugin's own.
func groupsOf(g *isolation.Groups) string {
	var out string
	if g.GID != nil {
		out = fmt.Sprintf(", group %d", *g.GID)
	}
	if len(g.Supplementary) > 0 {
		out += fmt.Sprintf(", groups %d", g.Supplementary)
	}
	return out
}

// shielded is what the profile's shield is worth with a version of Landlock; docs/adr says why no more can be done without scopes.
func shielded(c *isolation.Confinement, landlock int) freedom {
	const refer, scopes = 2, 6 // of Linux 5.19 and 6.12, landlock(7)
	const other = "sandbox: {profile: strict}, or {user: NAME}"
	switch {
	case slices.Contains(c.Capabilities, "SYS_ADMIN"):
		return freedom{"", "as its user may: Landlock would deny what SYS_ADMIN is for", exposed, "sandbox: {capabilities: {add: []}}"}
	case landlock >= scopes || c.OwnUser:
		return freedom{May: "no signals to them, no look into them", Exposure: sealed}
	case landlock >= refer:
		return freedom{"", "no look into them; signals to those of its user: this kernel is older than Linux 6.12", exposed, other}
	default:
		return freedom{"", "as its user may: this kernel has no Landlock, or that of before Linux 5.19", exposed, other}
	}
}

// perProcess are the limits of setrlimit(2).
func perProcess(c *isolation.Confinement) string {
	out := []string{"core 0", "nofile 1024, can be raised"}
	if c.NoFile > 0 {
		out[1] = fmt.Sprintf("nofile %d", c.NoFile)
	}
	for _, l := range c.RLimits {
		out = append(out, fmt.Sprintf("%s %d", l.Resource, l.Value))
	}
	return strings.Join(out, ", ")
}

func listed(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return ", " + strings.Join(paths, ", ")
}
