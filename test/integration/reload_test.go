package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// eventsPerSecond is the load that a reload and a restart must bear.
const eventsPerSecond = 50

// made is one creation under load: when it was answered, the plugin's work in it, and why that is missing.
type made struct {
	pod    string
	at     time.Time
	gpu    string
	missed string
}

// load creates containers for gpu-env until it is stopped, and returns them in their order.
func load(t *testing.T, rt *harness.Runtime) (stop func() []made) {
	t.Helper()
	over := make(chan struct{})
	begin := len(rt.Live())
	var list []made
	var worker sync.WaitGroup
	worker.Go(func() {
		tick := time.NewTicker(time.Second / eventsPerSecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			pod := harness.Pod("default", fmt.Sprintf("load%d-%d", begin, n), "accelerator", "gpu")
			if err := rt.RunPod(t.Context(), pod); err != nil {
				t.Errorf("run %s: %v", pod.GetName(), err)
				return
			}
			rpl, err := rt.Create(t.Context(), pod, harness.Container(pod, "main"))
			if err != nil {
				t.Errorf("create %s: %v", pod.GetName(), err)
				return
			}
			list = append(list, made{pod.GetName(), time.Now(), env(rpl.GetAdjust())["GPU"], rpl.GetAdjust().GetAnnotations()["nri-supervisor.dev/missed"]})
		}
	})
	return sync.OnceValue(func() []made {
		close(over)
		worker.Wait()
		return list
	})
}

func TestAChangeUnderLoadIsAppliedWithoutAGap(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	other := newProbe(t, "other")
	dir := rt.Config(teams, other.manifest("30", "", ""))
	// As Kubernetes mounts a ConfigMap.
	manifests := filepath.Join(dir, "plugins.d")
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(manifests, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(manifests, name, "gpu.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(manifests, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(manifests, "..data_tmp"), filepath.Join(manifests, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Replace(gpuEnv(t), "  selector:", "  timeouts: {default: 1500ms}\n  selector:", 1)
	version("..v1", text)
	if err := os.Symlink("..data/gpu.yaml", filepath.Join(manifests, "gpu.yaml")); err != nil {
		t.Fatal(err)
	}
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	sup.Ready(1, "other")
	pid := sup.PluginPID("other")
	stop := load(t, rt)
	gpu := sup.PluginPID("gpu-env")
	version("..v2", strings.Replace(text, `GPU: "1"`, `GPU: "2"`, 1))
	sup.WaitLine(1, "configuration reloaded", map[string]any{"cause": "watch", "result": "success"})
	if got := sup.PluginPID("gpu-env"); got != gpu {
		t.Errorf("another configuration made another process: %d, before %d", got, gpu)
	}
	version("..v3", strings.Replace(text, `GPU: "1"`, "GPU: [", 1))
	sup.WaitLine(1, "configuration reloaded", map[string]any{"cause": "watch", "result": "partial"})
	code, out, errs := sup.Command("reload")
	if code != 1 || !strings.Contains(out, "problem: ") {
		t.Errorf("reload with a broken manifest: exit code %d, %s%s", code, out, errs)
	}
	version("..v4", strings.NewReplacer(`GPU: "1"`, `GPU: "4"`, "exec: {", "exec: {env: [{name: V, value: four}], ").Replace(text))
	if code, out, errs = sup.Command("reload"); code != 0 {
		t.Errorf("reload: exit code %d, %s%s", code, out, errs)
	}
	harness.Eventually(t, "the last version", func() bool {
		_, rpl := created(t, rt, harness.Pod("default", "probe", "accelerator", "gpu"))
		return env(rpl.GetAdjust())["GPU"] == "4"
	})
	seen := map[string]int{}
	for _, m := range stop() {
		seen[m.gpu]++
		if m.gpu == "" || m.missed != "" {
			t.Errorf("pod %s: GPU=%q, missed %q", m.pod, m.gpu, m.missed)
		}
	}
	t.Logf("created by version: %v", seen)
	if got := sup.PluginPID("gpu-env"); got == gpu {
		t.Error("another environment made no other process")
	}
	if n := rt.Dials(); n != 1 {
		t.Errorf("%d registrations", n)
	}
	if got := sup.PluginPID("other"); got != pid {
		t.Errorf("the plugin that did not change has pid %d, had %d", got, pid)
	}
	if list := sup.Missed(); len(list) != 0 {
		t.Errorf("missed: %v", list)
	}
}

func TestARestartUnderLoadLeavesAShortWindowAndListsWhatFellIntoIt(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := rt.Config(teams, gpuEnv(t))
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	const tries = 3 // a machine that is busy with something else may spoil one
	var windows []time.Duration
	for range tries {
		stop := load(t, rt)
		harness.Eventually(t, "the load", func() bool { return len(rt.Live()) > 5 })
		if code := sup.Stop(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		sup = harness.StartSupervisor(t, dir)
		rt.WaitSync()
		sup.Ready(1, "gpu-env")
		harness.Eventually(t, "the plugin's work", func() bool { return outcome(t, rt, fmt.Sprintf("after%d", len(windows))) == "" })
		known := len(rt.Live())
		harness.Eventually(t, "more of the load", func() bool { return len(rt.Live()) >= known+5 })
		list := stop()
		if list[0].gpu == "" || list[len(list)-1].gpu == "" {
			t.Fatalf("the load does not begin and end in service: %+v", list)
		}
		down := map[string]bool{}
		last, window := list[0].at, time.Duration(0)
		for _, m := range list {
			switch {
			case m.gpu != "":
				window = max(window, m.at.Sub(last))
				last = m.at
			case m.missed == "":
				down[m.pod] = true
			}
		}
		harness.Eventually(t, "the list of what fell into the window", func() bool {
			why := reasons(sup.Missed())
			for pod := range down {
				if why[pod] == "" {
					return false
				}
			}
			return true
		})
		windows = append(windows, window)
		if window < time.Second {
			t.Logf("windows %v, %d containers in the last one", windows, len(down))
			return
		}
	}
	t.Errorf("windows without a supervisor: %v, want one below 1s", windows)
}

func TestABrokenConfigurationIsReplacedByTheLastGoodOneAtAStart(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := rt.Config(teams, gpuEnv(t))
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	if code := sup.Stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	config := filepath.Join(dir, "config.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for path, broken := range map[string]string{config: string(text) + "  nonsense: 1\n", filepath.Join(dir, "plugins.d", "plugins.yaml"): "kind: ["} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sup = harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")
	if why := outcome(t, rt, "a"); why != "" {
		t.Error(why)
	}
	if code, body := sup.Get("/readyz"); code != 503 || !strings.Contains(body, "nonsense") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if why := statusOf(t, sup, "gpu-env").Stale; !strings.Contains(why, "plugins.yaml") {
		t.Errorf("the plugin runs on its last good version because of %q", why)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the mended configuration", func() bool {
		code, _ := sup.Get("/readyz")
		return code == 200
	})
}
