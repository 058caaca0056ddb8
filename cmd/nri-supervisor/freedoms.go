package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// landlockRefer and landlockScopes are versions of Landlock's interface, of Linux 5.19 and 6.12, landlock(7).
const landlockRefer, landlockScopes = 2, 6

// freedoms are the lines of one plugin, on a kernel with a version of Landlock.
func freedoms(c *isolation.Confinement, landlock int) []freedom {
	pick := func(what string, ok bool, good, bad freedom) freedom {
		if ok {
			bad = good
		}
		bad.What = what
		return bad
	}
	limit := func(what, field string, n int64, unit, example string) freedom {
		return pick(what, n > 0, freedom{May: fmt.Sprintf("at most %d%s", n, unit), Exposure: sealed},
			freedom{"", "no limit", exposed, "resources: {limits: {" + field + ": " + example + "}}"})
	}
	out := []freedom{
		userOf(c), capabilitiesOf(c), filesOf(c), diskOf(c), devicesOf(c),
		socketsOf(c), otherSocketsOf(c),
		pick("other processes", c.Shield, shielded(c, landlock), freedom{"", "as its user may", exposed, toStandard}),
		pick("system calls", c.Seccomp, freedom{May: "filtered", Exposure: sealed}, freedom{"", "all", exposed, "sandbox: {seccomp: default}, with profile standard or strict"}),
		pick("network", c.NoNetwork, freedom{May: "none", Exposure: sealed}, freedom{"", "the host's", limited, "sandbox: {network: none}"}),
		limit("memory", "memory", c.Limits.Memory, " bytes", "128Mi"),
		limit("processor", "cpu", c.Limits.CPU, "m", "500m"),
		limit("processes", "pids", c.Limits.PIDs, "", "64"),
		perProcess(c),
		cgroupOf(c), survivorsOf(c),
	}
	wayOutOf(c, landlock).apply(out)
	return out
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
		if !c.NoNewPrivs {
			out = freedom{out.What, out.May + "; but for what setuid programs and services start for it", limited, toStandard}
		}
	case limited:
		out.May = "none, if it has a cgroup"
	case exposed:
		out.May = "processes that it started in a session of their own"
	}
	return out
}

// seenSockets are the paths of the lists that lie in a hidden folder, or are hidden themselves, and those that can be written and show what is hidden
// and appears later.
func seenSockets(c *isolation.Confinement) []string {
	var seen []string
	for _, path := range slices.Concat(c.ReadOnly, c.ReadWrite) {
		hidden := slices.ContainsFunc(c.Hide, func(dir string) bool { return within(path, dir) || within(resolved(path), resolved(dir)) })
		if (hidden || slices.Contains(c.ReadWrite, path) && thaws(c, path)) && !slices.Contains(seen, path) {
			seen = append(seen, path)
		}
	}
	return seen
}

// notYetHidden are runtimes' folders that this host does not have, and that a plugin sees if they are made after its start.
func notYetHidden(c *isolation.Confinement) []string {
	if c.ConfineFiles && !slices.Contains(slices.Concat(c.ReadOnly, c.ReadWrite), "/") {
		return nil
	}
	return slices.DeleteFunc(policy.RuntimeSockets(), func(path string) bool {
		for below := range isolation.FrozenBelow() {
			if within(path, below) {
				return true
			}
		}
		_, err := os.Lstat(path)
		return err == nil || !slices.Contains(c.Hide, path)
	})
}

// thaws tells whether a list that lets the plugin write to a folder shows it what is hidden below it and is not there at its start.
func thaws(c *isolation.Confinement, path string) bool {
	path = resolved(path)
	if path == "/" {
		return false // it adds nothing
	}
	return slices.ContainsFunc(c.Hide, func(hidden string) bool {
		for below := range isolation.FrozenBelow() {
			if within(hidden, below) && within(resolved(filepath.Dir(hidden)), path) {
				return true
			}
		}
		return false
	})
}

// socketsOf is which of the hidden sockets and folders the plugin sees after all.
func socketsOf(c *isolation.Confinement) freedom {
	const what = "runtimes' sockets"
	if len(c.Hide) == 0 {
		return freedom{what, "can connect as its user may", exposed, toStandard}
	}
	if seen := seenSockets(c); len(seen) > 0 {
		return freedom{what, "hidden, but for " + strings.Join(seen, ", "), exposed, without(seen)}
	}
	if open := notYetHidden(c); len(open) > 0 {
		return freedom{what, "hidden, but for " + strings.Join(open, ", ") + ", if that is made later", limited, toStrict}
	}
	return freedom{What: what, May: "hidden", Exposure: sealed}
}

