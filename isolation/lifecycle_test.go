package isolation_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// quickGrace makes impolite plugins end soon.
func quickGrace() isolation.StopGrace {
	const d = 200 * time.Millisecond
	return isolation.StopGrace{Shutdown: d, Term: d, Drain: d}
}

func TestAPluginThatIgnoresEverythingIsKilled(t *testing.T) {
	t.Parallel()
	s := spec(t, isolation.NRI, "ignore-term")
	s.StopGrace = quickGrace()
	i := startAndConfigure(t, s)
	exit := i.Stop(t.Context())
	if exit.Reason != isolation.ReasonStopped || exit.Signal != syscall.SIGKILL || exit.Alive {
		t.Errorf("exit %s", exit)
	}
	nothingLeft(t, s, i.PID())
}

func TestAStoppedProcessIsEndedInBoundedTime(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*isolation.Instance) isolation.Exit{
		"by Stop": func(i *isolation.Instance) isolation.Exit { return i.Stop(context.Background()) },
		"by Kill": func(i *isolation.Instance) isolation.Exit { return i.Kill(isolation.ReasonHung) },
	} {
		for _, protocol := range []isolation.Protocol{isolation.GoPlugin, isolation.NRI} {
			t.Run(name+" "+protocol.String(), func(t *testing.T) {
				t.Parallel()
				s := spec(t, protocol, map[isolation.Protocol]string{isolation.GoPlugin: "sdk", isolation.NRI: "stock"}[protocol])
				s.StopGrace = quickGrace()
				s.StopGrace.Term = patience // it is continued, so that it can obey
				i := startAndConfigure(t, s)
				if err := syscall.Kill(i.PID(), syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				eventually(t, "process is stopped", func() bool { return stopped(i.PID()) })
				began := time.Now()
				exit := end(i)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %s", took)
				}
				if killed := exit.Signal == syscall.SIGKILL; exit.Alive || killed != (exit.Reason == isolation.ReasonHung) {
					t.Errorf("exit %s", exit)
				}
				nothingLeft(t, s, i.PID())
			})
		}
	}
}

func TestTheReasonOfAnEndIsTheFirstCause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(t *testing.T, i *isolation.Instance)
		reason isolation.Reason
		code   int
		signal syscall.Signal
		words  string
	}{
		"killed by a stranger": {func(t *testing.T, i *isolation.Instance) {
			t.Helper()
			if err := syscall.Kill(i.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, isolation.ReasonSignal, -1, syscall.SIGKILL, ""},
		"panic in a handler": {func(t *testing.T, i *isolation.Instance) {
			t.Helper()
			if _, err := create(t, i, "panic:bad pod"); !errors.Is(err, ttrpc.ErrClosed) {
				t.Errorf("call ended with %v", err)
			}
		}, isolation.ReasonExitCode, 2, 0, "as told: bad pod"},
		"exit in a handler": {func(t *testing.T, i *isolation.Instance) {
			t.Helper()
			if _, err := create(t, i, "exit"); !errors.Is(err, ttrpc.ErrClosed) {
				t.Errorf("call ended with %v", err)
			}
		}, isolation.ReasonExitCode, 5, 0, ""},
		"hung": {func(_ *testing.T, i *isolation.Instance) {
			i.Kill(isolation.ReasonHung)
			i.Kill(isolation.ReasonHealth)
			i.Stop(context.Background())
		}, isolation.ReasonHung, -1, syscall.SIGKILL, ""},
		"health": {
			func(_ *testing.T, i *isolation.Instance) { i.Kill(isolation.ReasonHealth) },
			isolation.ReasonHealth, -1, syscall.SIGKILL, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(t, isolation.GoPlugin, "sdk")
			i := startAndConfigure(t, s)
			tt.end(t, i)
			wait(t, i.ConnClosed(), "connection is closed")
			wait(t, i.Done(), "instance is done")
			exit := i.Exit()
			if exit.Reason != tt.reason || exit.Code != tt.code || exit.Signal != tt.signal {
				t.Errorf("exit %s (code %d)", exit, exit.Code)
			}
			if words := strings.Join(exit.LastOutput, "\n"); !strings.Contains(words, tt.words) {
				t.Errorf("last output %q lacks %q", words, tt.words)
			}
			if exit.Uptime <= 0 || exit.Ended.Sub(exit.Started) != exit.Uptime {
				t.Errorf("uptime %s, from %s to %s", exit.Uptime, exit.Started, exit.Ended)
			}
			nothingLeft(t, s, i.PID())
		})
	}
}

func TestAKillCutsAStopShortAndLeavesItsReason(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.NRI, "ignore-term")
	s.OnOutput = out.add
	s.StopGrace = isolation.StopGrace{Shutdown: time.Hour}
	i := startAndConfigure(t, s)
	stopped := make(chan isolation.Exit, 1)
	go func() { stopped <- i.Stop(context.Background()) }()
	out.wait(t, withText("shutdown handler called"))
	if exit := i.Kill(isolation.ReasonHung); exit.Reason != isolation.ReasonStopped || exit.Signal != syscall.SIGKILL {
		t.Errorf("exit %s", exit)
	}
	if exit := <-stopped; exit.Reason != isolation.ReasonStopped {
		t.Errorf("exit %s", exit)
	}
}

