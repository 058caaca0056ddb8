package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// cpuPeriod is the time over which a CPU limit is counted, the kernel's default, in microseconds.
	cpuPeriod = 100_000
	// minCPUQuota is the kernel's smallest quota in microseconds, min_cfs_quota_period.
	minCPUQuota = 1000
	// emptyWithin bounds how long killed processes are waited for: they go in milliseconds, unless the kernel holds them.
	emptyWithin = 2 * time.Second
)

// Limits bounds the resources of one incarnation. A zero field means no bound.
type Limits struct {
	// Memory in bytes, without swap.
	Memory int64
	// CPU in thousandths of a core.
	CPU int64
	// PIDs is the number of processes and threads.
	PIDs int64
}

// cgroupLeaf is the cgroup of one incarnation: a folder in the unified hierarchy, and one in each v1 hierarchy of the tree.
type cgroupLeaf struct {
	dir string
	fd  *os.File
	v1  []string
	// oom are files that count the out-of-memory kills. oomGroup: the kernel kills all processes then; oomSingle: one of them.
	oom                 []string
	oomGroup, oomSingle bool
	// memory is the file with the bytes in use, memoryStat says what they are; empty: the cgroup does not count them. inactive is how memoryStat names file pages that nobody used lately.
	memory, memoryStat, inactive string
}

// Usage is what an incarnation uses of its limits.
type Usage struct {
	// Memory in bytes, without pages of files that the kernel would give back at once; 0: not counted on this host, or the process is gone.
	Memory uint64
	// MemoryLimit is Limits.Memory; 0: there is none.
	MemoryLimit uint64
}

// usage reads what the cgroup counts.
func (c *cgroupLeaf) usage() uint64 {
	if c == nil || c.memory == "" {
		return 0
	}
	words := readWords(c.memory)
	if len(words) == 0 {
		return 0
	}
	all, err := strconv.ParseUint(words[0], 10, 64)
	idle := uint64(max(counter(c.memoryStat, c.inactive), 0))
	if err != nil || idle > all {
		return 0
	}
	return all - idle
}

// maxLeft bounds how many processes are looked at when an incarnation ends: who left so many may have left any number.
const maxLeft = 100

// strangers counts processes in the cgroup that are not of a process group.
func (c *cgroupLeaf) strangers(group int) int {
	pids, err := cgroupPIDs(c.dir)
	if err != nil {
		return 0 // somebody removed it
	}
	n := 0
	for _, pid := range pids[:min(len(pids), maxLeft)] {
		if of, err := unix.Getpgid(pid); err == nil && of != group {
			n++
		}
	}
	return n
}

// newLeaf makes the cgroup of an incarnation with its limits.
func (t *cgroupTree) newLeaf(name string, l Limits) (*cgroupLeaf, error) {
	leaf, err := t.tryNewLeaf(name, l)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return leaf, err
	}
	if restored, rerr := t.restore(); !restored || rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	return t.tryNewLeaf(name, l)
}

func (t *cgroupTree) tryNewLeaf(name string, l Limits) (_ *cgroupLeaf, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for c, limit := range map[string]int64{"memory": l.Memory, "cpu": l.CPU, "pids": l.PIDs} {
		if why := t.unlimited[c]; limit > 0 && why != nil {
			return nil, fmt.Errorf("limit %s: %w", c, why)
		}
	}
	leaf := &cgroupLeaf{dir: filepath.Join(t.unified, name)}
	if err := os.Mkdir(leaf.dir, 0o755); err != nil { //nolint:gosec // cgroups are listed by everybody's tools
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, leaf.remove())
		}
	}()
	if leaf.fd, err = os.Open(leaf.dir); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	for _, c := range t.v2 {
		if err := leaf.limitV2(c, l); err != nil {
			return nil, err
		}
	}
	for c, base := range t.v1 {
		// Memory is for telling an out-of-memory kill. In a cgroup of the others all plugins together would have the share of one process.
		if c == "cpu" && l.CPU == 0 || c == "pids" && l.PIDs == 0 {
			continue
		}
		if err := leaf.limitV1(c, filepath.Join(base, name), l); err != nil {
			return nil, err
		}
	}
	return leaf, nil
}

// setting is a file of a cgroup and what goes into it.
type cgroupSetting struct {
	file, value string
	optional    bool // the kernel may be built without it
}

func (c *cgroupLeaf) limitV2(controller string, l Limits) error {
	switch controller {
	case "memory":
		c.oom = append(c.oom, filepath.Join(c.dir, "memory.events"))
		c.memory, c.memoryStat, c.inactive = filepath.Join(c.dir, "memory.current"), filepath.Join(c.dir, "memory.stat"), "inactive_file"
		c.oomGroup = true
		settings := []cgroupSetting{{file: "memory.oom.group", value: "1", optional: true}} // a plugin without half of its processes is none
		if l.Memory > 0 {
			settings = append(settings, cgroupSetting{file: "memory.swap.max", value: "0", optional: true},
				cgroupSetting{file: "memory.max", value: strconv.FormatInt(l.Memory, 10)})
		}
		return apply(c.dir, settings)
	case "cpu":
		if l.CPU > 0 {
			return writeCgroup(c.dir, "cpu.max", fmt.Sprintf("%d %d", quota(l.CPU), cpuPeriod))
		}
	case "pids":
		if l.PIDs > 0 {
			return writeCgroup(c.dir, "pids.max", strconv.FormatInt(l.PIDs, 10))
		}
	}
	return nil
}

