package filelook

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// mount is a mount of this process's namespace.
type mount struct {
	id    int
	point string
	kind  string
}

// mounts reads proc_pid_mountinfo(5), which asks no file system. Without /proc there are none.
func mounts() []mount {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []mount
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(data)) {
		before, after, ok := strings.Cut(line, " - ")
		words, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(words) < 5 || len(kind) == 0 {
			continue
		}
		id, err := strconv.Atoi(words[0])
		if err == nil {
			out = append(out, mount{id, unescape.Replace(words[4]), kind[0]})
		}
	}
	return out
}

// mountOf is the mount on which a path without links lies: of several at one place, the one that covers the others.
func mountOf(list []mount, path string) (of mount) {
	for _, m := range list {
		if within(path, m.point) && len(m.point) >= len(of.point) {
			of = m
		}
	}
	return of
}

// overdue notes that a look exceeded the limit, unless it has ended just now, and what does not answer.
func (l *Looks) overdue(path string, p *look) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-p.done: // too late: it is asked again next time
	default:
		if p.at != "" {
			break
		}
		p.at = path
		if p.place != "" {
			p.at = p.place
			if m := mountOf(mounts(), p.place); m.point != "/" && m.point != "" {
				p.at, p.mount = m.point, m.id
			}
		}
		if l.silent[p.at] == nil {
			l.silent[p.at] = p
		}
	}
	at := p.at
	if at == "" {
		at = path
	}
	return &SilentError{path, at, p.since}
}

// coveringLocked is a look that exceeded the limit at what a place lies on; nil: there is none.
func (l *Looks) coveringLocked(place string) *look {
	for at, p := range l.silent {
		if within(place, at) && !l.goneLocked(p) {
			return p
		}
	}
	return nil
}

// goneLocked tells whether the mount of a look that exceeded the limit is gone, and then forgets the look. Its goroutine ends when it can.
func (l *Looks) goneLocked(p *look) bool {
	if p.mount == 0 || slices.ContainsFunc(mounts(), func(m mount) bool { return m.id == p.mount }) {
		return false
	}
	for path, other := range l.pending {
		if other == p {
			delete(l.pending, path)
		}
	}
	if l.silent[p.at] == p {
		delete(l.silent, p.at)
	}
	return true
}

// Silent are the places of the mounts that do not answer by now.
func (l *Looks) Silent() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for at, p := range l.silent {
		if p.mount != 0 && !l.goneLocked(p) {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out
}

// Served looks at those of the paths that lie on a file system with a server, and so finds those that do not answer any more. If there is such a file system, it looks at all of
// those that may lead there by links.
func (l *Looks) Served(paths, links []string) {
	var list []mount
	for _, m := range mounts() {
		if m.point == "/" || served(m.kind) {
			list = append(list, m)
		}
	}
	if l == nil || !slices.ContainsFunc(list, func(m mount) bool { return served(m.kind) }) {
		return
	}
	look := func(path string) { _ = l.Answers(path) }
	for _, path := range paths {
		if served(mountOf(list, path).kind) {
			look(path)
		}
	}
	for _, path := range links {
		look(path)
	}
}

// served tells whether a file system asks somebody else than this kernel. Of what is not known here it is taken for granted.
func served(kind string) bool {
	return !slices.Contains([]string{
		"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "squashfs", "erofs", "iso9660", "tmpfs", "ramfs", "rootfs", "devtmpfs", "devpts", "overlay", "proc", "sysfs", "cgroup", "cgroup2",
		"mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs", "bpf", "pstore", "configfs", "efivarfs", "fusectl", "binfmt_misc", "nsfs", "selinuxfs", "autofs", "rpc_pipefs", "nfsd",
	}, kind)
}

func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
