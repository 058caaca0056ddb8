package harness

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Leftovers says what is left of a supervisor's plugins: processes whose working directory was in its run directory (each plugin's is, and its children inherit it), zombies, and
// sockets in that directory.
func (p *Process) Leftovers() []string {
	p.tb.Helper()
	run := filepath.Join(p.Dir, "run")
	var out []string
	for _, pid := range pids(p.tb) {
		if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && strings.HasPrefix(cwd, run+"/") {
			out = append(out, fmt.Sprintf("process %d: %s", pid, commandLine(pid)))
		}
	}
	for _, l := range p.Lines(func(l map[string]any) bool { return l["msg"] == "plugin started" }) {
		pid, ok := l["pid"].(float64)
		if st, parent := processState(int(pid)); ok && st == "Z" && parent == p.PID() {
			out = append(out, fmt.Sprintf("zombie %d of the supervisor", int(pid)))
		}
	}
	return append(out, sockets(p.tb, run)...)
}

// Zombies returns the dead children of the supervisor that it has not waited for.
func (p *Process) Zombies() []int {
	p.tb.Helper()
	var out []int
	for _, pid := range pids(p.tb) {
		if st, parent := processState(pid); st == "Z" && parent == p.PID() {
			out = append(out, pid)
		}
	}
	return out
}

// Children returns the supervisor's living children, but for its guardians and those that look at mounts.
func (p *Process) Children() []int {
	p.tb.Helper()
	var out []int
	for _, pid := range pids(p.tb) {
		if st, parent := processState(pid); st != "Z" && parent == p.PID() && !strings.Contains(commandLine(pid), " helper guardian ") && !strings.Contains(commandLine(pid), " helper look ") {
			out = append(out, pid)
		}
	}
	return out
}

// Descriptors is how many files the supervisor has open.
func (p *Process) Descriptors() int {
	p.tb.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		p.tb.Fatal(err)
	}
	return len(entries)
}

// Files lists what is in the supervisor's run directory, by path.
func (p *Process) Files() []string {
	p.tb.Helper()
	var out []string
	walk(p.tb, filepath.Join(p.Dir, "run"), func(path string, _ fs.DirEntry) { out = append(out, path) })
	return out
}

// Alive reports whether there is such a process and it is no zombie.
func Alive(pid int) bool {
	st, _ := processState(pid)
	return st != "" && st != "Z"
}

// Freeze stops a process with SIGSTOP and returns when each of its threads has stopped; a signal that was only sent may leave it time for one more answer.
// A process that is gone meanwhile counts as stopped.
func Freeze(tb testing.TB, pid int) {
	tb.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	Eventually(tb, fmt.Sprintf("process %d to be stopped", pid), func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			tb.Fatal(err)
		}
		for _, task := range tasks {
			if st, _ := stateIn(task); st != "T" && st != "Z" && st != "" {
				return false
			}
		}
		return true
	})
}

func sockets(tb testing.TB, dir string) []string {
	tb.Helper()
	var out []string
	walk(tb, dir, func(path string, e fs.DirEntry) {
		if e.Type()&fs.ModeSocket != 0 {
			out = append(out, "socket "+path)
		}
	})
	return out
}

// walk calls f for all below dir. What vanishes meanwhile is left out.
func walk(tb testing.TB, dir string, f func(string, fs.DirEntry)) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			f(path, e)
		} else if !os.IsNotExist(err) {
			return err
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func pids(tb testing.TB) []int {
	tb.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// processState returns the state and the parent of a process, as proc(5) has them in stat: after the name, which is in parentheses and may contain some.
func processState(pid int) (state string, parent int) {
	return stateIn(fmt.Sprintf("/proc/%d/stat", pid))
}

// stateIn is processState for the stat file of a process or of one of its threads.
func stateIn(stat string) (state string, parent int) {
	data, err := os.ReadFile(stat)
	if err != nil {
		return "", 0
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

func commandLine(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " ")
}
