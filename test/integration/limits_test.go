package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

//nolint:paralleltest // the runtime gives two seconds for all parts of a synchronization, so it has the machine to itself
func TestTenMebibytesOfStateReachAPluginCompleteAndOnce(t *testing.T) {
	rt := harness.NewRuntime(t)
	const pods, each = 300, 40 << 10
	for i := range pods {
		pod := harness.Pod("default", fmt.Sprint("big", i), "probe", "reader")
		pod.Annotations["note"] = strings.Repeat("x", each)
		rt.Preload(pod, harness.Container(pod, "main"), harness.Container(pod, "side"))
		other := harness.Pod("default", fmt.Sprint("foreign", i))
		rt.Preload(other, harness.Container(other, "main"))
	}
	p := newProbe(t, "reader")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "reader")
	l := p.wait(1, "Synchronize", "")
	if l.Pods != pods || l.Containers != 2*pods || l.Duplicates != 0 || l.Bytes < pods*each {
		t.Errorf("told of %d pods and %d containers, %d of them twice, in %d bytes; want %d and %d, none twice, in at least %d",
			l.Pods, l.Containers, l.Duplicates, l.Bytes, pods, 2*pods, pods*each)
	}
	act(t, sup, "restart", "reader")
	sup.Ready(2, "reader")
	if l := p.wait(2, "Synchronize", ""); l.Pods != pods || l.Containers != 2*pods || l.Duplicates != 0 {
		t.Errorf("the new process was told of %d pods and %d containers, %d of them twice", l.Pods, l.Containers, l.Duplicates)
	}
	// The runtime gives two seconds for all parts of its own synchronization; a busy machine with the race detector can exceed them, and then the supervisor registers anew.
	if n := rt.Dials(); n > 3 {
		t.Errorf("%d registrations", n)
	}
}

func TestOnePodTooLargeForOneMessageCostsOnlyItself(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "reader")
	sup := start(t, rt, teams, p.manifest("10", "", "")+gpuEnv(t), "reader", "gpu-env")
	// As large as the runtime can send at all: 4 MiB a message.
	pod := harness.Pod("default", "huge", "probe", "reader", "accelerator", "gpu")
	pod.Annotations["note"] = strings.Repeat("x", 4<<20-4<<10)
	if err := rt.RunPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if why := outcome(t, rt, "small"); why != "" {
		t.Errorf("another pod misses work: %s", why)
	}
	act(t, sup, "restart", "reader")
	sup.Ready(2, "reader")
	if n := rt.Dials(); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

func TestAPluginInheritsNothingButWhatItsManifestSays(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "bare")
	secret, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secret.Close() }()
	sup := harness.StartSupervisorWith(t, rt.Config(teams, p.manifest("10", "", "")), harness.Options{
		Env: []string{"CLOUD_TOKEN=secret", "GREETING=from the supervisor"}, ExtraFiles: []*os.File{secret, secret},
	})
	rt.WaitSync()
	sup.Ready(1, "bare")
	l := p.wait(1, "Configure", "")
	allowed := []string{"PATH", "HOME", "GREETING", "NRI_PLUGIN_NAME", "NRI_PLUGIN_IDX", "PLUGIN_", "NRI_SUPERVISOR_"}
	for _, kv := range l.Env {
		name, value, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(allowed, func(a string) bool { return name == a || strings.HasSuffix(a, "_") && strings.HasPrefix(name, a) }) || strings.Contains(value, "secret") {
			t.Errorf("the plugin has the variable %s", kv)
		}
	}
	for _, want := range []string{"GREETING=hello", "NRI_PLUGIN_NAME=bare", "NRI_PLUGIN_IDX=10"} {
		if !slices.Contains(l.Env, want) {
			t.Errorf("the plugin lacks %s in %v", want, l.Env)
		}
	}
	for _, fd := range l.FDs {
		n, target, _ := strings.Cut(fd, " ")
		if target == "/dev/null" && n != "0" {
			t.Errorf("the plugin inherited descriptor %s", fd)
		}
	}
}

