package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/doctor"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

// doctored runs doctor on a made-up node whose runtime is connected, and whose files are below a folder. The supervisor answers as the API says.
func doctored(t *testing.T, api *fakeAPI, files map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := shortDir(t)
	for _, dir := range []string{"etc/nri-supervisor/plugins.d", "run/nri"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  fileTrust: \"off\"\n  pluginDirs: [plugins.d]\n  teams: {ml: {}}\n"
	all := map[string]string{
		"etc/nri-supervisor/config.yaml": config, "proc/self/mountinfo": "24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/sys/kernel/seccomp/actions_avail": "errno allow\n",
	}
	maps.Copy(all, files)
	for name, text := range all {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return onScreen(t, append([]string{"doctor", "--wait", "1m", "--root", root, "--socket", serveFake(t, api)}, args...)...)
}

func TestDoctorAsksTheRunningSupervisorAndExitsForNodeProblemDetector(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lost := wellBehaved(now)
	lost.Runtime = supervisor.RuntimeStatus{Reason: "refused", Error: "connection refused", Hint: "mount its folder", Socket: "/var/run/nri/nri.sock"}
	off := map[string]string{"etc/containerd/config.toml": "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = true\n"}
	slow := map[string]string{
		"etc/nri-supervisor/plugins.d/slow.yaml": "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: slow}\n" +
			"spec: {team: ml, index: \"20\", exec: {path: /bin/true}, selector: {}, timeouts: {default: 3s}, overdueAfter: 40s}\n",
	}
	down, refused, longAgo := wellBehaved(now), wellBehaved(now), wellBehaved(now)
	down.Plugins[0].State, down.Plugins[0].FailsClosed = "crash_loop", true
	refused.RefusedUnhosted, refused.RefusedUnhostedAt = 7, now
	longAgo.RefusedUnhosted, longAgo.RefusedUnhostedAt = 7, now.Add(-time.Hour)
	required := map[string]string{
		"etc/nri-supervisor/config.yaml": "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec: {fileTrust: \"off\", pluginDirs: [plugins.d], teams: {ml: {}}, requiredPlugins: [gpu-env]}\n",
		"etc/nri-supervisor/plugins.d/gpu-env.yaml": "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: gpu-env}\n" +
			"spec: {team: ml, index: \"20\", exec: {path: /bin/true}, selector: {}}\n",
	}
	for _, c := range []struct {
		name   string
		status supervisor.Status
		files  map[string]string
		code   int
		want   []string
	}{
		{"all well", wellBehaved(now), nil, 0, []string{"ok       service      registered with containerd v2.4.2\n", "ok       nri          on: the runtime talks to us\n"}},
		{"a warning", wellBehaved(now), off, 0, []string{"1 warning (nri)", "    where: /etc/containerd/config.toml:2\n", "    value: disable = true\n"}},
		{"a timeout", wellBehaved(now), slow, 1, []string{"1 problem (timeouts)", "plugin slow: the timeout of 3s", "as the runtime says"}},
		{"a required plugin in a crash loop", down, required, 1, []string{"1 problem (required)", "the required plugin gpu-env is not in service", "plugin show gpu-env says why"}},
		{"an annotation that requires a plugin which is not hosted", refused, nil, 0, []string{"1 warning (annotations)", "containers are refused that require a plugin", "value: required 7\n"}},
		{"one that was refused long ago", longAgo, nil, 0, []string{"ok       required"}},
		{"not connected", lost, off, 1, []string{"problem  service", "connection refused", "problem  nri"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := doctored(t, &fakeAPI{Fake: admintest.Fake{State: c.status}}, c.files)
			if code != c.code || stderr != "" {
				t.Errorf("exit code %d, want %d; stderr %q", code, c.code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("output lacks %q:\n%s", want, stdout)
				}
			}
			for line := range strings.Lines(stdout) {
				if len(line) > usualWidth+1 {
					t.Errorf("the line is wider than %d: %q", usualWidth, line)
				}
			}
			var report struct {
				Result   string `json:"result"`
				Findings []struct{ Check, Result, What string }
			}
			if code, stdout, _ = doctored(t, &fakeAPI{Fake: admintest.Fake{State: c.status}}, c.files, "-o", "json"); code != c.code {
				t.Errorf("with -o json: exit code %d", code)
			}
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Findings) < 12 || (report.Result == "problem") != (c.code == 1) {
				t.Errorf("json %q: %v", stdout, err)
			}
		})
	}
}

func TestDoctorWithoutASupervisorSaysSo(t *testing.T) {
	t.Parallel()
	root := shortDir(t)
	code, stdout, stderr := command(t, "doctor", "--root", root, "--config", filepath.Join(root, "none.yaml"))
	if code != 1 || stderr != "" || !strings.Contains(stdout, "the supervisor does not answer") || !strings.Contains(stdout, "problem  config") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestDoctorFindsThePluginsOfTheDefaultFolderBelowTheRoot, and takes a node without a configuration for what it is.
func TestDoctorFindsThePluginsOfTheDefaultFolderBelowTheRoot(t *testing.T) {
	t.Parallel()
	config := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  fileTrust: \"off\"\n  teams: {ml: {}}\n"
	_, stdout, _ := doctored(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}}, map[string]string{
		"etc/nri-supervisor/config.yaml": config,
		"etc/nri-supervisor/plugins.d/a.yaml": "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: a}\n" +
			"spec: {team: ml, index: \"20\", exec: {path: /opt/only/on/the/node}, selector: {}}\n",
	})
	if !strings.Contains(strings.Join(strings.Fields(stdout), " "), "and 1 manifests are valid") {
		t.Errorf("the manifest is not found below the root:\n%s", stdout)
	}
	_, stdout, _ = command(t, "doctor", "--root", shortDir(t))
	if !strings.Contains(stdout, "ok       config") {
		t.Errorf("a root without a configuration:\n%s", stdout)
	}
}

