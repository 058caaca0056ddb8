//go:build root

package isolation_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestALimitHoldsAndTheSameAttemptSucceedsWithoutIt(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	for name, tt := range map[string]struct {
		attempt string
		limit   isolation.Confinement
		denied  string
	}{
		"fork bomb":  {"fork:60", isolation.Confinement{Limits: isolation.Limits{PIDs: 40}}, "resource temporarily unavailable"},
		"memory hog": {"memory:200", isolation.Confinement{Limits: isolation.Limits{Memory: 100 << 20}}, "gone: "},
		"fd hog":     {"files:200", isolation.Confinement{NoFile: 100}, "too many open files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			free := start(t, spec(t, h, dir, isolation.Confinement{}))
			if got := ask(t, free, tt.attempt); got != "ok" {
				t.Errorf("without a limit: %s", got)
			}
			limited := start(t, spec(t, h, dir, tt.limit))
			if got := ask(t, limited, tt.attempt); !strings.Contains(got, tt.denied) {
				t.Errorf("with the limit: %s, want %q", got, tt.denied)
			}
			if name != "memory hog" {
				return
			}
			wait(t, limited.Done(), "the plugin has ended")
			if exit := limited.Exit(); exit.Reason != isolation.ReasonOOM || exit.Signal != syscall.SIGKILL {
				t.Errorf("exit %s", exit)
			}
		})
	}
}

func TestAPluginThatIsKilledForWantOfMemoryAtItsStartSaysSo(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	s := spec(t, h, dir, isolation.Confinement{Limits: isolation.Limits{Memory: 100 << 20}})
	s.Args = append(s.Args, "memory:200")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	i, err := isolation.Start(ctx, s)
	if err == nil {
		i.Kill(isolation.ReasonStopped)
	}
	if err == nil || !strings.Contains(err.Error(), "killed for want of memory before it was ready: resources.limits.memory is 104857600 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestAChildThatIsKilledForWantOfMemoryIsToldAndIsNotTheEndOfThePlugin(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	s := spec(t, h, dir, isolation.Confinement{Limits: isolation.Limits{Memory: 200 << 20}})
	told := make(chan int, 10)
	s.OnOOM = func(killed int) { told <- killed }
	i := start(t, s)
	got := ask(t, i, "child:memory:400")
	if bases, err := os.ReadFile(filepath.Join(dir, "cgroups")); err != nil || len(strings.Fields(string(bases))) == 1 { // on cgroup v2 a plugin lives and dies as a whole
		wait(t, i.Done(), "the plugin has ended")
		if exit := i.Exit(); exit.Reason != isolation.ReasonOOM || len(told) > 0 {
			t.Errorf("exit %s, told %d times of others", exit, len(told))
		}
		return
	}
	if !strings.Contains(got, "signal: killed") {
		t.Errorf("the child: %s", got)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case n := <-told:
		if n != 1 {
			t.Errorf("told of %d processes, want 1", n)
		}
	case <-timer.C:
		t.Fatalf("not told within %s", patience)
	}
	if got := ask(t, i, "nothing"); got != "ok" {
		t.Errorf("the plugin itself: %s", got)
	}
	_ = syscall.Kill(i.PID(), syscall.SIGKILL)
	wait(t, i.Done(), "the plugin has ended")
	if exit := i.Exit(); exit.Reason != isolation.ReasonSignal || len(told) > 0 {
		t.Errorf("exit %s, told %d times more", exit, len(told))
	}
}

func TestACPULimitHolds(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	i := start(t, spec(t, h, dir, isolation.Confinement{Limits: isolation.Limits{CPU: 100}}))
	// A tenth of a core for a second, and one period more. On a busy machine it may get less, but never more.
	if ms := number(t, ask(t, i, "spin:1s")); ms > 300 {
		t.Errorf("used %d ms of processor time in a second under a limit of 100m", ms)
	}
}

func TestThePluginGetsNothingOfTheStage(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	i := start(t, spec(t, h, dir, isolation.Confinement{Cgroup: true, OOMScore: 500}))
	for profile, plugin := range map[string]*isolation.Instance{"none": i, "standard": start(t, spec(t, h, dir, isolation.Standard([]string{dir})))} {
		for fd := range strings.FieldsSeq(ask(t, plugin, "fds")) {
			number, target, _ := strings.Cut(fd, "=")
			switch {
			case number == "0" && target == "/dev/null", number == "1", number == "2", number == "3":
			case strings.HasPrefix(target, "anon_inode:"), strings.HasPrefix(target, "/proc/"), strings.HasPrefix(target, "/sys/fs/cgroup"): // Go's
			case strings.HasPrefix(target, "socket:"): // NRI's stub duplicates descriptor 3
			default:
				t.Errorf("profile %s: descriptor %s", profile, fd)
			}
		}
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := number(t, ask(t, i, "oomscore")), number(t, strings.TrimSpace(string(own)))+500; got != min(want, 1000) {
		t.Errorf("oom_score_adj %d, want %d", got, want)
	}
	limits := ask(t, i, "limits")
	for _, want := range [][]string{{"Max core file size", "0", "0"}, {"Max open files", "1024"}} {
		found := false
		for line := range strings.Lines(limits) {
			rest, ok := strings.CutPrefix(line, want[0])
			found = found || ok && strings.HasPrefix(strings.Join(strings.Fields(rest), " ")+" ", strings.Join(want[1:], " ")+" ")
		}
		// Go raises the soft limit of open files to the hard one for itself, so the first number may be that.
		if !found && want[0] == "Max core file size" {
			t.Errorf("no %q in\n%s", want, limits)
		}
	}
}

func TestEachPluginHasACgroupOfItsOwnAndItGoesWithIt(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	a := start(t, spec(t, h, dir, isolation.Confinement{Cgroup: true}))
	b := start(t, spec(t, h, dir, isolation.Confinement{Cgroup: true}))
	if x, y := ask(t, a, "cgroups"), ask(t, b, "cgroups"); x == y || !strings.Contains(x, "/nri-supervisor-") {
		t.Errorf("cgroups %q and %q", x, y)
	}
	if n := len(cgroupsOf(t, dir)); n < 2 {
		t.Errorf("%d cgroups for two plugins", n)
	}
	a.Stop(t.Context())
	b.Kill(isolation.ReasonHung)
	if left := cgroupsOf(t, dir); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
}

func TestAHostWithoutLimitsHasCgroupsAndRefusesALimit(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: dir, Helper: []string{helper}, NoLimits: true, OnProblem: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	i := start(t, spec(t, h, dir, isolation.Confinement{Cgroup: true}))
	if all := cgroupsOf(t, dir); len(all) != 1 {
		t.Errorf("cgroups %q, want one", all)
	}
	if got := ask(t, i, "nothing"); got != "ok" {
		t.Error(got)
	}
	if got := startError(t, spec(t, h, dir, isolation.Confinement{Limits: isolation.Limits{PIDs: 40}})); !strings.Contains(got.Error(), "without limits") {
		t.Errorf("with a limit: %v", got)
	}
}
