//go:build root

package isolation_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// usage is what this process, as a supervisor, holds.
type usage struct{ fds, goroutines, children int }

func ownUsage(t *testing.T) usage {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return usage{len(entries), runtime.NumGoroutine(), len(strings.Fields(string(children)))}
}

// resident is this process's resident memory in bytes, after a collection.
func resident(t *testing.T) int {
	t.Helper()
	runtime.GC()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestFiveHundredCrashesLeaveNothing(t *testing.T) { //nolint:paralleltest // it counts what this process holds
	h, dir := openHost(t)
	crash := func() {
		s := spec(t, h, dir, isolation.Standard([]string{dir}))
		i, err := isolation.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(i.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, i.Done(), "instance is done")
	}
	for range 20 { // what is made once and stays
		crash()
	}
	before, memory := ownUsage(t), resident(t)
	for range 500 {
		crash()
	}
	eventually(t, "all is as before", func() bool {
		now := ownUsage(t)
		return now.fds <= before.fds && now.goroutines <= before.goroutines && now.children <= before.children
	})
	// What the heap and the race detector keep for the next time is a few MiB whatever the number of crashes is.
	const noise = 16 << 20
	if now := resident(t); now > memory+noise {
		t.Errorf("resident memory grew from %d to %d bytes", memory, now)
	}
	if left := cgroupsOf(t, dir); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
	if entries, err := os.ReadDir(dir + "/plugins/test"); err != nil || len(entries) > 0 {
		t.Errorf("directories are left: %v, %v", entries, err)
	}
}

func TestAFloodOfOutputCostsThePluginAndNobodyElse(t *testing.T) { //nolint:paralleltest // it measures this process's memory
	h, dir := openHost(t)
	s := spec(t, h, dir, isolation.Standard([]string{dir}))
	var dropped, longest int
	s.OnOutput = func(l isolation.Line) {
		dropped += l.Dropped
		longest = max(longest, len(l.Text))
	}
	i := start(t, s)
	before := resident(t)
	for _, flood := range []string{"flood:lines", "flood:long", "flood:binary"} {
		if got := ask(t, i, flood); got != "ok" {
			t.Errorf("%s: %s", flood, got)
		}
		if got := ask(t, i, "nothing"); got != "ok" {
			t.Errorf("an event after %s: %s", flood, got)
		}
	}
	const noise = 16 << 20
	if now := resident(t); now > before+noise {
		t.Errorf("resident memory grew from %d to %d bytes", before, now)
	}
	if got := ask(t, i, "closeoutput"); got != "ok" {
		t.Errorf("closing its output: %s", got)
	}
	if got := ask(t, i, "nothing"); got != "ok" {
		t.Errorf("an event without output: %s", got)
	}
	exit := i.Stop(t.Context())
	if len(exit.LastOutput) == 0 {
		t.Error("its last lines were not kept")
	}
	if dropped == 0 || longest > 6*isolation.MaxLine { // an escape has up to six
		t.Errorf("%d lines dropped, the longest of the others has %d bytes", dropped, longest)
	}
}
