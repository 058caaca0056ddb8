//go:build root

package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestNothingOfAPluginSurvivesItsEnd(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	for name, end := range map[string]func(*testing.T, *isolation.Instance){
		"stop":  func(t *testing.T, i *isolation.Instance) { i.Stop(t.Context()) },
		"kill":  func(_ *testing.T, i *isolation.Instance) { i.Kill(isolation.ReasonHung) },
		"crash": func(_ *testing.T, i *isolation.Instance) { _ = syscall.Kill(i.PID(), syscall.SIGKILL) },
		"stopped": func(t *testing.T, i *isolation.Instance) {
			_ = syscall.Kill(i.PID(), syscall.SIGSTOP)
			i.Stop(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := start(t, spec(t, h, dir, isolation.None()))
			orphan := number(t, ask(t, i, "orphan"))
			if !alive(orphan) {
				t.Fatal("the grandchild does not run")
			}
			end(t, i)
			wait(t, i.Done(), "instance is done")
			if left := i.Exit().Left; name == "crash" && left != 1 {
				t.Errorf("the exit says that it left %d processes behind", left)
			}
			if alive(orphan) || alive(i.PID()) {
				t.Error("something survived")
			}
			// Without a cgroup it would have: the test bites.
			free := start(t, spec(t, h, dir, isolation.Confinement{}))
			orphan = number(t, ask(t, free, "orphan"))
			end(t, free)
			wait(t, free.Done(), "instance is done")
			if !alive(orphan) {
				t.Error("the grandchild does not survive without a cgroup: the test shows nothing")
			}
			_ = syscall.Kill(orphan, syscall.SIGKILL)
		})
	}
}

// ownFolder lets a supervisor have a folder of its own at its run directory's path, in a mount namespace of its own.
const ownFolder = "own-folder"

// beASupervisor starts a plugin with a grandchild in a session of its own, and tells their ids.
func beASupervisor(args []string) {
	exe, err := os.Executable()
	if err != nil {
		return
	}
	if len(args) > 1 && args[1] == ownFolder {
		if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, "mode=711"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: args[0], Helper: []string{helper}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	ctx := context.Background()
	s := isolation.Spec{
		Name: "test", Index: "42", Path: exe, Args: []string{hostile}, Protocol: isolation.NRI, RunDir: args[0],
		Host: h, Confine: isolation.None(),
	}
	if len(args) > 1 && args[1] == anotherUser {
		s.Args, s.Confine = append(s.Args, stays), isolation.Confinement{User: &isolation.User{UID: nobody, GID: nobody}}
	}
	i, err := isolation.Start(ctx, s)
	if err == nil {
		_, err = i.Configure(ctx, &api.ConfigureRequest{RuntimeName: "test", RegistrationTimeout: 60000, RequestTimeout: 60000})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	reply, err := i.Plugin().CreateContainer(ctx, &api.CreateContainerRequest{
		Pod: &api.PodSandbox{Id: "p"}, Container: &api.Container{Id: "c", Name: "orphan", PodSandboxId: "p"},
	})
	if err != nil || len(reply.GetAdjust().GetEnv()) != 1 {
		fmt.Fprintln(os.Stderr, "no grandchild", err)
		return
	}
	fmt.Println(i.PID(), reply.GetAdjust().GetEnv()[0].GetValue())
	<-i.Done()
}

func startSupervisor(t *testing.T, dir string) (*exec.Cmd, int) {
	t.Helper()
	return startSupervisorIn(t, dir, nil)
}

// startSupervisorIn starts it in other surroundings, if attr is not nil.
func startSupervisorIn(t *testing.T, dir string, attr *syscall.SysProcAttr) (*exec.Cmd, int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, hostMode, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, attr
	if attr != nil && attr.Unshareflags&syscall.CLONE_NEWNS != 0 {
		cmd.Args = append(cmd.Args, ownFolder)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // if the test did not end it
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var plugin, orphan int
	if _, err := fmt.Fscan(out, &plugin, &orphan); err != nil {
		t.Fatal(err)
	}
	if !alive(plugin) || !alive(orphan) {
		t.Fatal("the plugin or its grandchild does not run")
	}
	return cmd, orphan
}

func TestNothingOfAPluginSurvivesAKilledSupervisorAndNobodyElseIsTouched(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	bystander := exec.Command("/proc/self/exe", sleeper)
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	})
	sup, orphan := startSupervisor(t, dir)
	_ = sup.Process.Kill()
	_ = sup.Wait()
	eventually(t, "the grandchild is gone", func() bool { return !alive(orphan) })
	// The next one finds an empty place, although the guardian of the first may still be at work.
	next, orphan := startSupervisor(t, dir)
	_ = next.Process.Kill()
	_ = next.Wait()
	eventually(t, "the grandchild is gone", func() bool { return !alive(orphan) })
	eventually(t, "the cgroups are gone", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "cgroups"))
		for base := range strings.FieldsSeq(string(data)) {
			if _, serr := os.Stat(base); serr == nil {
				return false
			}
		}
		return err == nil
	})
	if !alive(bystander.Process.Pid) {
		t.Error("a process that is not ours was killed")
	}
}

