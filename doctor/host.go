package doctor

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Host is a node. All of it may be faked.
type Host struct {
	// Files are the node's files, "." being its root: os.DirFS("/") for this one. Symbolic links are followed below that root, absolute ones too.
	Files fs.ReadLinkFS
	// Landlock is the version of Landlock's interface that the kernel has; 0 is none.
	Landlock int
}

// maxLinks is how many symbolic links one path may have, path_resolution(7).
const maxLinks = 40

// resolve returns the path without symbolic links. What is not there stays as it is.
func (h Host) resolve(name string) string {
	rest := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	done := "/"
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target, err := h.Files.ReadLink(inside(next))
		if err != nil || links == maxLinks {
			done = next
			continue
		}
		links++
		if !path.IsAbs(target) {
			target = path.Join(done, target)
		}
		done = "/"
		rest = append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), rest...)
	}
	return done
}

// inside is the path as package fs wants it.
func inside(name string) string { return cmp.Or(strings.Trim(path.Clean("/"+name), "/"), ".") }

// maxFile bounds what is read of one file, in bytes: /proc/net/unix of 100,000 sockets is below.
const maxFile = 16 << 20

// errOdd is the error of what is no file to read: a pipe or a device may never end, and opening it may hang.
var errOdd = errors.New("it is no regular file, or larger than 16 MiB")

// readFile reads a regular file that is not too large.
func (h Host) readFile(name string) ([]byte, error) {
	info, err := h.lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errOdd
	}
	f, err := h.Files.Open(inside(h.resolve(name)))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errOdd
	}
	return data, errors.Join(err, f.Close())
}

// read returns the text, or none where it cannot be read.
func (h Host) read(name string) string {
	data, err := h.readFile(name)
	if err != nil {
		return ""
	}
	return string(data)
}

// lstat looks at what the path names, the links before it followed.
func (h Host) lstat(name string) (fs.FileInfo, error) { return h.Files.Lstat(inside(h.resolve(name))) }

// exists reports whether something is seen to have that path.
func (h Host) exists(name string) bool {
	_, err := h.lstat(name)
	return err == nil
}

// glob lists the paths that match, in order. The folder of the pattern may be behind links.
func (h Host) glob(pattern string) []string {
	dir, last := path.Split(pattern)
	if !strings.ContainsAny(dir, "*?[") {
		dir = h.resolve(dir)
	}
	names, err := fs.Glob(h.Files, inside(path.Join(dir, last)))
	if err != nil {
		return nil
	}
	for i, n := range names {
		names[i] = "/" + n
	}
	return names
}

// process is one running program.
type process struct {
	pid  int
	args []string // the command line; args[0] is what it was started as
}

// name is the program's, without its folder.
func (p process) name() string { return path.Base(p.args[0]) }

// flag returns the value of the first of the flags that the command line has.
func (p process) flag(names ...string) string {
	for i, a := range p.args {
		name, value, joined := strings.Cut(a, "=")
		switch {
		case !slices.Contains(names, name):
		case joined:
			return value
		case i+1 < len(p.args):
			return p.args[i+1]
		}
	}
	return ""
}

// processes lists what runs, by process id. It is empty where /proc cannot be read.
func (h Host) processes() []process {
	var out []process
	for _, file := range h.glob("/proc/[0-9]*/cmdline") {
		pid, err := strconv.Atoi(path.Base(path.Dir(file)))
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimRight(h.read(file), "\x00"), "\x00")
		if args[0] != "" {
			out = append(out, process{pid, args})
		}
	}
	slices.SortFunc(out, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return out
}

// mount is a line of proc_pid_mountinfo(5).
type mount struct {
	root, point, kind string
	options           []string
	super             []string // of the file system as a whole
}

// mounts lists what the process sees mounted; "self" is this one.
func (h Host) mounts(pid string) []mount {
	var out []mount
	for line := range strings.Lines(h.read("/proc/" + pid + "/mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		out = append(out, mount{
			root: unescape(l[3]), point: unescape(l[4]), kind: r[0], options: strings.Split(l[5], ","), super: strings.Split(r[2], ","),
		})
	}
	return out
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