func (c *cgroupLeaf) limitV1(controller, dir string, l Limits) error {
	if err := os.Mkdir(dir, 0o755); err == nil { //nolint:gosec // as above
		c.v1 = append(c.v1, dir)
	} else if !errors.Is(err, fs.ErrExist) { // two controllers may share a hierarchy
		return fmt.Errorf("make a cgroup: %w", err)
	}
	switch controller {
	case "memory":
		c.oom, c.oomSingle = append(c.oom, filepath.Join(dir, "memory.oom_control")), true
		c.memory, c.memoryStat, c.inactive = filepath.Join(dir, "memory.usage_in_bytes"), filepath.Join(dir, "memory.stat"), "total_inactive_file"
		if l.Memory > 0 {
			n := strconv.FormatInt(l.Memory, 10)
			return apply(dir, []cgroupSetting{
				{file: "memory.limit_in_bytes", value: n},
				{file: "memory.memsw.limit_in_bytes", value: n, optional: true},
			})
		}
	case "cpu":
		if l.CPU > 0 {
			return apply(dir, []cgroupSetting{
				{file: "cpu.cfs_period_us", value: strconv.Itoa(cpuPeriod)},
				{file: "cpu.cfs_quota_us", value: strconv.FormatInt(quota(l.CPU), 10)},
			})
		}
	case "pids":
		if l.PIDs > 0 {
			return writeCgroup(dir, "pids.max", strconv.FormatInt(l.PIDs, 10))
		}
	}
	return nil
}

func quota(milli int64) int64 { return max(milli*cpuPeriod/1000, minCPUQuota) }

func apply(dir string, settings []cgroupSetting) error {
	for _, s := range settings {
		if err := writeCgroup(dir, s.file, s.value); err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// kill sends SIGKILL to every process in the cgroup, whatever session or group it is in.
func (c *cgroupLeaf) kill() { killTree(c.dir) }

// oomKills is how many processes of the cgroup the kernel killed for want of memory.
func (c *cgroupLeaf) oomKills() int {
	n := 0
	for _, file := range c.oom {
		n += counter(file, "oom_kill")
	}
	return n
}

// remove kills what is left in the cgroup, waits for it, and removes the folders. What does not go in time is swept later.
func (c *cgroupLeaf) remove() error {
	if c == nil {
		return nil
	}
	if c.fd != nil {
		_ = c.fd.Close() // a folder
	}
	return errors.Join(removeTree(c.dir), removeDirs(c.v1))
}

// counter reads the number behind a name in a file of lines "name number".
func counter(file, name string) int {
	words := readWords(file)
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			n, _ := strconv.Atoi(words[i+1])
			return n
		}
	}
	return 0
}

// killTree kills everything in a cgroup of the unified hierarchy and below it.
func killTree(dir string) {
	if writeCgroup(dir, "cgroup.kill", "1") == nil {
		return
	}
	// Linux before 5.14, or whatever else the kernel refuses it for: frozen processes cannot fork away, and die of SIGKILL all the same.
	_ = writeCgroup(dir, "cgroup.freeze", "1") // without it there are more rounds
	for range 100 {
		found := false
		walkTree(dir, func(sub string) {
			pids, err := cgroupPIDs(sub)
			for _, pid := range pids {
				found = found || err == nil
				_ = unix.Kill(pid, unix.SIGKILL) // it may be gone
			}
		})
		if !found {
			return
		}
	}
}

// walkTree visits a cgroup and those below it, the deepest first.
func walkTree(dir string, visit func(string)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			walkTree(filepath.Join(dir, e.Name()), visit)
		}
	}
	visit(dir)
}

// removeTree kills everything in a cgroup of the unified hierarchy and below it, and removes it. It may not exist.
func removeTree(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	killTree(dir)
	var all []string
	walkTree(dir, func(sub string) { all = append(all, sub) })
	return removeDirs(all)
}

// removeDirs removes empty cgroups in the order given, as soon as their last process is gone.
func removeDirs(dirs []string) error {
	deadline := time.Now().Add(emptyWithin)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var errs []error
	for _, dir := range dirs {
		for {
			err := unix.Rmdir(dir)
			if errors.Is(err, unix.EBUSY) && time.Now().Before(deadline) {
				<-tick.C
				continue
			}
			if err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("remove cgroup %q: %w", dir, err))
			}
			break
		}
	}
	return errors.Join(errs...)
}

// emptyTree removes what a supervisor that was killed left at base, which only plugins were ever put into.
func emptyTree(base string) error {
	if !strings.HasPrefix(filepath.Base(base), treePrefix) {
		return fmt.Errorf("sweep cgroup %q: not one of ours", base)
	}
	if _, err := os.Stat(filepath.Join(base, "cgroup.events")); err == nil {
		return removeTree(base)
	}
	var all []string
	walkTree(base, func(sub string) { all = append(all, sub) })
	return removeDirs(all)
}
