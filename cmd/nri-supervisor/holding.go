package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holding is what a process holds.
type holding struct {
	fds, threads, rss int            // rss in KiB
	children          map[int]string // by pid, with the time of their start
}

// held looks into /proc (proc(5)).
func held(pid int) holding {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	h := holding{children: map[int]string{}}
	if fds, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil {
		h.fds = len(fds)
	}
	if status, err := os.ReadFile(filepath.Join(dir, "status")); err == nil {
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB")) // 0 for what is no number
			switch name {
			case "Threads":
				h.threads = n
			case "VmRSS":
				h.rss = n
			}
		}
	}
	tasks, _ := filepath.Glob(filepath.Join(dir, "task", "*", "children")) // the pattern is a good one
	for _, t := range tasks {
		list, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		for word := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(word); err == nil {
				h.children[child] = startedAt(child)
			}
		}
	}
	return h
}

// startedAt is when a process was started, in ticks since the boot; with the pid it names a process. Empty when there is none.
func startedAt(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may hold anything but is followed by this
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}
