package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

const (
	// landlockScopes is the version of Landlock's interface that can keep signals and abstract sockets in, landlock(7).
	landlockScopes = 6
	lsmList        = "/sys/kernel/security/lsm"
	seccompActions = "/proc/sys/kernel/seccomp/actions_avail"
	// serviceLeaf is the control group that the supervisor moves itself into.
	serviceLeaf = "supervisor"
)

// controllers are those that limits need.
func controllers() []string { return []string{"memory", "cpu", "pids"} }

// confined lists the started plugins that want something, and whether one of them does not start without it: its manifest chose its profile.
func (e *examination) confined(wants func(*policy.Plugin) bool) (names []string, must bool) {
	for _, p := range e.plugins {
		if p.Spec.Exec != nil && wants(p) {
			names = append(names, p.Name)
			must = must || p.ProfileWritten
		}
	}
	return names, must
}

// cgroups is about the part of the hierarchy in which the supervisor runs.
func (e *examination) cgroups() string {
	mounts := e.Host.mounts(e.self())
	unified := slices.IndexFunc(mounts, func(m mount) bool { return m.kind == "cgroup2" })
	switch {
	case len(mounts) == 0:
		e.add(Finding{Result: Unknown, What: "what is mounted cannot be seen", Where: "/proc/" + e.self() + "/mountinfo", Mend: "run doctor as root, on the node"})
		return ""
	case unified < 0:
		e.add(Finding{
			Result: Problem, What: "no cgroup v2 hierarchy is mounted, so what a plugin leaves behind cannot be found and no limit can be set", Where: "/sys/fs/cgroup",
			Mend: "mount one: the unified mode of systemd, or its hybrid mode",
		})
		return ""
	case slices.Contains(mounts[unified].options, "ro"):
		e.add(Finding{
			Result: Problem, What: "the control groups cannot be changed from where the supervisor runs", Where: mounts[unified].point, Value: "mounted ro",
			Mend: "in Kubernetes, run the pod privileged, as deploy/kubernetes does",
		})
		return ""
	}
	if len(e.supervisors) != 1 {
		return "a cgroup v2 hierarchy is mounted; whether a part of it is delegated shows when the supervisor runs"
	}
	m := mounts[unified]
	own := e.ownCgroup(m)
	if own == "" {
		e.add(Finding{Result: Unknown, What: "the supervisor's control group cannot be seen", Where: "/proc/" + e.self() + "/cgroup", Mend: "run doctor as root, on the node"})
		return ""
	}
	parent := own
	if path.Base(own) == serviceLeaf {
		parent = path.Dir(own)
	}
	there := strings.Fields(e.Host.read(path.Join(parent, "cgroup.controllers")))
	var missing []string
	for _, c := range controllers() {
		v1 := slices.ContainsFunc(mounts, func(m mount) bool { return m.kind == "cgroup" && slices.Contains(m.super, c) })
		if !slices.Contains(there, c) && !v1 {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return "limits of " + strings.Join(controllers(), ", ") + " can be set below " + parent
	}
	limited := e.limited(missing)
	f := Finding{
		Result: Warning, What: "the control group is not delegated: no limit of " + strings.Join(missing, ", ") + " can be set; no manifest sets one", Where: parent + "/cgroup.controllers",
		Value: strings.Join(there, " "), Mend: "with systemd, write Delegate=yes in the service's unit and restart it",
	}
	if f.Value == "" {
		f.Value = "none"
	}
	if len(limited) > 0 {
		f.Result = Problem
		f.What = fmt.Sprintf("the control group is not delegated: no limit of %s can be set, so %s cannot start", strings.Join(missing, ", "), strings.Join(limited, ", "))
	}
	e.add(f)
	return ""
}

// ownCgroup is the folder of the supervisor's control group in the unified hierarchy.
func (e *examination) ownCgroup(m mount) string {
	for line := range strings.Lines(e.Host.read("/proc/" + e.self() + "/cgroup")) {
		place, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok || strings.HasPrefix(place, "/..") {
			continue
		}
		if below, ok := strings.CutPrefix(place, m.root); ok && m.root != "/" {
			place = below
		}
		return path.Join(m.point, place)
	}
	return ""
}

// limited lists the plugins whose manifests set a limit that needs one of the controllers.
func (e *examination) limited(missing []string) []string {
	var out []string
	for _, p := range e.plugins {
		l := p.Spec.Resources.Limits
		sets := map[string]bool{"memory": l.Memory != nil, "cpu": l.CPU != nil, "pids": l.PIDs != nil}
		if p.Spec.Exec != nil && slices.ContainsFunc(missing, func(c string) bool { return sets[c] }) {
			out = append(out, p.Name)
		}
	}
	return out
}

// landlock is about confining files and shielding processes.
func (e *examination) landlock() string {
	strict, _ := e.confined(func(p *policy.Plugin) bool { return p.Spec.Sandbox.Profile == policy.ProfileStrict })
	lsms := strings.TrimSpace(e.Host.read(lsmList))
	mend := "use Linux 5.13 or newer and add landlock to the kernel's lsm= parameter"
	switch v := e.Host.Landlock; {
	case v == 0 && len(strict) > 0:
		e.add(Finding{
			Result: Problem, What: "the kernel has no Landlock, so that plugins with profile strict cannot start: " + strings.Join(strict, ", "), Where: lsmList, Value: lsms, Mend: mend,
		})
	case v == 0:
		e.add(Finding{Result: Warning, What: "the kernel has no Landlock: plugins can send signals to other processes of their user", Where: lsmList, Value: lsms, Mend: mend})
	case v < landlockScopes:
		e.add(Finding{
			Result: Warning, What: fmt.Sprintf("Landlock has no scopes before version %d: plugins can send signals to other processes of their user", landlockScopes), Where: "kernel",
			Value: fmt.Sprintf("version %d", v), Mend: "use Linux 6.12 or newer",
		})
	}
	return fmt.Sprintf("version %d", e.Host.Landlock)
}

// seccomp is about filtering system calls.
func (e *examination) seccomp() string {
	names, must := e.confined(func(p *policy.Plugin) bool {
		return p.Spec.Sandbox.Profile != policy.ProfileNone && p.Spec.Sandbox.Seccomp != policy.SeccompUnconfined
	})
	actions := strings.Fields(e.Host.read(seccompActions))
	switch {
	case slices.Contains(actions, "errno"):
		return "filters are available"
	case !e.sees("/proc/sys/kernel"):
		e.add(Finding{Result: Unknown, What: "whether the kernel has seccomp cannot be seen", Where: seccompActions, Mend: "run doctor on the node"})
	case must:
		e.add(Finding{
			Result: Problem, What: "the kernel has no seccomp filters, so that plugins whose manifest chose a profile cannot start, of: " + strings.Join(names, ", "), Where: seccompActions,
			Value: strings.Join(actions, " "), Mend: "use a kernel with CONFIG_SECCOMP_FILTER",
		})
	default:
		e.add(Finding{
			Result: Warning, What: "the kernel has no seccomp filters: plugins can make every system call", Where: seccompActions, Value: strings.Join(actions, " "),
			Mend: "use a kernel with CONFIG_SECCOMP_FILTER",
		})
	}
	return ""
}

func (e *examination) sees(dir string) bool {
	return e.Host.exists(dir)
}
