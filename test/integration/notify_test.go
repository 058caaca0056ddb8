package integration_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestSystemdIsToldHowTheServiceDoes(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	socket := filepath.Join(harness.TempDir(t), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var mu sync.Mutex
	var said []string
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := l.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			said = append(said, string(buf[:n]))
			mu.Unlock()
		}
	}()
	count := func(text string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range said {
			n += strings.Count("\n"+s+"\n", text)
		}
		return n
	}
	sup := harness.StartSupervisorWith(t, rt.Config(teams, gpuEnv(t)), harness.Options{Env: []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=300000"}})
	rt.WaitSync()
	harness.Eventually(t, "ready, a status and a fed watchdog", func() bool {
		return count("\nREADY=1\n") == 1 && count("\nSTATUS=registered with harness 1.0.0") == 1 && count("\nWATCHDOG=1\n") >= 3
	})
	sup.Signal(syscall.SIGHUP)
	harness.Eventually(t, "a reload that has ended", func() bool { return count("\nRELOADING=1\nMONOTONIC_USEC=") == 1 && count("\nREADY=1\n") == 2 })
	rt.Stop()
	harness.Eventually(t, "a status without a runtime", func() bool { return count("\nSTATUS=runtime ") >= 2 })
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	harness.Eventually(t, "the end", func() bool { return count("\nSTOPPING=1\n") == 1 })
	if n := count("\nREADY=1\n"); n != 2 {
		t.Errorf("ready %d times, want after the start and after the reload", n)
	}
}