func TestDoctorWaitsForWhatItWasToldToWaitFor(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"0", "0s", "-1s", "11m", "2562047h"} {
		if code, stdout, stderr := command(t, "doctor", "--wait="+wait); code != exitUsage || stdout != "" || !strings.Contains(stderr, "is not above zero and at most 10m") || !strings.Contains(stderr, "write --wait 3s") {
			t.Errorf("--wait=%s: exit code %d, stdout %q, stderr %q", wait, code, stdout, stderr)
		}
	}
	root := shortDir(t)
	socket := filepath.Join(root, "admin.sock")
	_, stdout, _ := command(t, "doctor", "--root", root, "--socket", socket, "--wait", "1ms")
	if !strings.Contains(stdout, "there is no such socket") || strings.Contains(stdout, "it runs") {
		t.Errorf("a socket that never comes:\n%s", stdout)
	}
	found := make(chan string, 1)
	go func() {
		_, stdout, _ := command(t, "doctor", "--root", root, "--socket", socket, "--wait", "10m")
		found <- stdout
	}()
	late := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}})
	if err := os.Symlink(late, socket); err != nil {
		t.Fatal(err)
	}
	if stdout := <-found; !strings.Contains(stdout, "registered with containerd v2.4.2") {
		t.Errorf("a socket that appears late:\n%s", stdout)
	}
}

// TestDoctorEndsWhateverItFinds: a pipe in place of a file, a supervisor that hangs, a file system that hangs, and a signal meanwhile.
func TestDoctorEndsWhateverItFinds(t *testing.T) {
	t.Parallel()
	root := shortDir(t)
	if err := os.MkdirAll(filepath.Join(root, "etc/containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "etc/containerd/config.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(root, "admin.sock")
	l, err := net.Listen("unix", socket) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, stdout, _ := command(t, "doctor", "--root", root, "--socket", socket, "--wait", "10ms")
	text := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"it runs and does not answer in 10ms", "systemctl restart nri-supervisor", "no regular file"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout)
		}
	}
	forever := func(context.Context) (doctor.Report, error) { select {} }
	if _, err := inTime(t.Context(), time.Millisecond, forever); err == nil || !strings.Contains(err.Error(), "not done within 1ms") {
		t.Errorf("a look that never ends: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inTime(ctx, time.Hour, forever); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a look that is interrupted: %v", err)
	}
	var out, errOut strings.Builder
	if code := run(ctx, []string{"doctor", "--root", root, "--socket", socket}, &out, &errOut); code != doctor.ExitUnknown || !strings.Contains(errOut.String(), "interrupted") {
		t.Errorf("interrupted: exit code %d, stderr %q", code, errOut.String())
	}
}

func TestDoctorNamesTheSocketThatItAsked(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "none.sock")
	_, stdout, _ := command(t, "doctor", "--root", shortDir(t), "--socket", socket, "-o", "json")
	var report doctorJSON
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Check == "service" && f.Where != socket {
			t.Errorf("where is %q, want %q", f.Where, socket)
		}
	}
}

// doctorJSON is the report as doctor prints it.
type doctorJSON struct {
	Findings []struct{ Check, Where, Mend string }
}

func TestDoctorOfAFolderThatIsNotThereHasSeenNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(shortDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{filepath.Join(shortDir(t), "nope"), file} {
		code, stdout, stderr := command(t, "doctor", "--root", root)
		if code != doctor.ExitUnknown || stdout != "" || !strings.Contains(stderr, "nothing can be seen: --root \""+root+"\" is no folder") {
			t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	}
}

func TestDoctorOfAStoppedSupervisorSaysHowItGoesOn(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "admin.sock")
	child := exec.CommandContext(t.Context(), "/proc/self/exe", listenCommand, socket)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tick, over := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for stat := []byte(nil); !strings.Contains(string(stat), ") T "); {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("the child is not stopped: %s", stat)
		}
		if stat, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", child.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := command(t, "doctor", "--root", shortDir(t), "--socket", socket, "--wait", "3s")
	if want := fmt.Sprintf("kill -CONT %d ", child.Process.Pid); code != doctor.ExitProblem || stderr != "" || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, stderr %q, no %q in:\n%s", code, stderr, want, stdout)
	}
}
