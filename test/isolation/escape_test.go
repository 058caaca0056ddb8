//go:build root

package isolation_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// victim is a process of root that nobody confined.
func victim(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is tried on its group must not meet the test
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// socketIn listens in a folder below /run, as a runtime does.
func socketIn(t *testing.T) (folder, socket string) {
	t.Helper()
	folder, err := os.MkdirTemp("/run", "nris-test-")
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(folder, "nri.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		_ = os.RemoveAll(folder)
	})
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(socket, 0o777); err != nil { // that it is hidden has to be shown
		t.Fatal(err)
	}
	return folder, socket
}

func TestWhatAHostilePluginTriesIsDeniedAndSucceedsWithoutAProfile(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	folder, socket := socketIn(t)
	hide := []string{folder, dir}
	pid := victim(t)
	admin := filepath.Join(dir, "admin.sock")
	l, err := net.Listen("unix", admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	etc := filepath.Join("/etc", filepath.Base(folder))
	t.Cleanup(func() { _ = os.Remove(etc) })
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	secret := filepath.Join(tempDir(t), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	both := []string{"standard", "strict"}
	attempts := []struct {
		words    string
		denied   string // in the answer
		profiles []string
	}{
		{"write:" + etc, "denied: ", both},
		{"connect:" + socket, "denied: ", both},
		{"connect:" + admin, "denied: ", both},
		{fmt.Sprintf("ptrace:%d", pid), "denied: ", both},
		{fmt.Sprintf("signal:%d", pid), "denied: ", both},
		{fmt.Sprintf("signal:%d", os.Getpid()), "denied: ", both}, // the supervisor
		{fmt.Sprintf("environ:%d", os.Getpid()), "denied: ", both},
		{fmt.Sprintf("memoryof:%d", os.Getpid()), "denied: ", both},
		{fmt.Sprintf("connect:/proc/%d/root%s", os.Getpid(), socket), "denied: ", both},
		{fmt.Sprintf("connect:/proc/%d/cwd/../../../admin.sock", os.Getpid()), "denied: ", nil},
		{"unshare", "denied: ", both},
		{"read:" + secret, "denied: ", both},                           // in the host's /tmp
		{"tcp:" + tcp.Addr().String(), "denied: ", []string{"strict"}}, // it has no network
		{"read:/proc/kcore", "denied: ", []string{"strict"}},
	}
	plugins := map[string]*isolation.Instance{
		"standard": start(t, spec(t, h, dir, isolation.Standard(hide))),
		"strict":   start(t, spec(t, h, dir, isolation.Strict(hide))),
	}
	free := start(t, spec(t, h, dir, isolation.Confinement{}))
	for _, a := range attempts {
		if a.profiles == nil {
			continue
		}
		if got := ask(t, free, a.words); got != "ok" && !strings.HasPrefix(a.words, "read:/proc/kcore") {
			t.Errorf("%s without a profile: %s, so that the attempt shows nothing", a.words, got)
		}
		_ = os.Remove(etc)
		for _, p := range a.profiles {
			if got := ask(t, plugins[p], a.words); !strings.Contains(got, a.denied) {
				t.Errorf("%s with profile %s: %s", a.words, p, got)
			}
			_ = os.Remove(etc)
		}
	}
}

func TestAStandardPluginDoesWhatOrdinaryPluginsDo(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	folder, _ := socketIn(t)
	own := filepath.Join("/var/lib", filepath.Base(folder))
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	i := start(t, spec(t, h, dir, isolation.Standard([]string{folder, dir})))
	for _, words := range []string{
		"read:/etc/hostname", "read:/etc/shadow", "read:/proc/meminfo", "read:/proc/1/stat", "read:/sys/kernel/mm/transparent_hugepage/enabled",
		"write:" + own + "/state", "write:own-file", "write:/tmp/scratch", "fork:3", "memory:10", "files:50",
	} {
		if got := ask(t, i, words); got != "ok" {
			t.Errorf("%s: %s", words, got)
		}
	}
	if got := ask(t, i, "who"); got != "0:0" {
		t.Errorf("runs as %s", got)
	}
	if got := ask(t, i, "network"); !strings.Contains(got, " ") && got == "lo=up" {
		t.Errorf("network %q", got)
	}
	if got := ask(t, i, "list:"+folder); got != "[]" {
		t.Errorf("sees %s in a hidden folder", got)
	}
	if _, err := os.Stat("/tmp/scratch"); err == nil {
		t.Error("its temporary file is in the host's folder")
	}
	if r := i.Reduced(); len(r) > 0 {
		t.Errorf("reduced: %q", r)
	}
}

func TestAStrictPluginHasItsOwnFilesAndNothingElse(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	folder, socket := socketIn(t)
	granted := filepath.Join("/var/lib", filepath.Base(folder))
	for _, sub := range []string{"/in", "/out"} {
		if err := os.MkdirAll(granted+sub, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(granted+sub, 0o777); err != nil { // so that only the confinement denies
			t.Fatal(err)
		}
		if err := os.WriteFile(granted+sub+"/data", []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.RemoveAll(granted) })
	c := isolation.Strict([]string{folder, dir})
	c.ReadOnly, c.ReadWrite = []string{granted + "/in", socket}, []string{granted + "/out"}
	i := start(t, spec(t, h, dir, c))
	for words, want := range map[string]string{
		"read:" + granted + "/in/data":   "ok",
		"write:" + granted + "/in/more":  "denied: ",
		"write:" + granted + "/out/more": "ok",
		"read:/etc/hostname":             "ok",
		"write:own-file":                 "ok",
		"write:/tmp/scratch":             "ok",
		"read:/var/lib/dpkg/status":      "denied: ", // everybody may read it
		"list:/home":                     "denied: ",
		"connect:" + socket:              "ok", // listed, although its folder is hidden
		"network":                        "lo=up",
	} {
		if got := ask(t, i, words); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	status := ask(t, i, "status")
	for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in its status:\n%s", want, status)
		}
	}
	if who := ask(t, i, "who"); strings.HasPrefix(who, "0:") || number(t, strings.Split(who, ":")[0]) < 0x70000000 {
		t.Errorf("runs as %s", who)
	}
}

func TestTheManifestsUserAndCapabilitiesAreWhatItGets(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	c := isolation.Standard([]string{dir})
	c.User = &isolation.User{UID: 65534, GID: 1, Groups: []uint32{2, 44}}
	c.Capabilities, c.Required = []string{"NET_ADMIN", "CAP_CHOWN"}, []string{"NET_ADMIN"}
	i := start(t, spec(t, h, dir, c))
	status := ask(t, i, "status")
	for _, want := range []string{
		"Uid:\t65534\t65534\t65534\t65534", "Gid:\t1\t1\t1\t1", "Groups:\t2 44",
		"CapPrm:\t0000000000001001", "CapEff:\t0000000000001001", "CapBnd:\t0000000000001001", "CapAmb:\t0000000000001001",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in its status:\n%s", want, status)
		}
	}
	// Its death with its supervisor was armed after the change of user: the kernel clears it then.
	root := start(t, spec(t, h, dir, isolation.Standard([]string{dir})))
	if status := ask(t, root, "status"); !strings.Contains(status, "CapBnd:\t000000000000001b") || !strings.Contains(status, "CapEff:\t000000000000001b") {
		t.Errorf("capabilities of the standard profile:\n%s", status)
	}
}