// otherSocketsOf is which sockets of the file system it can connect to beside: neither an empty network nor Landlock denies that, only that they are not to be seen.
func otherSocketsOf(c *isolation.Confinement) freedom {
	const what = "other sockets"
	lists := slices.Concat(c.ReadOnly, c.ReadWrite)
	switch {
	case len(c.Hide) == 0:
		return freedom{what, "can connect as its user may", exposed, toStandard}
	case c.ConfineFiles && !slices.Contains(lists, "/"):
		places := append([]string{"/dev", "/etc", "/usr"}, slices.DeleteFunc(lists, func(p string) bool { return within(p, "/dev") })...)
		return freedom{What: what, May: "can connect to those in " + strings.Join(places, ", ") + " that its user may write to, and to no others", Exposure: limited}
	case likeRoot(c):
		return freedom{what, "can connect to all in files that are not hidden", limited, "sandbox: {user: NAME}, or {profile: strict}"}
	default:
		return freedom{what, "can connect to those in files that are not hidden and that its user may write to, as those for everybody", limited, toStrict}
	}
}

// filesOf is what the plugin may do with files.
func filesOf(c *isolation.Confinement) freedom {
	written := writtenBy(c)
	out := freedom{"files", "all that its user may", exposed, toStandard}
	switch {
	case c.ConfineFiles && len(written) > 0:
		out = freedom{"files", "reads the system's, writes its own" + listed(written), limited, unlisted}
	case c.ConfineFiles:
		out = freedom{What: "files", May: "reads the system's, writes its own", Exposure: sealed}
	case len(c.Protect) > 0:
		out = freedom{"files", "all but writing to " + c.Protect[0] + ", " + c.Protect[1] + " and the like" + writable(written), limited, toStrict}
	}
	settings := slices.DeleteFunc(slices.Clone(written), func(path string) bool {
		target := resolved(path)
		return !isKernels(target) || within(target, "/sys/fs/resctrl") || leadsOut(c, target)
	})
	if len(settings) > 0 && likeRoot(c) {
		out.May, out.Exposure, out.Lower = out.May+", which are the kernel's settings", exposed, without(settings)
	}
	return out
}

// writtenBy are the paths that a list lets the plugin write to, but for devices. The root folder adds nothing to what is not protected anyway.
func writtenBy(c *isolation.Confinement) []string {
	return slices.DeleteFunc(slices.Clone(c.ReadWrite), func(path string) bool { return within(path, "/dev") || path == "/" && !c.ConfineFiles })
}

// diskOf is how much of the host's file systems the plugin can fill. What it has in memory counts for its memory limit.
func diskOf(c *isolation.Confinement) freedom {
	own := fmt.Sprintf("%d MiB in memory", isolation.OwnFiles(c)>>20)
	written := writtenBy(c)
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
		return freedom{"devices", "null, zero, full, random" + listed(opened), limited, without(opened)}
	default:
		return freedom{What: "devices", May: "null, zero, full, random", Exposure: sealed}
	}
}

// shielded is what the profile's shield is worth with a version of Landlock; docs/adr says why no more can be done without scopes.
func shielded(c *isolation.Confinement, landlock int) freedom {
	const other = "sandbox: {profile: strict}, or {user: NAME}"
	switch {
	case len(holdsOf(c, "SYS_ADMIN")) > 0:
		return freedom{"", "as its user may: Landlock would deny what SYS_ADMIN is for", exposed, "sandbox: {capabilities: {add: []}}"}
	case landlock >= landlockScopes || c.OwnUser:
		return freedom{May: "no signals to them, no look into them", Exposure: sealed}
	case landlock >= landlockRefer:
		return freedom{"", "no look into them; signals to those of its user: this kernel is older than Linux 6.12", exposed, other}
	default:
		return freedom{"", "as its user may: this kernel has no Landlock, or that of before Linux 5.19", exposed, other}
	}
}

// without is the advice to take paths out of the lists.
func without(paths []string) string { return "sandbox without " + strings.Join(paths, ", ") }

func listed(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return ", " + strings.Join(paths, ", ")
}
