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
