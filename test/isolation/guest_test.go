//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// inGuest says that this process is the first of a guest that has cgroup v2 only; see tools/cgroup2.sh.
func inGuest() bool { return os.Getpid() == 1 }

// beInit makes the guest usable, runs the tests with the arguments that the image has, says how they ended, and switches the guest off.
func beInit(m *testing.M) {
	err := errors.Join(
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("sysfs", "/sys", "sysfs", 0, ""),
		unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""),
		unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""),
		unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""),
	)
	args, readErr := os.ReadFile("/etc/test-args")
	code := 1
	if err = errors.Join(err, readErr); err == nil {
		os.Args = append([]string{"/init"}, strings.Split(strings.TrimRight(string(args), "\n"), "\n")...)
		fmt.Println("guest: tests")
		code = m.Run()
	}
	fmt.Printf("\nguest: mounts %v\nguest: exit code %d\n", err, code)
	_ = os.Stdout.Sync()
	<-time.After(100 * time.Millisecond) // the serial line has no end that could be waited for
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func TestRaisingItsOwnLimitsIsDenied(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	limited := isolation.Standard([]string{dir})
	limited.NoFile = 100
	if got := ask(t, start(t, spec(t, h, dir, limited)), "rlimit:200"); !strings.HasPrefix(got, "denied: ") {
		t.Errorf("with the profile: %s", got)
	}
	if !inGuest() { // this machine may lack SYS_RESOURCE itself
		return
	}
	if got := ask(t, start(t, spec(t, h, dir, isolation.Confinement{NoFile: 100})), "rlimit:200"); got != "ok" {
		t.Errorf("without: %s", got)
	}
}

func TestOtherProcessesAreShieldedAsFarAsTheKernelCan(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	other := start(t, spec(t, h, dir, isolation.Standard([]string{dir})))
	i := start(t, spec(t, h, dir, isolation.Standard([]string{dir})))
	free := start(t, spec(t, h, dir, isolation.Confinement{}))
	for _, words := range []string{fmt.Sprintf("environ:%d", other.PID()), fmt.Sprintf("memoryof:%d", other.PID()), fmt.Sprintf("follow:/proc/%d/cwd", other.PID())} {
		// Without it, who may trace whom is decided by other parts of the kernel.
		if got := ask(t, i, words); isolation.Landlock() >= landlockRefer && !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s with version %d of Landlock: %s", words, isolation.Landlock(), got)
		}
		if got := ask(t, free, words); got != "ok" {
			t.Errorf("%s without a profile: %s", words, got)
		}
	}
	// A file can be moved from one folder to another, which the first version of Landlock denied.
	if got := ask(t, i, "move:own"); got != "ok" {
		t.Errorf("moving a file: %s", got)
	}
	got := ask(t, i, fmt.Sprintf("signal:%d", other.PID()))
	if denied := strings.HasPrefix(got, "denied: "); denied != (isolation.Landlock() >= landlockScopes) {
		t.Errorf("a signal: %s with version %d of Landlock", got, isolation.Landlock())
	}
	if told := strings.Contains(strings.Join(i.Reduced(), "\n"), "Landlock"); told != (isolation.Landlock() < landlockScopes) {
		t.Errorf("reduced: %q with version %d of Landlock", i.Reduced(), isolation.Landlock())
	}
}

func TestTheSupervisorMakesRoomInACgroupThatIsItsOwn(t *testing.T) {
	t.Parallel()
	unified := "/sys/fs/cgroup/unified"
	if inGuest() {
		unified = "/sys/fs/cgroup"
	}
	dir := tempDir(t)
	service := filepath.Join(unified, filepath.Base(dir)+".service")
	if err := os.Mkdir(service, 0o755); err != nil {
		t.Fatal(err)
	}
	if inGuest() { // as systemd does it with Delegate=yes
		if err := os.WriteFile(filepath.Join(unified, "cgroup.subtree_control"), []byte("+memory +cpu +pids"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(service)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	sup, orphan := startSupervisorIn(t, dir, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())})
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", sup.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// A hybrid host has no controllers here, and so no reason to move.
	want := "0::/" + filepath.Base(service)
	if inGuest() {
		want += "/supervisor"
	}
	if lines := strings.Split(strings.TrimSpace(string(own)), "\n"); lines[len(lines)-1] != want {
		t.Errorf("the supervisor is in %q, want %q", own, want)
	}
	_ = sup.Process.Kill()
	_ = sup.Wait()
	eventually(t, "the grandchild is gone", func() bool { return !alive(orphan) })
	eventually(t, "the cgroup can be removed", func() bool {
		_ = os.Remove(filepath.Join(service, "supervisor"))
		err := unix.Rmdir(service)
		return err == nil || errors.Is(err, unix.ENOENT)
	})
}
