//go:build root

package isolation_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// run executes a program that is no plugin, and returns what came of it.
func run(t *testing.T, s isolation.Spec, path string, args ...string) isolation.Exit {
	t.Helper()
	s.Path, s.Args = path, args
	i, err := isolation.Start(t.Context(), s)
	if err == nil {
		i.Kill(isolation.ReasonStopped)
		t.Fatalf("%s is a plugin", path)
	}
	se, ok := errors.AsType[*isolation.StartError](err)
	if !ok || se.Phase != isolation.PhaseRegister {
		t.Fatal(err)
	}
	return se.Exit
}

func TestAProcessLimitHoldsAndTheSameAttemptSucceedsWithoutIt(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	limited := func(r isolation.Resource, value uint64) isolation.Confinement {
		c := isolation.Standard([]string{dir})
		c.RLimits = []isolation.RLimit{{Resource: r, Value: value}}
		return c
	}
	standard := isolation.Standard([]string{dir})
	const large = "bs=96M"
	for _, tt := range []struct {
		limit isolation.Resource
		value uint64
		args  []string
	}{
		{isolation.AddressSpace, 64 << 20, []string{"if=/dev/zero", "of=/dev/null", large, "count=1"}},
		{isolation.DataSegment, 64 << 20, []string{"if=/dev/zero", "of=/dev/null", large, "count=1"}},
		{isolation.FileSize, 4 << 10, []string{"if=/dev/zero", "of=own-file", "bs=8k", "count=2"}},
	} {
		free := run(t, spec(t, h, dir, standard), "/bin/dd", tt.args...)
		if free.Code != 0 || free.Signal != 0 {
			t.Errorf("%s: without it: %s", tt.limit, free)
		}
		got := run(t, spec(t, h, dir, limited(tt.limit, tt.value)), "/bin/dd", tt.args...)
		if (got.Code == 0 && got.Signal == 0) || (tt.limit == isolation.FileSize) != (got.Signal == syscall.SIGXFSZ) {
			t.Errorf("%s: with it: %s", tt.limit, got)
		}
	}
	if got := ask(t, start(t, spec(t, h, dir, isolation.Confinement{Cgroup: true})), "lock:256"); got != "ok" {
		t.Errorf("memlock: without it: %s", got)
	}
	if got := ask(t, start(t, spec(t, h, dir, limited(isolation.LockedMemory, 4<<10))), "lock:256"); !strings.HasPrefix(got, "denied: ") {
		t.Errorf("memlock: with it: %s", got)
	}
	user := isolation.Standard([]string{dir})
	user.User, user.Capabilities = &isolation.User{UID: 0x6ffffff0, GID: 0x6ffffff0}, nil
	if got := ask(t, start(t, spec(t, h, dir, user)), "fork:60"); got != "ok" {
		t.Errorf("nproc: without it: %s", got)
	}
	user.User = &isolation.User{UID: 0x6ffffff1, GID: 0x6ffffff1}
	user.RLimits = []isolation.RLimit{{Resource: isolation.UserProcesses, Value: 60}}
	if got := ask(t, start(t, spec(t, h, dir, user)), "fork:60"); !strings.Contains(got, "resource temporarily unavailable") {
		t.Errorf("nproc: with it: %s", got)
	}
}

func TestEachProcessLimitOfAManifestReachesThePlugin(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	c := isolation.Strict([]string{dir})
	c.NoFile = 256
	c.RLimits = []isolation.RLimit{
		{Resource: isolation.AddressSpace, Value: 512 << 20},
		{Resource: isolation.DataSegment, Value: 256 << 20},
		{Resource: isolation.FileSize, Value: 1 << 20},
		{Resource: isolation.LockedMemory, Value: 8 << 10},
		{Resource: isolation.MessageQueues, Value: 4 << 10},
		{Resource: isolation.UserProcesses, Value: 100},
		{Resource: isolation.PendingSignals, Value: 50},
		{Resource: isolation.StackSize, Value: 2 << 20},
	}
	exit := run(t, spec(t, h, dir, c), "/bin/cat", "/proc/self/limits")
	var got []string
	for _, line := range exit.LastOutput {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"Max address space 536870912 536870912 bytes", "Max data size 268435456 268435456 bytes", "Max file size 1048576 1048576 bytes",
		"Max locked memory 8192 8192 bytes", "Max msgqueue size 4096 4096 bytes", "Max processes 100 100 processes",
		"Max pending signals 50 50 signals", "Max stack size 2097152 2097152 bytes", "Max open files 256 256 files", "Max core file size 0 0 bytes",
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}