func TestABrokenManifestCostsOnlyItsOwnPlugin(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := rt.Config(teams, gpuEnv(t))
	for name, text := range map[string]string{
		"typo.yaml": strings.NewReplacer("gpu-env", "typo", "selector:", "selectr:").Replace(gpuEnv(t)),
		"team.yaml": strings.NewReplacer("gpu-env", "stranger", "ml-infra", "nobody").Replace(gpuEnv(t)),
		"gone.yaml": strings.NewReplacer("gpu-env", "gone", harness.Plugin(t, "env-injector"), "/no/such/plugin").Replace(gpuEnv(t)),
		"text.yaml": "no: [yaml",
	} {
		if err := os.WriteFile(filepath.Join(dir, "plugins.d", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	if why := outcome(t, rt, "a"); why != "" {
		t.Errorf("the good plugin's work is missing: %s", why)
	}
	if code, why := sup.Get("/readyz"); code != 200 {
		t.Errorf("/readyz says %d %s", code, why)
	}
	for name, want := range map[string]string{"typo": "selectr", "stranger": "nobody", "gone": "/no/such/plugin"} {
		p := statusOf(t, sup, name)
		if p.State != "invalid" || len(p.Problems) == 0 || !strings.Contains(strings.Join(p.Problems, "\n"), want) {
			t.Errorf("status of %s: %+v, want invalid because of %s", name, p, want)
		}
		if n := sup.Metric(`nri_supervisor_plugin_state{plugin="` + name + `",state="invalid"}`); n != "1" {
			t.Errorf("plugin_state invalid of %s = %q", name, n)
		}
		if n := sup.Metric(`nri_supervisor_plugin_up{plugin="` + name + `"}`); n != "0" {
			t.Errorf("plugin_up of %s = %q", name, n)
		}
	}
	for _, file := range []string{"typo.yaml", "team.yaml", "gone.yaml", "text.yaml"} {
		if len(sup.Lines(func(l map[string]any) bool {
			text, _ := l["problem"].(string)
			return l["msg"] == "configuration problem" && strings.Contains(text, filepath.Join("plugins.d", file)+":")
		})) == 0 {
			t.Errorf("no log line about %s with its file and line", file)
		}
	}
	if code, out, errs := harness.Run(t, "check", "--config", filepath.Join(dir, "config.yaml")); code != 1 {
		t.Errorf("check: exit code %d, want 1\n%s%s", code, out, errs)
	}
}

func TestAPluginThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := harness.TempDir(t)
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	manifest := func(name, path string) string {
		return strings.NewReplacer("gpu-env", name, harness.Plugin(t, "env-injector"), path).Replace(gpuEnv(t)) + ""
	}
	cases := map[string]struct{ path, want string }{
		"chatty":  {script("chatty", "#!/bin/sh\necho hello, I am no plugin\nexec sleep 1000\n"), "hello, I am no plugin"},
		"foreign": {script("foreign", "\x7fELF\x02\x01\x01 not for this machine"), "exec format error"},
		"quits":   {script("quits", "#!/bin/sh\necho the licence is missing >&2\nexit 9\n"), "the licence is missing"},
		"silent":  {script("silent", "#!/bin/sh\nexec sleep 1000\n"), "handshake"},
	}
	manifests := gpuEnv(t)
	for name, c := range cases {
		text := manifest(name, c.path)
		manifests += strings.Replace(text, "\n  config:", "\n  timeouts: {start: 1s}\n  restart: {backoff: 10ms, maxBackoff: 50ms, crashLoop: {exits: 3, within: 60s, retryEvery: 1h}}\n  config:", 1)
	}
	sup := start(t, rt, teams, manifests, "gpu-env")
	for name, c := range cases {
		harness.Eventually(t, name+" in a crash loop", func() bool { return statusOf(t, sup, name).State == "crash_loop" })
		var show struct {
			LastError string
			Exits     []struct {
				Detail, Reason string
				Output         []string
			}
		}
		sup.Ask(&show, "plugin", "show", name)
		said := show.LastError
		for _, x := range show.Exits {
			said += "\n" + x.Detail + "\n" + strings.Join(x.Output, "\n")
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("plugin show %s does not say %q:\n%s", name, c.want, said)
		}
		if n := len(show.Exits); n != 3 {
			t.Errorf("%s was tried %d times before it counted as a crash loop, want 3", name, n)
		}
		if n := sup.Sum("nri_supervisor_plugin_starts_total", `plugin="`+name+`"`, `result="failure"`); n != 3 {
			t.Errorf("failed starts of %s = %v, want 3", name, n)
		}
	}
	_, rpl := created(t, rt, harness.Pod("default", "a", "accelerator", "gpu")) // all five select it
	if got := rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]; env(rpl.GetAdjust())["GPU"] != "1" ||
		got != "chatty=not_ready,foreign=not_ready,quits=not_ready,silent=not_ready" {
		t.Errorf("env %v, missed %q", env(rpl.GetAdjust()), got)
	}
	if z := sup.Zombies(); len(z) != 0 {
		t.Errorf("zombies %v", z)
	}
	if n := len(sup.Children()); n != 1 {
		t.Errorf("%d children, want the healthy plugin", n)
	}
	// A person can have it tried at once.
	act(t, sup, "restart", "quits")
	harness.Eventually(t, "another try", func() bool {
		return sup.Sum("nri_supervisor_plugin_starts_total", `plugin="quits"`, `result="failure"`) > 3
	})
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStoppingTakesTenSecondsAtMostWhateverThePluginsDo(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	spawner := newProbe(t, "spawner")
	sup := start(t, rt, teams,
		chaosPlugin(t, "stopped", "10", "", "")+chaosPlugin(t, "hangs", "20", `, faults: [{event: CreateContainer, action: hang}]`, "  timeouts: {default: 100ms}\n  overdueAfter: 1h")+
			chaosPlugin(t, "deaf", "30", `, faults: [{event: Shutdown, action: hang}]`, "")+spawner.manifest("40", "", ""), "stopped", "hangs", "deaf", "spawner")
	harness.Freeze(t, sup.PluginPID("stopped"))
	created(t, rt, harness.Pod("default", "a", "chaos", "hangs"))
	fork := harness.Pod("default", "b", "probe", "spawner")
	fork.Annotations["probe/spawn.CreateContainer"] = "yes"
	created(t, rt, fork)
	begin := time.Now()
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
}

func TestASecondTerminationEndsTheSupervisorAtOnceAndItsPluginsWithIt(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	sup := start(t, rt, teams, chaosPlugin(t, "deaf", "10", `, faults: [{event: Shutdown, action: hang}]`, "")+chaosPlugin(t, "stopped", "20", "", ""), "deaf", "stopped")
	pids := []int{sup.PluginPID("deaf"), sup.PluginPID("stopped")}
	harness.Freeze(t, pids[1])
	sup.Signal(syscall.SIGTERM)
	sup.WaitLine(1, "stopping", nil)
	harness.Eventually(t, "the end", func() bool {
		sup.Signal(syscall.SIGTERM) // again, as it may not be listened to yet
		return sup.Ended()
	})
	if code := sup.Wait(time.Minute); code != -1 { // by the signal; in order it is 0
		t.Errorf("exit code %d, want an end by the signal", code)
	}
	harness.Eventually(t, "the end of the plugins", func() bool { return !slices.ContainsFunc(pids, harness.Alive) })
}

func TestThirtyCrashesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	spawner := newProbe(t, "spawner")
	sup := start(t, rt, teams, strings.Replace(chaosPlugin(t, "dies", "10", "", "  restart: {backoff: 1ms, maxBackoff: 1ms, crashLoop: {exits: 1000, within: 1s}}"), "  restart: {backoff: 50ms}\n", "", 1)+
		spawner.manifest("20", "", ""), "dies", "spawner")
	var files, fds, children int
	for i := range 30 {
		if i == 5 {
			files, fds, children = len(sup.Files()), sup.Descriptors(), len(sup.Children())
		}
		if err := syscall.Kill(sup.PluginPID("dies"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		sup.Ready(i+2, "dies")
	}
	harness.Eventually(t, "as few files, descriptors and children as before", func() bool {
		return len(sup.Files()) <= files && sup.Descriptors() <= fds && len(sup.Children()) <= children && len(sup.Zombies()) == 0
	})
	if n := sup.Sum("nri_supervisor_plugin_exits_total", `plugin="dies"`, `reason="signal"`); n != 30 {
		t.Errorf("%v exits by signal, want 30", n)
	}
}

func TestTheChildOfAPluginGoesWithIt(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	p := newProbe(t, "spawner")
	sup := start(t, rt, teams, p.manifest("10", "", ""), "spawner")
	fork := harness.Pod("default", "a", "probe", "spawner")
	fork.Annotations["probe/spawn.CreateContainer"] = "yes"
	created(t, rt, fork)
	if err := syscall.Kill(sup.PluginPID("spawner"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	sup.Ready(2, "spawner")
	for _, l := range sup.Leftovers() {
		if strings.Contains(l, "sleep") {
			t.Errorf("the child of the dead plugin lives: %s", l)
		}
	}
}

func TestALogThatNobodyReadsDelaysNoEvent(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	read := make(chan struct{})
	file := filepath.Join(harness.TempDir(t), "flood")
	manifests := chaosPlugin(t, "loud", "10", fmt.Sprintf(`, faults: [{event: CreateContainer, action: "flood:3000", whileFile: %q}]`, file), "  timeouts: {default: 1500ms}")
	const teams4 = 4
	for i := range teams4 {
		p := newProbe(t, fmt.Sprint("set-", i))
		manifests += p.manifest(fmt.Sprint(20+i), fmt.Sprintf(`, "adjust": {"env": [{"key": "SET_%d", "value": "1"}]}`, i), fmt.Sprintf("  selector: {podSelector: {matchLabels: {set-%d: \"yes\"}}}", i))
	}
	sup := harness.StartSupervisorWith(t, rt.Config(teams, manifests), harness.Options{Unread: read})
	rt.WaitSync()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 10 { // a pipe holds 64 KiB; this is ten times as much, after the limits on a plugin's output
		created(t, rt, harness.Pod("default", fmt.Sprint("loud", i), "chaos", "loud"))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// Each set of plugins is merged for the first time now, while nobody reads the log.
	for set := range 1 << teams4 {
		labels := []string{"chaos", "loud"}
		for i := range teams4 {
			if set>>i&1 == 1 {
				labels = append(labels, fmt.Sprint("set-", i), "yes")
			}
		}
		for event, err := range life(t.Context(), rt, harness.Pod("default", fmt.Sprint("pod", set), labels...)) {
			if err != nil {
				t.Errorf("%s: %v", event, err)
			}
		}
	}
	if what, took := rt.Slowest(); took > 2*time.Second {
		t.Errorf("%s took %s while the log was full", what, took)
	}
	if n := rt.Dials(); n != 1 {
		t.Errorf("%d registrations, want one", n)
	}
	_, rpl := created(t, rt, harness.Pod("default", "last", "set-0", "yes", "set-1", "yes"))
	if got := env(rpl.GetAdjust()); got["SET_0"] != "1" || got["SET_1"] != "1" {
		t.Errorf("env %v: the plugins do not work while the log is full", got)
	}
	close(read)
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestASlowStartOfAPluginDoesNotKeepARegistrationWaiting(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	late := strings.Replace(chaosPlugin(t, "late", "10", "", "  timeouts: {start: 60s}"), "exec: {path: ", "exec: {env: [{name: CHAOS_START, value: \"hang\"}], path: ", 1)
	sup := harness.StartSupervisor(t, rt.Config(teams+"  startup: {waitForPlugins: 500ms}\n", late+gpuEnv(t)))
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	if what, took := rt.Slowest(); took > time.Second {
		t.Errorf("%s took %s", what, took)
	}
	begin := time.Now()
	pod := harness.Pod("default", "a", "accelerator", "gpu", "chaos", "late")
	_, rpl := created(t, rt, pod)
	if env(rpl.GetAdjust())["GPU"] != "1" || rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"] != "late=not_ready" {
		t.Errorf("adjusted %v", rpl.GetAdjust())
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %s: nobody waits for a plugin that has not started", took)
	}
	if code := sup.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := sup.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
