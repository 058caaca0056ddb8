//go:build root

package isolation_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// landlockRefer is the version of Landlock since which other processes are shielded from a look, landlockScopes since which signals and abstract sockets can be
// denied, landlock(7).
const landlockRefer, landlockScopes = 2, 6

// unifiedTree is where cgroup v2 is mounted.
func unifiedTree(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(dir + "/cgroup.procs"); err == nil {
			return dir
		}
	}
	t.Fatal("no cgroup v2 hierarchy")
	return ""
}

// segment is a piece of memory of System V's that is somebody else's.
func segment(t *testing.T) int {
	t.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, os.Getpagesize(), unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			t.Error(err)
		}
	})
	return id
}

// sharply asks each plugin for each attempt: with a profile it has to be denied, and without one it has to succeed, or nothing is shown.
func sharply(t *testing.T, runDir string, h *isolation.Host, hide []string, attempts []string) {
	t.Helper()
	free := start(t, spec(t, h, runDir, isolation.Confinement{}))
	confined := map[string]*isolation.Instance{
		"standard": start(t, spec(t, h, runDir, isolation.Standard(hide))),
		"strict":   start(t, spec(t, h, runDir, isolation.Strict(hide))),
	}
	for _, words := range attempts {
		for profile, i := range confined { // first: what succeeds may change the plugin
			if got := ask(t, i, words); !strings.HasPrefix(got, "denied: ") {
				t.Errorf("%s with profile %s: %s", words, profile, got)
			}
		}
		switch got := ask(t, free, words); {
		case got == "ok":
		case strings.HasSuffix(got, unix.ENOSYS.Error()):
			t.Logf("%s: this kernel does not have it", words)
		default:
			t.Errorf("%s without a profile: %s, so that the attempt shows nothing", words, got)
		}
	}
}

func TestTheCallsThatNoPluginNeedsAreDenied(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	var attempts []string
	for _, name := range slices.Sorted(maps.Keys(calls(1))) {
		attempts = append(attempts, fmt.Sprintf("call:%s@%d", name, victim(t)))
	}
	sharply(t, dir, h, []string{dir}, append(attempts, "userspace", "chroot:/", fmt.Sprintf("socket:%d", unix.AF_VSOCK), fmt.Sprintf("socket:%d", unix.AF_ALG)))
}

func TestAPluginCannotLeaveItsCgroupOrChangeTheMachine(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	place, err := os.MkdirTemp("/var/lib", "nris-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	outside := filepath.Join(unifiedTree(t), filepath.Base(place))
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eventually(t, "the cgroup is empty", func() bool { return unix.Rmdir(outside) == nil }) })
	device := filepath.Join(place, "device")
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	name := "nris-test-" + filepath.Base(place)
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	root := filepath.Join("/root", filepath.Base(place))
	t.Cleanup(func() {
		for _, path := range []string{root, "/run/" + filepath.Base(place), "/dev/" + filepath.Base(place), "/" + filepath.Base(place)} {
			_ = os.Remove(path)
		}
	})
	// Who moves a folder above a hidden one away can make another one in its place, for the supervisor as well.
	if err := os.MkdirAll(place+"/above/hidden", 0o755); err != nil {
		t.Fatal(err)
	}
	hide := []string{dir, place + "/above/hidden"}
	other := start(t, spec(t, h, dir, isolation.Standard(hide)))
	if got := ask(t, other, "write:secret"); got != "ok" { // in its own directory
		t.Fatal(got)
	}
	attempts := []string{
		"migrate:" + outside + "/cgroup.procs",
		"open:" + outside + "/cgroup.procs",
		"open:/proc/sys/kernel/core_pattern", // a program of root's, at the next crash
		"open:/sys/kernel/mm/transparent_hugepage/enabled",
		fmt.Sprintf("open:/proc/%d/oom_score_adj", os.Getpid()),
		fmt.Sprintf("environ:%d", other.PID()),
		fmt.Sprintf("memoryof:%d", other.PID()),
		fmt.Sprintf("read:/proc/%d/cwd/secret", other.PID()),
		fmt.Sprintf("follow:/proc/%d/fd/1", os.Getpid()),
		"mknod:" + place + "/made",
		"open:" + device,
		"write:" + root,
		"write:/run/" + filepath.Base(place), // a file system in memory, without which no runtime works
		"write:/dev/" + filepath.Base(place),
		"write:/" + filepath.Base(place),
		"swap:" + place + "/above",
		fmt.Sprintf("segment:%d", segment(t)),
	}
	if isolation.Landlock() >= landlockScopes {
		attempts = append(attempts, fmt.Sprintf("signal:%d", other.PID()), "abstract:"+name)
	}
	sharply(t, dir, h, hide, attempts)
}

func TestARunDirectoryBelowAProtectedFolderStaysUsable(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/root", "iso")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: dir, Helper: []string{helper}, OnProblem: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	i := start(t, spec(t, h, dir, isolation.Standard([]string{dir})))
	if got := ask(t, i, "write:own-file"); got != "ok" {
		t.Errorf("its own directory: %s", got)
	}
	if got := ask(t, i, "write:/root/not-its-own"); !strings.HasPrefix(got, "denied: ") {
		t.Errorf("beside it: %s", got)
	}
}

func TestAPluginCannotThrottleOtherProcesses(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	pid := victim(t)
	var attempts []string
	for _, how := range []string{"files", "priority", "group's priority", "processors", "scheduler", "io", "group's io"} {
		attempts = append(attempts, fmt.Sprintf("throttle:%s@%d", how, pid))
	}
	sharply(t, dir, h, []string{dir}, attempts)
	i := start(t, spec(t, h, dir, isolation.Standard([]string{dir})))
	for _, how := range []string{"files", "priority", "processors", "scheduler", "io"} {
		if got := ask(t, i, "throttle:"+how+"@0"); got != "ok" {
			t.Errorf("%s, its own: %s", how, got)
		}
	}
}

func TestADeviceThatAManifestListsCanBeOpened(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	c := isolation.Standard([]string{dir})
	closed := start(t, spec(t, h, dir, c))
	c.ReadWrite = []string{"/dev/kmsg", "/proc/sys/kernel"}
	open := start(t, spec(t, h, dir, c))
	for _, path := range []string{"/dev/kmsg", "/proc/sys/kernel/core_pattern"} {
		if got := ask(t, closed, "open:"+path); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s: %s", path, got)
		}
		if got := ask(t, open, "open:"+path); got != "ok" {
			t.Errorf("%s, listed: %s", path, got)
		}
	}
	for _, path := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		if got := ask(t, closed, "open:"+path); got != "ok" {
			t.Errorf("%s: %s", path, got)
		}
	}
}