func TestTheEndOfItsContextCutsAStopShort(t *testing.T) {
	t.Parallel()
	s := spec(t, isolation.NRI, "ignore-term")
	s.StopGrace = isolation.StopGrace{Shutdown: time.Hour, Term: time.Hour}
	i := startAndConfigure(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if exit := i.Stop(ctx); exit.Reason != isolation.ReasonStopped || exit.Signal != syscall.SIGKILL {
		t.Errorf("exit %s", exit)
	}
}

func TestStopAndKillMayBeCalledAtTheSameTimeAndAgain(t *testing.T) {
	t.Parallel()
	i := startAndConfigure(t, spec(t, isolation.GoPlugin, "sdk"))
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			if n%2 == 0 {
				i.Stop(context.Background())
			} else {
				i.Kill(isolation.ReasonHung)
			}
			if state := processState(i.PID()); state != "" {
				t.Errorf("returned while the process was %q", state)
			}
		})
	}
	all.Wait()
	first := i.Exit()
	if again := i.Stop(t.Context()); again.Reason != first.Reason || !again.Ended.Equal(first.Ended) {
		t.Errorf("exit changed from %s to %s", first, again)
	}
}

func TestAChildInThePluginsGroupIsKilledWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(runDir(t), "pid")
	i := startAndConfigure(t, spec(t, isolation.GoPlugin, "fork:"+file))
	child := readPID(t, file)
	if state := processState(child); state == "" {
		t.Fatal("the child does not run")
	}
	i.Stop(t.Context())
	eventually(t, "child is gone", func() bool { s := processState(child); return s == "" || s == "Z" })
}

func TestAGrandchildThatHoldsThePipesDelaysNobody(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork-session", "fork-exit"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(runDir(t), "pid")
			s := spec(t, isolation.GoPlugin, mode+":"+file)
			s.StopGrace = quickGrace()
			began := time.Now()
			i, err := isolation.Start(t.Context(), s)
			if mode == "fork-exit" {
				_ = startError(t, err)
			} else {
				if err != nil {
					t.Fatal(err)
				}
				i.Stop(t.Context())
				wait(t, i.Done(), "instance is done")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			child := readPID(t, file)
			if state := processState(child); state == "" {
				t.Error("the child did not hold the pipes")
			}
			if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			if files := filesIn(t, s.RunDir); len(files) > 0 {
				t.Errorf("files are left: %q", files)
			}
		})
	}
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestAHundredCrashesLeaveNoDescriptorGoroutineFileOrZombie(t *testing.T) { //nolint:paralleltest // it counts this process's descriptors
	sdk, stock := spec(t, isolation.GoPlugin, "sdk"), spec(t, isolation.NRI, "stock")
	crash := func(n int) {
		s := stock // starts in a fraction of the time
		if n%4 < 2 {
			s = sdk
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		i, err := isolation.Start(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 { // in the middle of a call
			go func() { _, _ = i.Plugin().CreateContainer(ctx, hangRequest()) }()
		}
		if err := syscall.Kill(i.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, i.Done(), "instance is done")
		if files := filesIn(t, s.RunDir); len(files) > 0 {
			t.Fatalf("files are left: %q", files)
		}
	}
	crash(1) // what is made once and stays
	crash(2)
	var fds, goroutines int
	eventually(t, "all is quiet", func() bool { return steady(t, &fds, &goroutines) })
	for n := range 100 {
		crash(n)
	}
	eventually(t, "descriptors and goroutines are back to what they were", func() bool {
		return openFds(t) <= fds && runtime.NumGoroutine() <= goroutines
	})
	if zombies := zombieChildren(t); len(zombies) > 0 {
		t.Errorf("zombies %v", zombies)
	}
}

// steady tells whether two readings in a row are equal.
func steady(t *testing.T, fds, goroutines *int) bool {
	t.Helper()
	f, g := openFds(t), runtime.NumGoroutine()
	same := f == *fds && g == *goroutines
	*fds, *goroutines = f, g
	return same
}

func hangRequest() *api.CreateContainerRequest {
	return &api.CreateContainerRequest{Pod: &api.PodSandbox{Id: "p"}, Container: &api.Container{Id: "c", Name: "hang"}}
}

// zombieChildren lists this process's dead children.
func zombieChildren(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || processState(pid) != "Z" {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestNoPluginSurvivesAKilledSupervisor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(runDir(t), "pid")
	host := startHost(t, file)
	var plugin int
	eventually(t, "host started its plugin", func() bool {
		data, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		plugin, err = strconv.Atoi(string(data))
		return err == nil
	})
	if processState(plugin) == "" {
		t.Fatal("the plugin does not run")
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait() // it was killed
	eventually(t, "plugin is gone", func() bool { s := processState(plugin); return s == "" || s == "Z" })

	// The next supervisor finds what the killed one left, and removes it.
	s := spec(t, isolation.GoPlugin, "sdk")
	s.RunDir = filepath.Dir(file)
	left := func() []string {
		return slices.DeleteFunc(filesIn(t, s.RunDir), func(f string) bool { return f == "pid" })
	}
	if len(left()) == 0 {
		t.Error("the killed supervisor left nothing to be swept")
	}
	start(t, s).Stop(t.Context())
	if files := left(); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}
