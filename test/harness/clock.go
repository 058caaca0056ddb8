package harness

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ClockSkew is how far the wall clock of [SupervisorWithJumpingClock] is off at most. It is more than a day, which is more than anything that the supervisor keeps by the wall clock lasts.
const ClockSkew = "25h"

// SupervisorWithJumpingClock returns the path of the same supervisor on another clock: at SIGUSR2 its wall clock jumps forward by [ClockSkew], 150 ms later back to as far behind, and after
// another 150 ms to the right time. Its monotonic clock goes on, as the kernel's does when somebody sets the time. Only the standard library's time.Now differs, so what is tested is the
// product's own code, and the machine's clock, which is everybody's, stays as it is. Building it takes minutes, since all of the standard library is built for it.
func SupervisorWithJumpingClock(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	goroot, err := exec.CommandContext(tb.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatal(err)
	}
	std := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		tb.Fatal(err)
	}
	const reading = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(string(source), reading); n != 1 {
		tb.Fatalf("time.Now of this Go version does not begin as expected: change the text in %s", "test/harness/clock.go")
	}
	overlay := map[string]string{}
	replace := func(path, name, text string) {
		tb.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil { //nolint:gosec // a folder of the test
			tb.Fatal(err)
		}
		overlay[path] = file
	}
	replace(filepath.Join(std, "time.go"), "time.go", strings.Replace(string(source), reading, reading+"\tsec += WallClockSkew.Load()\n", 1))
	replace(filepath.Join(std, "skew.go"), "skew.go", "package time\n\nimport \"sync/atomic\"\n\n// WallClockSkew is in seconds.\nvar WallClockSkew atomic.Int64\n")
	replace(filepath.Join(root(tb), "cmd", "nri-supervisor", "clock_jumps.go"), "clock_jumps.go", `package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func init() {
	skew, err := time.ParseDuration("`+ClockSkew+`")
	if err != nil {
		panic(err)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR2)
	go func() {
		for range asked {
			time.WallClockSkew.Store(int64(skew.Seconds()))
			time.Sleep(150 * time.Millisecond)
			time.WallClockSkew.Store(-int64(skew.Seconds()))
			time.Sleep(150 * time.Millisecond)
			time.WallClockSkew.Store(0)
		}
	}()
}
`)
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return buildAs(tb, "cmd/nri-supervisor", "nri-supervisor-jumping", "-overlay="+file)
}
