package chaos_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// Flags for a plugin that somebody else wrote; `make chaos PLUGIN=…` sets them.
var (
	ownPlugin   = flag.String("chaos.plugin", "", "program of the plugin to try; empty: the event logger of this repository")
	ownProtocol = flag.String("chaos.protocol", "go-plugin", "its exec.protocol: go-plugin, or nri for one without the SDK")
	ownConfig   = flag.String("chaos.config", "", "its configuration, one JSON object; empty: none")
)

// trial is one thing that is done to a plugin of somebody else's.
type trial struct {
	name string
	do   func(o *own)
	// again says that a new incarnation must come into service.
	again bool
}

// own is a supervisor with the plugin under trial and a healthy one.
type own struct {
	t     *testing.T
	rt    *harness.Runtime
	sup   *harness.Process
	pods  int
	ready int
}

func trials() []trial {
	return []trial{
		{"killed while idle (SIGKILL)", func(o *own) { o.signal(unix.SIGKILL) }, true},
		{"killed amid events (SIGKILL)", func(o *own) {
			for range 5 {
				o.pod()
			}
			o.signal(unix.SIGKILL)
			for range 5 {
				o.pod()
			}
		}, true},
		{"hung (SIGSTOP)", func(o *own) {
			harness.Freeze(o.t, o.sup.PluginPID("yours"))
			for range 5 {
				o.pod()
			}
		}, true},
		{"asked to end by somebody else (SIGTERM)", func(o *own) { o.signal(unix.SIGTERM) }, true},
		{"restarted by the operator", func(o *own) {
			if code, _, stderr := o.sup.Command("plugin", "restart", "yours"); code != 0 {
				o.t.Errorf("plugin restart: exit code %d: %s", code, stderr)
			}
		}, true},
		{"the runtime restarted", func(o *own) {
			o.rt.Stop()
			o.rt.Start()
			o.rt.WaitSync()
		}, false},
	}
}

// TestAPluginOfYourOwn kills, stops, hangs and restarts a plugin that is given, and says how it takes that and who else notices. It fails when a pod fails, an answer is late, or
// the plugin does not come back.
func TestAPluginOfYourOwn(t *testing.T) {
	t.Parallel()
	path := *ownPlugin
	if path == "" {
		path = harness.Plugin(t, "event-logger")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the plugin to try: %v", err)
	}
	o := &own{t: t, rt: harness.NewRuntime(t)}
	o.sup = harness.StartSupervisor(t, o.rt.Config(teams, healthyPlugins(t)[0].manifest()+ownManifest(path, *ownProtocol, *ownConfig)))
	o.rt.WaitSync()
	o.sup.Ready(1, "gpu-env")
	report(t, "%s, protocol %s", path, *ownProtocol)
	if why := keepsOut(o.sup, path); why != "" {
		report(t, "%-42s FAILED: %s", "started", why)
		t.Fatal("the plugin was not tried, because it did not come into service")
	}
	o.ready = 1
	for range 5 {
		o.pod()
	}
	for _, c := range trials() {
		o.try(c)
	}
	if event, took := o.rt.Slowest(); took >= requestTimeout {
		t.Errorf("%s took %s; the runtime's deadline is %s", event, took, requestTimeout)
	}
	begin := time.Now()
	if code := o.sup.Stop(); code != 0 {
		t.Errorf("exit code %d of the supervisor, want 0", code)
	}
	report(t, "%-42s %s", "stopped in order", o.verdict(true, fmt.Sprintf("ended in %d ms", time.Since(begin).Milliseconds())))
	if left := o.sup.Leftovers(); len(left) != 0 {
		t.Errorf("left after the supervisor: %q", left)
	}
}

// keepsOut waits until the plugin is in service, and returns what keeps it from that and what the person who tries it can do; empty: it is. A plugin may fail at first, and come up at the next try.
func keepsOut(sup *harness.Process, path string) string {
	const tries, lines = 3, 10 // the latest that it wrote
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := false; ; {
		said := map[string][]string{}
		for _, l := range sup.Lines(func(l map[string]any) bool { return l["plugin"] == "yours" || l["msg"] == "configuration problem" }) {
			msg := fmt.Sprint(l["msg"])
			said[msg] = append(said[msg], fmt.Sprint(cmp.Or(l["error"], l["to"], l["problem"], l["text"])))
		}
		if slices.Contains(said["plugin changed state"], "ready") {
			return ""
		}
		failed := slices.Concat(said["plugin did not start"], said["plugin not synchronized"])
		wrong := slices.DeleteFunc(said["configuration problem"], func(p string) bool { return strings.Contains(p, "warning: ") })
		if len(wrong)+len(failed)/tries > 0 || late {
			why := strings.Join(slices.Compact(append(wrong, failed...)), "; ")
			if out := said["plugin output"]; len(out) > 0 {
				why += "; it wrote: " + strings.Join(slices.Compact(out[max(0, len(out)-lines):]), "; ")
			}
			return fmt.Sprintf("it is not in service: %s. If it needs a configuration: make chaos PLUGIN=%s CONFIG='{\"key\": \"value\"}'; if it is built without the SDK: PROTOCOL=nri",
				cmp.Or(why, "nothing is said of it"), path)
		}
		select {
		case <-tick.C:
		case <-limit:
			late = true
		}
	}
}

