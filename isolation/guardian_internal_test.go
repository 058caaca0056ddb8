package isolation

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestAProcessThatItsTracerHoldsStandsStill(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} // it stops at its execution
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	const patience = 60 * time.Second
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !stopped(cmd.Process.Pid) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it runs on for %s", patience)
		}
	}
}
