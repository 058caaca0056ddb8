package integration_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// notReady waits until /readyz says 503 with the reason.
func notReady(t *testing.T, sup *harness.Process, reason string) {
	t.Helper()
	var code int
	var why string
	harness.Eventually(t, "/readyz with reason "+reason, func() bool {
		code, why = sup.Get("/readyz")
		return code == 503 && strings.Contains(why, reason)
	})
	if code, why := sup.Get("/healthz"); code != 200 {
		t.Errorf("/healthz says %d %s: an absent runtime is no fault of the supervisor", code, why)
	}
}

func ready(t *testing.T, sup *harness.Process) {
	t.Helper()
	harness.Eventually(t, "/readyz", func() bool {
		code, _ := sup.Get("/readyz")
		return code == 200
	})
}

func TestASupervisorWithoutARuntimeWaitsForItAndSaysWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, reason string
		spoil        func(t *testing.T, socket string)
		mend         func(t *testing.T, socket string)
	}{
		{"missing", "missing", func(*testing.T, string) {}, func(*testing.T, string) {}},
		{"refused", "refused", func(t *testing.T, socket string) {
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}, func(*testing.T, string) {}},
		{"no socket", "refused", func(t *testing.T, socket string) {
			if err := os.WriteFile(socket, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, func(*testing.T, string) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := harness.NewRuntime(t)
			rt.Stop()
			_ = os.Remove(rt.Socket)
			tt.spoil(t, rt.Socket)
			sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
			notReady(t, sup, tt.reason)
			l := sup.WaitLine(1, "runtime not reachable", map[string]any{"reason": tt.reason})
			if l["hint"] == "" || l["socket"] != rt.Socket {
				t.Errorf("the log line names neither what to do nor the socket: %v", l)
			}
			var status struct {
				Runtime struct {
					Connected    bool
					Reason, Hint string
				}
			}
			sup.Ask(&status, "status")
			if status.Runtime.Connected || status.Runtime.Reason != tt.reason || status.Runtime.Hint == "" {
				t.Errorf("status says %+v", status.Runtime)
			}
			if n := sup.Metric("nri_supervisor_runtime_connected"); n != "0" {
				t.Errorf("runtime_connected = %s", n)
			}
			tt.mend(t, rt.Socket)
			rt.Start()
			rt.WaitSync()
			sup.Ready(1, "gpu-env")
			ready(t, sup)
			if _, rpl := created(t, rt, harness.Pod("default", "a", "accelerator", "gpu")); env(rpl.GetAdjust())["GPU"] != "1" {
				t.Error("the plugin does not work after the runtime appeared")
			}
			if n := len(sup.Lines(func(l map[string]any) bool { return l["msg"] == "runtime not reachable" && l["reason"] == tt.reason })); n != 1 {
				t.Errorf("said %d times why the runtime is not reachable, want once", n)
			}
		})
	}
}

func TestASocketThatMayNotBeUsedIsSaidToBeThat(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	if err := os.Chmod(rt.Socket, 0); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(rt.Socket)
	if err := os.Chmod(folder, 0o755); err != nil { // so that it is the socket that nobody may use
		t.Fatal(err)
	}
	sup := harness.StartSupervisorWith(t, rt.Config(teams, ""), harness.Options{Unprivileged: true})
	notReady(t, sup, "permission")
	sup.WaitLine(1, "runtime not reachable", map[string]any{"reason": "permission"})
	if err := os.Chmod(rt.Socket, 0o777); err != nil {
		t.Fatal(err)
	}
	rt.WaitSync()
	ready(t, sup)
}

func TestARegistrationThatStopsHalfwayIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		halfway func(t *testing.T, c net.Conn)
		reason  string
	}{
		{"closed at once", func(_ *testing.T, c net.Conn) { _ = c.Close() }, "rejected"},
		{"silent", func(t *testing.T, c net.Conn) { harness.Halfway{Silent: true}.Serve(t, c) }, "timeout"},
		{"refused", func(t *testing.T, c net.Conn) { harness.Halfway{Refuse: errors.New("not you")}.Serve(t, c) }, "rejected"},
		{"closed after the registration", func(t *testing.T, c net.Conn) { harness.Halfway{CloseAfterRegister: true}.Serve(t, c) }, ""},
		{"silent after the registration", func(t *testing.T, c net.Conn) { harness.Halfway{}.Serve(t, c) }, "timeout"},
		{"closed after Configure", func(t *testing.T, c net.Conn) {
			harness.Halfway{Configure: func(api.EventMask) bool { return true }, CloseAfterConfigure: true}.Serve(t, c)
		}, ""},
		{"silent after Configure", func(t *testing.T, c net.Conn) {
			harness.Halfway{Configure: func(api.EventMask) bool { return true }}.Serve(t, c)
		}, "timeout"},
		{"garbage", func(_ *testing.T, c net.Conn) {
			_, _ = c.Write(slices.Repeat([]byte{0xff}, 4096))
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const times = 2 // from the second on, what a first attempt left behind would show
			rt := harness.NewRuntime(t)
			rt.Intercept(func(n int, c net.Conn) bool {
				if n > times {
					return false
				}
				tt.halfway(t, c)
				return true
			})
			sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
			if tt.reason != "" {
				sup.WaitLine(1, "runtime not reachable", map[string]any{"reason": tt.reason})
			}
			rt.WaitSync()
			sup.Ready(1, "gpu-env")
			ready(t, sup)
			if _, rpl := created(t, rt, harness.Pod("default", "a", "accelerator", "gpu")); env(rpl.GetAdjust())["GPU"] != "1" {
				t.Error("the plugin does not work after the registration")
			}
			if n := rt.Dials(); n != times+1 {
				t.Errorf("%d connections, want %d", n, times+1)
			}
			if n := sup.Starts("gpu-env"); n != 1 {
				t.Errorf("the plugin was started %d times, want once", n)
			}
			if tt.reason != "timeout" { // a runtime that closes the connection is noticed at once, not when the registration is overdue
				if n := len(sup.Lines(func(l map[string]any) bool { return l["reason"] == "timeout" })); n != 0 {
					t.Errorf("took a closed connection for a silent runtime")
				}
			}
			if code := sup.Stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestStoppingDuringAHalfRegistrationDoesNotHang(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	arrived := make(chan struct{}, 10)
	rt.Intercept(func(_ int, c net.Conn) bool {
		arrived <- struct{}{}
		harness.Halfway{}.Serve(t, c)
		return true
	})
	sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
	<-arrived
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestARuntimeThatDoesNotKnowNewerEventsGetsTheClassicOnes(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	newer := api.MustParseEventMask("UpdatePodSandbox", "PostUpdatePodSandbox", "ValidateContainerAdjustment")
	var mu sync.Mutex
	var masks []api.EventMask
	rt.Intercept(func(n int, c net.Conn) bool {
		if n > 3 {
			return false
		}
		harness.Halfway{Configure: func(events api.EventMask) bool {
			mu.Lock()
			defer mu.Unlock()
			masks = append(masks, events)
			return events&newer == 0 && n < 3
		}}.Serve(t, c)
		return true
	})
	sup := harness.StartSupervisor(t, rt.Config(teams, gpuEnv(t)))
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	mu.Lock()
	defer mu.Unlock()
	if len(masks) != 3 || masks[0]&newer == 0 || masks[1]&newer == 0 || masks[2]&newer != 0 {
		t.Errorf("subscribed to %v, want all events, once more since one broken registration is no refusal, and then none that an old runtime does not know", masks)
	}
	for i, m := range masks {
		if m == 0 {
			t.Errorf("subscription %d is 0, which means everything, with validation", i)
		}
		if m.IsSet(api.Event_VALIDATE_CONTAINER_ADJUSTMENT) {
			t.Errorf("subscription %d has validation, which nobody asked for", i)
		}
	}
}

func TestTenRestartsOfTheRuntimeLeaveThePluginsAlone(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "stays")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "stays")
	pid := sup.PluginPID("stays")
	fds := 0
	for i := range 10 {
		rt.Stop()
		sup.WaitLine(i+1, "runtime lost", nil)
		rt.Start()
		rt.WaitSync()
		sup.Ready(i+2, "stays")
		if i == 1 {
			fds = sup.Descriptors()
		}
	}
	if got := sup.PluginPID("stays"); got != pid {
		t.Errorf("the plugin is process %d, was %d", got, pid)
	}
	if n := sup.Descriptors(); n > fds+2 {
		t.Errorf("%d open files after ten restarts, %d after two", n, fds)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
