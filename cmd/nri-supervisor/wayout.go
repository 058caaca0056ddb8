package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// wayOut is how a plugin can leave or undo its confinement. The zero value: it cannot.
type wayOut struct {
	by    string // what lets it
	lower string // the line of the manifest that would take it away
	all   bool   // everything can be undone; else the plugin can only leave its cgroup
}

// wayOutOf is the worst one, on a kernel with a version of Landlock. Each line of freedoms that promises something asks it.
func wayOutOf(c *isolation.Confinement, landlock int) wayOut {
	if !c.CutCapabilities && likeRoot(c) {
		return wayOut{"root without a profile", toStandard, true}
	}
	if keys := keysOut(c, landlock); len(keys) > 0 {
		return wayOut{strings.Join(keys, ", "), "sandbox without the capability " + strings.Join(keys, ", "), true}
	}
	if g := powerfulGroups(c); !c.CutCapabilities && len(g) > 0 {
		return wayOut{"its groups: " + strings.Join(g, ", "), withoutGroups, true}
	}
	if seen := seenSockets(c); len(seen) > 0 && (likeRoot(c) || len(groupsOf(c)) > 0) {
		return wayOut{strings.Join(seen, ", "), without(seen), true}
	}
	if !likeRoot(c) {
		return wayOut{} // what a list opens is root's
	}
	var out, leave []string
	for _, path := range c.ReadWrite {
		switch target := resolved(path); {
		case slices.ContainsFunc([]string{path, target}, func(p string) bool { return leadsOut(c, p) }):
			out = append(out, path)
		case overlap(target, "/sys/fs/cgroup"):
			leave = append(leave, path)
		}
	}
	if len(out) > 0 {
		return wayOut{strings.Join(out, ", "), without(out), true}
	}
	return wayOut{strings.Join(leave, ", "), without(leave), false}
}

// undone is a line of freedoms when the plugin has a way out of what it promises.
func (w wayOut) undone(f freedom) freedom {
	if f.Exposure == exposed {
		return f // it promises nothing
	}
	word := "undo"
	if !w.all {
		word = "leave"
	}
	return freedom{f.What, f.May + ", but it can " + word + " that (" + w.by + ")", exposed, w.lower}
}

// apply changes the lines that do not hold. What is said about the user and the capabilities holds as it is.
func (w wayOut) apply(list []freedom) {
	ofCgroup := []string{"memory", "processor", "processes", "cgroup", "survivors"}
	all := append([]string{"files", "disk", "devices", "runtimes' sockets", "other sockets", "other processes", "system calls"}, ofCgroup...)
	for i, f := range list {
		switch {
		case w.by == "":
		case w.all && (slices.Contains(all, f.What) || f.What == "network" && f.Exposure == sealed), slices.Contains(ofCgroup, f.What):
			list[i] = w.undone(f)
		}
	}
}

// likeRoot tells whether the plugin may write to root's files: it is root, can become root, or no file's mode keeps it out.
func likeRoot(c *isolation.Confinement) bool {
	return !c.OwnUser && (c.User == nil || c.User.UID == 0) || len(holdsOf(c, "SETUID", "CHOWN", "DAC_OVERRIDE", "FOWNER")) > 0
}

// keysOut are the capabilities of the plugin with which it can undo everything.
func keysOut(c *isolation.Confinement, landlock int) []string {
	keys := []string{"SYS_MODULE", "SYS_RAWIO"}
	if !c.ConfineFiles { // Landlock denies each mount to who has his files confined
		keys = append(keys, "SYS_ADMIN")
	}
	if !c.ConfineFiles && (!c.Shield || landlock < landlockRefer || len(holdsOf(c, "SYS_ADMIN")) > 0) { // and each look into others
		keys = append(keys, "SYS_PTRACE")
	}
	if likeRoot(c) { // it opens a file by its number, whatever lies over it
		keys = append(keys, "DAC_READ_SEARCH")
	}
	return holdsOf(c, keys...)
}

// leadsOut tells whether who can write there as root has others do what it likes, outside of its confinement.
func leadsOut(c *isolation.Confinement, path string) bool {
	own := slices.DeleteFunc(slices.Clone(c.Protect), func(p string) bool { return slices.Contains(c.ReadOnly, p) }) // the manifest's own are no one's to execute
	for _, p := range slices.Concat(isolation.Standard(nil).Protect, own) {
		switch {
		case isKernels(p): // below
		case path == p, within(p, path) && !slices.Contains(c.Protect, p): // one that is protected stays so below a listed folder
			return true
		case within(path, p) && !slices.Contains(mixed(), p):
			return true
		}
	}
	return slices.ContainsFunc(executed(), func(p string) bool { return within(path, p) }) ||
		slices.ContainsFunc(ofTheKernel(), func(p string) bool { return overlap(path, p) }) || isDisk(path) || isRootElsewhere(path)
}

// isRootElsewhere tells whether the path is another place of the root folder.
func isRootElsewhere(path string) bool {
	root, err := os.Stat("/")
	if err != nil || path == "/" {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, root)
}

func isKernels(path string) bool { return within(path, "/proc") || within(path, "/sys") }

// mixed are the protected folders that have harmless things beside those that are executed.
func mixed() []string { return []string{"/etc", "/opt", "/run", "/dev"} }

// executed are, in these folders, what tells root's programs what to execute.
func executed() []string {
	return []string{
		"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/crontab", "/etc/cron.d", "/etc/cron.hourly",
		"/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly", "/etc/systemd", "/etc/init.d", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/ld.so.cache", "/etc/pam.d", "/etc/security", "/etc/profile", "/etc/profile.d", "/etc/environment", "/etc/default", "/etc/udev", "/etc/modprobe.d",
		"/etc/sysctl.d", "/etc/sysctl.conf", "/etc/tmpfiles.d", "/etc/ssh", "/etc/apt", "/etc/logrotate.d", "/etc/polkit-1", "/etc/dbus-1", "/etc/alternatives",
		"/etc/containerd", "/etc/crio", "/etc/docker", "/etc/containers", "/etc/kubernetes", "/etc/rancher", "/etc/cni", "/etc/nri", "/etc/nri-supervisor",
		"/opt/cni", "/opt/nri", "/opt/containerd",
		"/run/systemd", "/run/udev", "/run/tmpfiles.d", "/run/sysctl.d", "/run/modprobe.d",
	}
}

// ofTheKernel are the files by which the kernel is told to execute something, or to change itself.
func ofTheKernel() []string {
	return []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/fs/binfmt_misc", "/sys/kernel/uevent_helper", "/sys/kernel/debug",
		"/sys/firmware/efi",
	}
}

// isDisk tells whether the path is a block device or a folder of some.
func isDisk(path string) bool {
	block := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode()&(os.ModeDevice|os.ModeCharDevice) == os.ModeDevice
	}
	if !within(path, "/dev") {
		return false
	}
	entries, _ := os.ReadDir(path) // none if it is no folder
	return block(path) || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return block(filepath.Join(path, e.Name())) })
}

// overlap tells whether one of the paths leads to or through the other. The root folder as a whole is nothing that a list opens.
func overlap(path, other string) bool {
	return path != "/" && (within(path, other) || within(other, path))
}

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// resolved is the path without links, or as it is if there is nothing, or no answer.
func resolved(path string) string {
	if target, ok := newLooks().Resolved(path); ok {
		return target
	}
	return path
}
