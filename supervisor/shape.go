package supervisor

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/containerd/nri/pkg/api"
)

// CheckReply says why a plugin's reply to CreateContainer would be dropped as invalid, whatever the plugin is granted; nil when it would not. Nil is fine.
func CheckReply(r *api.CreateContainerResponse) error {
	if err := checkAdjustment(r.GetAdjust()); err != nil {
		return err
	}
	for _, u := range r.GetUpdate() {
		if err := checkUpdate(u); err != nil {
			return err
		}
	}
	if v, bad := tooLarge(r); bad {
		return errors.New(v.detail)
	}
	return nil
}

// control reports whether a name or path has a character that breaks lines, ends texts or cannot be seen: a control character, or one of Unicode's separators of lines and paragraphs. In a log, a
// file of the kernel or a check of names it would pass for something else.
func control(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}

// checkAdjustment refuses what would pass NRI and then fail late, in the spec generator or in runc, or that a well-behaved plugin cannot mean. Removal markers are well-formed.
func checkAdjustment(a *api.ContainerAdjustment) error {
	if a == nil {
		return nil
	}
	if err := checkMounts(a.GetMounts()); err != nil {
		return err
	}
	for i, e := range a.GetEnv() {
		key := api.ClearRemovalMarker(e.GetKey())
		if key == "" || strings.Contains(key, "=") || control(key) || strings.Contains(e.GetValue(), "\x00") {
			name, _, _ := strings.Cut(key, "=") // what follows may be a value
			return fmt.Errorf("env %d: %q is not the name of an environment variable, or its value has a NUL", i, name)
		}
	}
	for k := range a.GetAnnotations() {
		if k = api.ClearRemovalMarker(k); k == "" || control(k) {
			return fmt.Errorf("annotations: %q is not a key", k)
		}
	}
	for i, arg := range a.GetArgs() {
		if strings.Contains(arg, "\x00") {
			return fmt.Errorf("argument %d: it has a NUL", i)
		}
	}
	for i, d := range a.GetCDIDevices() {
		if d.GetName() == "" || control(d.GetName()) {
			return fmt.Errorf("CDI device %d: %q is not a name", i, d.GetName())
		}
	}
	for i, r := range a.GetRlimits() {
		if name, ok := strings.CutPrefix(r.GetType(), "RLIMIT_"); !ok || name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return fmt.Errorf("rlimit %d: type %q is not an OCI rlimit such as RLIMIT_NOFILE", i, r.GetType())
		}
		if r.GetSoft() > r.GetHard() {
			return fmt.Errorf("rlimit %q: soft limit %d is above the hard limit %d", r.GetType(), r.GetSoft(), r.GetHard())
		}
	}
	if err := checkHooks(a.GetHooks()); err != nil {
		return err
	}
	return checkLinux(a.GetLinux())
}

func checkMounts(mounts []*api.Mount) error {
	seen := map[string]bool{}
	for i, m := range mounts {
		dst := api.ClearRemovalMarker(m.GetDestination())
		if !path.IsAbs(dst) || control(dst) {
			return fmt.Errorf("mount %d: destination %q is not an absolute path", i, dst)
		}
		if control(m.GetSource()) || control(m.GetType()) {
			return fmt.Errorf("mount at %q: source %q or type %q has a control character", dst, m.GetSource(), m.GetType())
		}
		if _, removal := m.IsMarkedForRemoval(); removal {
			continue
		}
		for _, o := range m.GetOptions() {
			if control(o) {
				return fmt.Errorf("mount at %q: option %q has a control character", dst, o)
			}
		}
		if dst = path.Clean(dst); seen[dst] {
			return fmt.Errorf("mount %d: destination %q is given twice", i, dst)
		}
		seen[dst] = true
	}
	return nil
}

func checkHooks(h *api.Hooks) error {
	for _, hook := range slices.Concat(h.GetPrestart(), h.GetCreateRuntime(), h.GetCreateContainer(), h.GetStartContainer(), h.GetPoststart(), h.GetPoststop()) {
		if !path.IsAbs(hook.GetPath()) || control(hook.GetPath()) {
			return fmt.Errorf("hook: %q is not an absolute path", hook.GetPath())
		}
		for _, arg := range hook.GetArgs() {
			if strings.Contains(arg, "\x00") {
				return fmt.Errorf("hook %q: an argument has a NUL", hook.GetPath())
			}
		}
		for _, e := range hook.GetEnv() {
			if name, value, _ := strings.Cut(e, "="); name == "" || control(name) || strings.Contains(value, "\x00") {
				return fmt.Errorf("hook %q: %q is not the name of an environment variable, or its value has a NUL", hook.GetPath(), name)
			}
		}
		if hook.GetTimeout() != nil && hook.GetTimeout().GetValue() <= 0 {
			return fmt.Errorf("hook %q: a timeout of %d s ends it at once", hook.GetPath(), hook.GetTimeout().GetValue())
		}
	}
	return nil
}

func checkLinux(l *api.LinuxContainerAdjustment) error {
	if l == nil {
		return nil
	}
	for i, d := range l.GetDevices() {
		p := api.ClearRemovalMarker(d.GetPath())
		if !path.IsAbs(p) || control(p) {
			return fmt.Errorf("device %d: path %q is not absolute", i, p)
		}
		if _, removal := d.IsMarkedForRemoval(); !removal && !strings.Contains("bcup", d.GetType()) || len(d.GetType()) > 1 {
			return fmt.Errorf("device %q: type %q is not one of b, c, u, p", p, d.GetType())
		}
	}
	for k := range l.GetSysctl() {
		if k = api.ClearRemovalMarker(k); k == "" || strings.Contains(k, " ") || control(k) {
			return fmt.Errorf("sysctl: %q is not a key", k)
		}
	}
	for i, n := range l.GetNamespaces() {
		if t := api.ClearRemovalMarker(n.GetType()); t == "" || control(t) || n.GetPath() != "" && (!path.IsAbs(n.GetPath()) || control(n.GetPath())) {
			return fmt.Errorf("namespace %d: type %q is empty, or path %q is not absolute", i, t, n.GetPath())
		}
	}
	for k, d := range l.GetNetDevices() {
		if k = api.ClearRemovalMarker(k); k == "" || control(k) || control(d.GetName()) {
			return fmt.Errorf("net devices: %q or %q is not a name", k, d.GetName())
		}
	}
	if control(l.GetCgroupsPath()) {
		return fmt.Errorf("cgroups path: %q has a control character", l.GetCgroupsPath())
	}
	return checkResources(l.GetResources())
}

func checkResources(r *api.LinuxResources) error {
	for i, p := range r.GetHugepageLimits() {
		if p.GetPageSize() == "" || strings.ContainsAny(p.GetPageSize(), "/. ") || control(p.GetPageSize()) {
			return fmt.Errorf("hugepage limit %d: %q is not a page size such as 2MB", i, p.GetPageSize())
		}
	}
	for k := range r.GetUnified() {
		if k == "" || k == "." || k == ".." || strings.Contains(k, "/") || control(k) {
			return fmt.Errorf("unified: %q is not the name of a cgroup file", k)
		}
	}
	return nil
}

func checkUpdate(u *api.ContainerUpdate) error {
	if u.GetContainerId() == "" || control(u.GetContainerId()) {
		return fmt.Errorf("an update names no container, or %q", u.GetContainerId())
	}
	return checkResources(u.GetLinux().GetResources())
}