// guardiansOf are the living guardians of a supervisor.
func guardiansOf(t *testing.T, supervisor int) []int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		for child := range strings.FieldsSeq(string(children)) {
			line, err := os.ReadFile("/proc/" + child + "/cmdline")
			if pid := number(t, child); err == nil && strings.Contains(string(line), "\x00guardian\x00") && alive(pid) {
				out = append(out, pid)
			}
		}
	}
	return out
}

// send sends signals to processes, in this order and without a pause.
func send(t *testing.T, sig syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingOfAPluginSurvivesASupervisorThatIsKilledTogetherWithAGuardian(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(t *testing.T, supervisor, guardian int){
		// What is stopped does nothing between the two signals, as if they came at once.
		"the guardian first":   func(t *testing.T, s, g int) { send(t, syscall.SIGSTOP, s); send(t, syscall.SIGKILL, g, s) },
		"the supervisor first": func(t *testing.T, s, g int) { send(t, syscall.SIGSTOP, g); send(t, syscall.SIGKILL, s, g) },
	} {
		for which := range 2 {
			t.Run(fmt.Sprintf("%s, guardian %d", name, which), func(t *testing.T) {
				t.Parallel()
				sup, orphan := startSupervisor(t, tempDir(t))
				all := guardiansOf(t, sup.Process.Pid)
				if len(all) != 2 {
					t.Fatalf("guardians %v, want two", all)
				}
				kill(t, sup.Process.Pid, all[which])
				_ = sup.Wait()
				eventually(t, "the grandchild is gone", func() bool { return !alive(orphan) })
			})
		}
	}
}

func TestAGuardianThatIsKilledOrStoppedIsReplacedAndTheNewOneDoesItsWork(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			sup, orphan := startSupervisor(t, tempDir(t))
			first := guardiansOf(t, sup.Process.Pid)
			send(t, sig, first...)
			eventually(t, "two new guardians run", func() bool {
				now := guardiansOf(t, sup.Process.Pid)
				return len(now) == 2 && now[0] != first[0] && now[0] != first[1] && now[1] != first[0] && now[1] != first[1]
			})
			if !alive(orphan) {
				t.Error("the plugin's grandchild ended with the guardians")
			}
			send(t, syscall.SIGKILL, sup.Process.Pid)
			_ = sup.Wait()
			eventually(t, "the grandchild is gone", func() bool { return !alive(orphan) })
		})
	}
}

func TestSupervisorsWithTheSamePathInOtherMountNamespacesLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	own := func() *syscall.SysProcAttr { return &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} }
	a, ofA := startSupervisorIn(t, dir, own())
	b, ofB := startSupervisorIn(t, dir, own())
	if !alive(ofA) {
		t.Error("the second supervisor swept what the first one started")
	}
	send(t, syscall.SIGKILL, b.Process.Pid)
	_ = b.Wait()
	eventually(t, "the grandchild of the second is gone", func() bool { return !alive(ofB) })
	if !alive(ofA) {
		t.Error("the end of the second supervisor ended what the first one started")
	}
	send(t, syscall.SIGKILL, a.Process.Pid)
	_ = a.Wait()
	eventually(t, "the grandchild of the first is gone", func() bool { return !alive(ofA) })
}

func TestATreeOfCgroupsThatSomebodyRemovedIsMadeAnew(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	data, err := os.ReadFile(filepath.Join(dir, "cgroups"))
	if err != nil {
		t.Fatal(err)
	}
	for base := range strings.FieldsSeq(string(data)) {
		if err := os.Remove(base); err != nil {
			t.Fatal(err)
		}
	}
	limited := isolation.None()
	limited.Limits.PIDs = 40
	i := start(t, spec(t, h, dir, limited))
	if missing := i.Reduced(); len(missing) > 0 {
		t.Errorf("it runs without %q", missing)
	}
	if got := ask(t, i, "fork:60"); !strings.HasPrefix(got, "denied: ") {
		t.Errorf("its limit does not hold: %s", got)
	}
	orphan := number(t, ask(t, start(t, spec(t, h, dir, isolation.None())), "orphan"))
	h.Close() // as at the end of the service
	eventually(t, "the grandchild is gone", func() bool { return !alive(orphan) })
}

// anotherUser lets the supervisor start its plugin as nobody, without a cgroup: nothing but the parent-death signal ends it.
const anotherUser = "another-user"

func TestAPluginOfAnotherUserDiesWithItsSupervisor(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, hostMode, tempDir(t), anotherUser)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var plugin, orphan int
	if _, err := fmt.Fscan(out, &plugin, &orphan); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(orphan, syscall.SIGKILL) })
	if !alive(plugin) || !alive(orphan) {
		t.Fatal("the plugin or its grandchild does not run")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the plugin is gone", func() bool { return !alive(plugin) })
}
