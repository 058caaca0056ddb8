package isolation

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// treePrefix begins the name of each supervisor's cgroup. What follows names its run directory.
	treePrefix = "nri-supervisor-"
	// supervisorLeaf is the cgroup that the supervisor moves itself into: on cgroup v2 a cgroup with processes cannot have
	// children with limits, cgroups(7) "no internal processes".
	supervisorLeaf = "supervisor"
)

// limitControllers are the controllers that limits need.
func limitControllers() []string { return []string{"memory", "cpu", "pids"} }

// cgroupTree is one supervisor's part of the cgroup hierarchies: a folder in the unified one (cgroup v2), and one in each v1
// hierarchy whose controller the unified one lacks. Each plugin gets a leaf below it.
type cgroupTree struct {
	name string
	// noLimits is HostOptions.NoLimits.
	noLimits bool
	// own and parent are where the supervisor was and where the tree is in the unified hierarchy, own1 where it is in those of v1 controllers.
	own, parent string
	own1        map[string]string
	unified     string

	mu sync.RWMutex // guards the rest, which changes when somebody removed the tree
	// v2 are the controllers that leaves of the unified hierarchy have, v1 the folders of the others.
	v2 []string
	v1 map[string]string
	// unlimited says for a controller why it cannot be used.
	unlimited map[string]error
}

// hierarchy is one cgroup hierarchy.
type hierarchy struct {
	controllers []string // nil: the unified one
}

// ownHierarchies finds where this process is in each mounted hierarchy.
func ownHierarchies() (unified string, v1 map[string]string, err error) {
	mounts, err := readFileAndClose("/proc/self/mountinfo", parseCgroupMounts)
	if err != nil {
		return "", nil, err
	}
	places, err := readFileAndClose("/proc/self/cgroup", parseOwnCgroups)
	if err != nil {
		return "", nil, err
	}
	v1 = map[string]string{}
	for _, m := range mounts {
		place, ok := places[strings.Join(m.controllers, ",")]
		if !ok {
			continue
		}
		dir, ok := m.resolve(place)
		if !ok {
			continue
		}
		if m.controllers == nil {
			if unified == "" {
				unified = dir
			}
			continue
		}
		for _, c := range m.controllers {
			if v1[c] == "" {
				v1[c] = dir
			}
		}
	}
	return unified, v1, nil
}

func readFileAndClose[T any](path string, parse func(*bufio.Scanner) T) (T, error) {
	f, err := os.Open(path)
	if err != nil {
		var none T
		return none, err
	}
	defer func() { _ = f.Close() }() // read only
	lines := bufio.NewScanner(f)
	out := parse(lines)
	return out, lines.Err()
}

// cgroupMount is a line of mountinfo: the hierarchy's root is seen at point.
type cgroupMount struct {
	hierarchy
	root, point string
}

// resolve turns a path of /proc/self/cgroup into a folder. It is false for a place outside of what is mounted.
func (m cgroupMount) resolve(place string) (string, bool) {
	rel, err := filepath.Rel(m.root, place)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.Join(m.point, rel), true
}

