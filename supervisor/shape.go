package supervisor

import (
	"errors"
	"fmt"
	"path"
	"strings"

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

// checkAdjustment refuses what would pass NRI and then fail late, in the spec generator or in runc, or that a well-behaved plugin cannot mean. Removal markers are well-formed.
func checkAdjustment(a *api.ContainerAdjustment) error {
	if a == nil {
		return nil
	}
	seen := map[string]bool{}
	for i, m := range a.GetMounts() {
		dst := api.ClearRemovalMarker(m.GetDestination())
		if dst == "" || !path.IsAbs(dst) {
			return fmt.Errorf("mount %d: destination %q is not an absolute path", i, dst)
		}
		if _, removal := m.IsMarkedForRemoval(); removal {
			continue
		}
		if seen[dst] {
			return fmt.Errorf("mount %d: destination %q is given twice", i, dst)
		}
		seen[dst] = true
	}
	for i, e := range a.GetEnv() {
		key := api.ClearRemovalMarker(e.GetKey())
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(e.GetValue(), "\x00") {
			name, _, _ := strings.Cut(key, "=") // what follows may be a value
			return fmt.Errorf("env %d: %q is not the name of an environment variable", i, name)
		}
	}
	for k := range a.GetAnnotations() {
		if api.ClearRemovalMarker(k) == "" {
			return errors.New("annotations: a key is empty")
		}
	}
	for i, d := range a.GetCDIDevices() {
		if d.GetName() == "" {
			return fmt.Errorf("CDI device %d: the name is empty", i)
		}
	}
	for i, r := range a.GetRlimits() {
		if !strings.HasPrefix(r.GetType(), "RLIMIT_") {
			return fmt.Errorf("rlimit %d: type %q is not an OCI rlimit such as RLIMIT_NOFILE", i, r.GetType())
		}
		if r.GetSoft() > r.GetHard() {
			return fmt.Errorf("rlimit %q: soft limit %d is above the hard limit %d", r.GetType(), r.GetSoft(), r.GetHard())
		}
	}
	return checkLinux(a.GetLinux())
}

func checkLinux(l *api.LinuxContainerAdjustment) error {
	if l == nil {
		return nil
	}
	for i, d := range l.GetDevices() {
		p := api.ClearRemovalMarker(d.GetPath())
		if p == "" || !path.IsAbs(p) {
			return fmt.Errorf("device %d: path %q is not absolute", i, p)
		}
		if _, removal := d.IsMarkedForRemoval(); !removal && !strings.Contains("bcup", d.GetType()) || len(d.GetType()) > 1 {
			return fmt.Errorf("device %q: type %q is not one of b, c, u, p", p, d.GetType())
		}
	}
	for k := range l.GetSysctl() {
		if k = api.ClearRemovalMarker(k); k == "" || strings.ContainsAny(k, " \x00") {
			return fmt.Errorf("sysctl: %q is not a key", k)
		}
	}
	for i, n := range l.GetNamespaces() {
		if api.ClearRemovalMarker(n.GetType()) == "" {
			return fmt.Errorf("namespace %d: the type is empty", i)
		}
	}
	for k := range l.GetNetDevices() {
		if api.ClearRemovalMarker(k) == "" {
			return errors.New("net devices: a name is empty")
		}
	}
	return checkResources(l.GetResources())
}

func checkResources(r *api.LinuxResources) error {
	for i, p := range r.GetHugepageLimits() {
		if p.GetPageSize() == "" {
			return fmt.Errorf("hugepage limit %d: the page size is empty", i)
		}
	}
	for k := range r.GetUnified() {
		if k == "" || strings.Contains(k, "/") {
			return fmt.Errorf("unified: %q is not the name of a cgroup file", k)
		}
	}
	return nil
}

func checkUpdate(u *api.ContainerUpdate) error {
	if u.GetContainerId() == "" {
		return errors.New("an update names no container")
	}
	return checkResources(u.GetLinux().GetResources())
}
