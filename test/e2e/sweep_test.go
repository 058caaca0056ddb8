package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Folders of nodes are nodeRoot/nodePrefix*, short because of socket paths. Each has a file that names the process that made it, so that a later run finds what a killed one left.
const (
	nodeRoot   = "/tmp"
	nodePrefix = "nrie2e"
	ownerFile  = "owner"
	cgroupRoot = "/sys/fs/cgroup"
)

// claim says that this process owns a folder.
func claim(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(owner(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
}

// owner identifies a process by its number and its start; it is empty if there is none that runs.
func owner(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:] // the name may hold spaces
	fields := strings.Fields(string(after))
	if fields[0] == "Z" {
		return "" // killed, and not waited for
	}
	return fmt.Sprint(pid, " ", fields[19]) // starttime, field 22 of proc(5)
}

// sweepOld removes what runs left that were killed.
func sweepOld() error {
	dirs, err := filepath.Glob(filepath.Join(nodeRoot, nodePrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, ownerFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		pid, _ := strconv.Atoi(strings.Fields(string(data) + " 0")[0])
		if len(data) > 0 && owner(pid) == string(data) {
			continue
		}
		if err := sweep(dir); err != nil {
			return err
		}
	}
	return nil
}

// processes are those that name the folder in their command line, and those in the folder's control groups.
func processes(dir string) []int {
	var pids []int
	add := func(text string) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 && pid != os.Getpid() && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); err == nil && bytes.Contains(line, []byte(dir+"/")) {
			add(e.Name())
		}
	}
	for _, g := range cgroups(dir) {
		data, _ := os.ReadFile(filepath.Join(g, "cgroup.procs"))
		for _, pid := range strings.Fields(string(data)) {
			add(pid)
		}
	}
	return pids
}

// cgroups are the control groups of the folder's containers in all hierarchies, children first.
func cgroups(dir string) []string {
	name := filepath.Base(dir)
	tops := []string{filepath.Join(cgroupRoot, name)}
	more, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", name))
	var all []string
	for _, top := range append(tops, more...) {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// mounts are the mount points below the folder, children first.
func mounts(dir string) []string {
	data, _ := os.ReadFile("/proc/self/mounts")
	var all []string
	for l := range strings.Lines(string(data)) {
		if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			all = append(all, f[1])
		}
	}
	slices.Reverse(all)
	return all
}

// leftovers says what still exists of a node: processes, mounts, and control groups of containers.
func leftovers(dir string) []string {
	var left []string
	for _, pid := range processes(dir) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		left = append(left, fmt.Sprintf("process %d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	for _, m := range mounts(dir) {
		left = append(left, "mount "+m)
	}
	for _, g := range cgroups(dir) {
		if filepath.Base(g) != filepath.Base(dir) { // the parent is the test's
			left = append(left, "control group "+g)
		}
	}
	return left
}

// sweep ends and removes all that a node has left, by force.
func sweep(dir string) error {
	limit := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for pids := processes(dir); len(pids) > 0; pids = processes(dir) {
		if time.Now().After(limit) {
			return fmt.Errorf("sweep %q: processes %v do not end", dir, pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-tick.C
	}
	for _, m := range mounts(dir) {
		_ = syscall.Unmount(m, syscall.MNT_DETACH)
	}
	for _, g := range cgroups(dir) {
		_ = os.Remove(g)
	}
	return os.RemoveAll(dir)
}