// parseCgroupMounts reads proc_pid_mountinfo(5).
func parseCgroupMounts(lines *bufio.Scanner) []cgroupMount {
	var out []cgroupMount
	for lines.Scan() {
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		m := cgroupMount{root: unescapeMount(l[3]), point: unescapeMount(l[4])}
		switch r[0] {
		case "cgroup2":
		case "cgroup":
			for o := range strings.SplitSeq(r[2], ",") {
				if o != "rw" && o != "ro" && !strings.Contains(o, "=") && o != "xattr" && o != "noprefix" && o != "clone_children" {
					m.controllers = append(m.controllers, o)
				}
			}
			if m.controllers == nil {
				continue // a named hierarchy
			}
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	for _, e := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return s
}

// parseOwnCgroups reads proc_pid_cgroup(5): controllers, joined by commas, to paths; the unified hierarchy has none.
func parseOwnCgroups(lines *bufio.Scanner) map[string]string {
	out := map[string]string{}
	for lines.Scan() {
		if parts := strings.SplitN(lines.Text(), ":", 3); len(parts) == 3 {
			out[parts[1]] = parts[2]
		}
	}
	return out
}

// openCgroupTree makes the supervisor's cgroups. A tree that a killed supervisor with the same run directory left is emptied
// first: only plugins are ever put into it.
func openCgroupTree(name string, noLimits bool) (*cgroupTree, error) {
	if err := canCloneInto(); err != nil {
		return nil, err
	}
	own, v1, err := ownHierarchies()
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	if own == "" {
		return nil, errors.New("no cgroup v2 hierarchy is mounted: mount one (the unified mode of systemd, or its hybrid mode)")
	}
	parent := own
	if filepath.Base(own) == supervisorLeaf { // put there by DelegateSubgroup=supervisor of systemd
		parent = filepath.Dir(own)
	}
	t := &cgroupTree{name: name, noLimits: noLimits, own: own, parent: parent, own1: v1, unified: filepath.Join(parent, name)}
	for _, base := range append([]string{t.unified}, t.v1Bases()...) {
		if err := emptyTree(base); err != nil {
			return nil, err
		}
	}
	if err := t.make(); err != nil {
		return nil, err
	}
	return t, nil
}

// make makes the folders, those of them that are not there, and finds out which controllers leaves can have.
func (t *cgroupTree) make() error {
	t.v2, t.v1, t.unlimited = nil, map[string]string{}, map[string]error{}
	if err := makeCgroup(t.unified); err != nil {
		return err
	}
	available := readWords(filepath.Join(t.parent, "cgroup.controllers"))
	var wanted []string
	for _, c := range limitControllers() {
		switch {
		case t.noLimits:
			t.unlimited[c] = errors.New("this host is one without limits")
		case slices.Contains(available, c):
			wanted = append(wanted, c)
		case t.own1[c] != "":
			dir := filepath.Join(t.own1[c], t.name)
			if err := makeCgroup(dir); err != nil {
				t.unlimited[c] = err
				continue
			}
			t.v1[c] = dir
		default:
			t.unlimited[c] = fmt.Errorf("the cgroup controller %s is neither in %s nor in a v1 hierarchy: with systemd, run the service with Delegate=yes", c, t.parent)
		}
	}
	if len(wanted) > 0 {
		t.enable(wanted)
	}
	return nil
}

// restore makes again what somebody removed of the tree, and tells whether that was anything. systemd removes empty cgroups below a unit without Delegate=yes.
func (t *cgroupTree) restore() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	missing := false
	for _, dir := range t.bases() {
		_, err := os.Stat(dir)
		missing = missing || errors.Is(err, fs.ErrNotExist)
	}
	if !missing {
		return false, nil
	}
	return true, t.make()
}

// makeCgroup makes one, unless it is there.
func makeCgroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // cgroups are listed by everybody's tools
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return nil
}

// v1Bases are the folders that a tree of this run directory may have left in v1 hierarchies.
func (t *cgroupTree) v1Bases() []string {
	var out []string
	for _, c := range limitControllers() {
		if dir := filepath.Join(t.own1[c], t.name); t.own1[c] != "" && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// enable makes controllers of the unified hierarchy available to leaves. It moves this process out of the way if it must.
func (t *cgroupTree) enable(controllers []string) {
	err := t.tryEnable(controllers)
	for _, c := range controllers {
		if err != nil {
			t.unlimited[c] = err
		} else {
			t.v2 = append(t.v2, c)
		}
	}
}

func (t *cgroupTree) tryEnable(controllers []string) error {
	var missing []string
	active := readWords(filepath.Join(t.parent, "cgroup.subtree_control"))
	for _, c := range controllers {
		if !slices.Contains(active, c) {
			missing = append(missing, "+"+c)
		}
	}
	if len(missing) > 0 {
		// The root has no cgroup.type, and no rule against processes.
		if _, err := os.Stat(filepath.Join(t.parent, "cgroup.type")); err == nil && t.own == t.parent {
			if err := moveAside(t.parent); err != nil {
				return err
			}
		}
		if err := writeCgroup(t.parent, "cgroup.subtree_control", strings.Join(missing, " ")); err != nil {
			return err
		}
	}
	return writeCgroup(t.unified, "cgroup.subtree_control", "+"+strings.Join(controllers, " +"))
}

// moveAside moves this process into a leaf of its own cgroup, unless others are in it as well: they are not ours to move.
func moveAside(parent string) error {
	pids, err := cgroupPIDs(parent)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if pid != os.Getpid() {
			return fmt.Errorf("cgroup %s holds process %d beside this one, so that it can have no limited children: run nri-supervisor as a service of its own, with Delegate=yes",
				parent, pid)
		}
	}
	leaf := filepath.Join(parent, supervisorLeaf)
	if err := makeCgroup(leaf); err != nil {
		return err
	}
	return writeCgroup(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

// bases are all folders of the tree, the unified one first.
func (t *cgroupTree) bases() []string {
	out := []string{t.unified}
	for _, c := range limitControllers() {
		if dir := t.v1[c]; dir != "" && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

func readWords(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

func writeCgroup(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write cgroup file: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %q to cgroup file: %w", text, err)
	}
	return nil
}

func cgroupPIDs(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var out []int
	for word := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out, nil
}
