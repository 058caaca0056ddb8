package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// processorTime is how long all threads of a process have run so far, as the scheduler counts it; 0 when it is gone. Unlike time on the clock it hardly depends on what else the
// machine does.
func processorTime(pid int) time.Duration {
	var sum time.Duration
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0
	}
	for _, t := range tasks {
		text, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended
		}
		if ran, _, ok := strings.Cut(string(text), " "); ok {
			ns, _ := strconv.ParseInt(ran, 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// used is how much of the machine's processors was used until a moment, in ticks of the kernel.
type used struct{ total, busy, own float64 }

// usedProcessors is what all used, and what this process and its descendants did, those that have ended included; zero where /proc does not tell.
func usedProcessors() used {
	var u used
	text, _ := os.ReadFile("/proc/stat")
	all, _, _ := strings.Cut(string(text), "\n")
	for i, f := range strings.Fields(all) {
		const idle, iowait, steal = 4, 5, 8 // fields of the line "cpu", see proc(5)
		ticks, _ := strconv.ParseFloat(f, 64)
		if i == 0 || i > steal {
			continue
		}
		u.total += ticks
		if i != idle && i != iowait {
			u.busy += ticks
		}
	}
	parents, times := processes()
	for pid, ticks := range times {
		for at := pid; at > 0; at = parents[at] {
			if at == os.Getpid() {
				u.own += ticks
				break
			}
		}
	}
	return u
}

// processes are the parents of all processes, and what each used, with its children that have ended.
func processes() (parents map[int]int, times map[int]float64) {
	parents, times = map[int]int{}, map[int]float64{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		const parent, first, last = 1, 11, 14                                      // see proc(5), counted from the state, which follows the name
		f := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:])) // a name may have anything in it
		if len(f) <= last {
			continue
		}
		parents[pid], _ = strconv.Atoi(f[parent])
		for _, t := range f[first : last+1] {
			ticks, _ := strconv.ParseFloat(t, 64)
			times[pid] += ticks
		}
	}
	return parents, times
}

// others is the part of the machine that neither this process nor its descendants used since before, of 1.
func (u used) others(before used) float64 {
	if u.total <= before.total {
		return 0
	}
	return max(0, (u.busy-before.busy)-(u.own-before.own)) / (u.total - before.total)
}
