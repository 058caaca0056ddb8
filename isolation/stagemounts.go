package isolation

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mounted is a mount of this namespace.
type mounted struct {
	device string // of its file system
	root   string // what of the file system is mounted
	point  string // where
	kind   string
	// readOnly is set if nobody can write through it.
	readOnly bool
}

// listMounts are the mounts of this namespace; those at one place in the order in which they cover each other.
func listMounts() ([]mounted, error) {
	list, err := readFileAndClose("/proc/self/mountinfo", parseMounts)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return list, nil
}

// parseMounts reads proc_pid_mountinfo(5).
func parseMounts(lines *bufio.Scanner) []mounted {
	var out []mounted
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		words, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(words) > 5 && len(kind) > 0 {
			readOnly := slices.Contains(strings.Split(words[5], ","), "ro")
			out = append(out, mounted{device: words[2], root: unescapeMount(words[3]), point: unescapeMount(words[4]), kind: kind[0], readOnly: readOnly})
		}
	}
	return out
}

// mountOf is the mount on which a path without links lies: of several at one place, the one that covers the others. The zero value: none.
func mountOf(mounts []mounted, path string) (of mounted) {
	for _, m := range mounts {
		if within(path, m.point) && len(m.point) >= len(of.point) {
			of = m
		}
	}
	return of
}

// elsewhere are the other places at which what the mask hides can be reached: a folder can be mounted again, as for the volume of a pod. same are those of
// all of it, parts those of something below it.
func (m mask) elsewhere(mounts []mounted) (same, parts []string) {
	own := mountOf(mounts, m.path)
	inside := filepath.Join(own.root, strings.TrimPrefix(m.path, own.point)) // its path in the file system
	hidden, err := os.Lstat(m.path)
	if own.point == "" || err != nil {
		return nil, nil
	}
	for _, o := range mounts {
		if o.device != own.device || o.point == own.point {
			continue
		}
		switch {
		case within(inside, o.root):
			path := filepath.Join(o.point, strings.TrimPrefix(inside, o.root))
			if info, err := os.Lstat(path); err == nil && os.SameFile(info, hidden) && path != m.path {
				same = append(same, path)
			}
		case within(o.root, inside):
			parts = append(parts, o.point)
		}
	}
	return same, parts
}

// Places are, for each path, the other places on this host at which that file or folder is mounted, but for those at which a whole folder of the list is that it lies in: these are kept as the folder
// is. Paths are absolute and without links. What cannot be known is left out.
func Places(paths, whole []string) [][]string {
	out := make([][]string, len(paths))
	mounts, err := listMounts()
	if err != nil {
		return out
	}
	for i, path := range paths {
		out[i], _ = mask{path: path}.elsewhere(mounts)
		for _, dir := range whole {
			if len(out[i]) == 0 || !within(path, dir) {
				continue
			}
			same, _ := mask{path: dir}.elsewhere(mounts)
			out[i] = slices.DeleteFunc(out[i], func(place string) bool {
				return slices.ContainsFunc(same, func(other string) bool { return place == other+strings.TrimPrefix(path, dir) })
			})
		}
	}
	return out
}

// kernelFiles are the file systems by which the kernel, or everybody's cgroups, are changed.
func kernelFiles() []string {
	return []string{
		"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "selinuxfs", "smackfs", "bpf", "configfs", "efivarfs", "pstore", "resctrl", "fusectl", "binfmt_misc",
		"nfsd", "rpc_pipefs",
	}
}

// closeKernel makes the kernel's own files read only wherever they are mounted, and takes away the host's message queues, which can be emptied by reading.
func closeKernel(mounts []mounted) error {
	top := map[string]mounted{}
	for _, m := range mounts {
		top[m.point] = m
	}
	for _, m := range top {
		var err error
		switch {
		case m.kind == "mqueue":
			err = unmount(m.point)
		case slices.Contains(kernelFiles(), m.kind):
			err = inFolder(m.point, func(folder int, name string) error {
				return unix.MountSetattr(folder, name, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
			})
		}
		// It may lie below what is taken out or hidden already.
		if err != nil && !absent(err) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("protect %q: %w", m.point, err)
		}
	}
	return nil
}