// TestAPluginThatCannotBeTriedIsToldWhy, and how a configuration is given.
func TestAPluginThatCannotBeTriedIsToldWhy(t *testing.T) {
	t.Parallel()
	path := harness.Plugin(t, "event-logger")
	for config, want := range map[string]string{
		`{"frobnicate": 1}`: "frobnicate",
		`[`:                 "plugins.yaml",
	} {
		rt := harness.NewRuntime(t)
		sup := harness.StartSupervisor(t, rt.Config(teams, ownManifest(path, "go-plugin", config)))
		rt.WaitSync()
		got := keepsOut(sup, path)
		for _, part := range []string{want, "make chaos PLUGIN=" + path + " CONFIG="} {
			if !strings.Contains(got, part) {
				t.Errorf("with config %s it lacks %q: %q", config, part, got)
			}
		}
	}
}

// try does one thing, waits until the plugin is in service again, and reports.
func (o *own) try(c trial) {
	o.t.Helper()
	fallbacks := func() float64 { return o.sup.Sum("nri_supervisor_fallbacks_total", `plugin="yours"`) }
	before, pods := fallbacks(), o.pods
	begin := time.Now()
	c.do(o)
	ok := true
	if c.again {
		o.ready++
		ok = o.waitReady()
	}
	took := time.Since(begin)
	for range 3 {
		o.pod()
	}
	if !ok {
		o.t.Errorf("%s: the plugin is not in service again after %s", c.name, took)
	}
	report(o.t, "%-42s %s", c.name, o.verdict(ok, fmt.Sprintf("in service again after %d ms; %d pods in the meantime, %v events without the plugin's work; no pod failed, nobody else noticed",
		took.Milliseconds(), o.pods-pods-3, fallbacks()-before)))
}

func (o *own) verdict(ok bool, text string) string {
	if !ok || o.t.Failed() {
		return "FAILED: " + text
	}
	return "ok: " + text
}

// waitReady waits until the plugin has come into service once more.
func (o *own) waitReady() bool {
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n := len(o.sup.Lines(func(l map[string]any) bool {
			return l["msg"] == "plugin changed state" && l["plugin"] == "yours" && l["to"] == "ready"
		}))
		if n >= o.ready {
			o.ready = n
			return true
		}
		select {
		case <-tick.C:
		case <-limit:
			return false
		}
	}
}

// pod runs one pod through its life. Nothing of it may fail, and the healthy plugin's work must be there.
func (o *own) pod() {
	o.t.Helper()
	o.pods++
	ctx := o.t.Context()
	pod := harness.Pod("default", fmt.Sprintf("own-%d", o.pods), "healthy", "one")
	ctr := harness.Container(pod, "main")
	if err := o.rt.RunPod(ctx, pod); err != nil {
		o.t.Errorf("pod %s: %v", pod.GetName(), err)
	}
	rpl, err := o.rt.Create(ctx, pod, ctr)
	if err != nil {
		o.t.Errorf("pod %s: %v", pod.GetName(), err)
	}
	gpu := false
	for _, e := range rpl.GetAdjust().GetEnv() {
		gpu = gpu || e.GetKey() == "GPU" && e.GetValue() == "1"
	}
	if !gpu {
		o.t.Errorf("pod %s lacks the work of the healthy plugin", pod.GetName())
	}
	if err := o.rt.StartContainer(ctx, pod, ctr); err != nil {
		o.t.Errorf("pod %s: %v", pod.GetName(), err)
	}
	if err := o.rt.Remove(ctx, pod, ctr); err != nil {
		o.t.Errorf("pod %s: %v", pod.GetName(), err)
	}
	if err := o.rt.RemovePod(ctx, pod); err != nil {
		o.t.Errorf("pod %s: %v", pod.GetName(), err)
	}
}

func (o *own) signal(s unix.Signal) {
	o.t.Helper()
	if err := unix.Kill(o.sup.PluginPID("yours"), s); err != nil {
		o.t.Fatal(err)
	}
}

func ownManifest(path, protocol, config string) string {
	if config != "" {
		config = "\n  config: " + config
	}
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: yours}
spec:
  team: net
  index: "50"
  exec: {path: %q, protocol: %s}%s
  selector: {}
  failurePolicy: Ignore
  timeouts: {default: 300ms}
  overdueAfter: 1s
  breaker: {openDuration: 200ms, maxOpenDuration: 400ms}
  restart: {backoff: 100ms, maxBackoff: 1s, crashLoop: {exits: 1000, within: 60s}}
`, path, protocol, config)
}
