package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// explanation is what `nri-supervisor explain -o json` prints.
type explanation struct {
	Source  string
	Plugins []struct {
		Plugin, Match, Part string
		Decisions           []struct {
			Event, Outcome, Action string
			TookSeconds            float64
			Changed                []struct{ Field, Key string }
		}
	}
	Owners []struct{ Field, Key, Plugin string }
}

// TestOneCommandSaysWhichPluginDidThisToMyContainer: while the pod lives, after it is gone, and after the supervisor is gone; without a value of a variable. What it records, the same
// plugin is verified with, and the selection is explained from it offline.
func TestOneCommandSaysWhichPluginDidThisToMyContainer(t *testing.T) {
	t.Parallel()
	rt := harness.NewRuntime(t)
	dir := rt.Config(teams, gpuEnv(t))
	sup := harness.StartSupervisor(t, dir)
	rt.WaitSync()
	sup.Ready(1, "gpu-env")

	events := filepath.Join(t.TempDir(), "events")
	recorded := make(chan string, 1)
	go func() {
		code, out, errs := sup.Command("record", events, "--count", "2", "--for", "30s")
		recorded <- strings.Repeat("failed: ", code) + out + errs
	}()
	harness.Eventually(t, "the recording begins", func() bool {
		files, _ := filepath.Glob(filepath.Join(events, "*-Synchronize.json"))
		return len(files) == 1
	})

	pod := harness.Pod("default", "mine", "accelerator", "gpu")
	ctr, rpl := created(t, rt, pod)
	if env(rpl.GetAdjust())["GPU"] != "1" {
		t.Fatalf("the plugin did nothing: %v", rpl)
	}
	check := func(when, source string, args ...string) {
		t.Helper()
		var list []explanation
		args = append([]string{"explain", "default/mine/" + ctr.GetName()}, args...)
		sup.Ask(&list, args...)
		if len(list) != 1 || list[0].Source != source || len(list[0].Plugins) != 1 {
			t.Fatalf("%s: %+v", when, list)
		}
		p := list[0].Plugins[0]
		if p.Plugin != "gpu-env" || p.Match != "selected" || len(p.Decisions) == 0 || p.Decisions[0].Event != "CreateContainer" || p.Decisions[0].Outcome != "success" ||
			p.Decisions[0].TookSeconds <= 0 || len(p.Decisions[0].Changed) != 1 || p.Decisions[0].Changed[0].Key != "GPU" {
			t.Errorf("%s: %+v", when, p)
		}
		if o := list[0].Owners; len(o) != 1 || o[0].Field != "Env" || o[0].Key != "GPU" || o[0].Plugin != "gpu-env" {
			t.Errorf("%s: owners %+v", when, o)
		}
	}
	check("while it lives", "live")
	if msg := <-recorded; !strings.HasPrefix(msg, "2 events") {
		t.Errorf("record: %s", msg)
	}
	act(t, sup, "trip", "gpu-env")

	file := filepath.Join(sup.Dir, "state", "audit.jsonl")
	harness.Eventually(t, "the audit of the action", func() bool {
		data, _ := os.ReadFile(file)
		return strings.Contains(string(data), `"manual":"trip"`)
	})
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !json.Valid([]byte(line)) || strings.Contains(line, `"GPU=1"`) {
			t.Errorf("line %s", line)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	sup.Stop()
	check("without a supervisor", "audit", "--audit", file)

	creation, err := filepath.Glob(filepath.Join(events, "*-CreateContainer-*.json"))
	if err != nil || len(creation) != 1 {
		t.Fatalf("%v, %v", err, creation)
	}
	var offline []explanation
	code, out, errs := harness.Run(t, "explain", "--event", creation[0], "--config", filepath.Join(dir, "config.yaml"), "-o", "json")
	if code != 0 || json.Unmarshal([]byte(out), &offline) != nil || len(offline) != 1 || offline[0].Plugins[0].Match != "selected" {
		t.Errorf("offline: exit code %d\n%s%s", code, out, errs)
	}
}

// TestVerifyFindsWhatTheSupervisorWouldFind: a good plugin passes by both protocols, and each fault has its check.
func TestVerifyFindsWhatTheSupervisorWouldFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("1.json", `{"event":"RunPodSandbox","pod":{"id":"p","name":"a","namespace":"d"}}`)
	write("2.json", `{"event":"CreateContainer","pod":{"id":"p","name":"a","namespace":"d"},"container":{"id":"c","name":"main","podSandboxId":"p"}}`)
	fault := func(name, action string) string {
		return write(name+".conf", `{"name":"x","faults":[{"event":"CreateContainer","action":"`+action+`"}]}`)
	}
	good := write("good.conf", `{"env":{"GPU":"1"}}`)
	injector, chaos, probe := harness.Plugin(t, "env-injector"), harness.Plugin(t, "chaos"), harness.Probe(t)
	type finding struct{ Check, Verdict, Detail string }
	for name, c := range map[string]struct {
		args []string
		fail string // the check that fails; none if empty
	}{
		"a plugin of the SDK":   {[]string{injector, "--plugin-config", good}, ""},
		"the same, by NRI":      {[]string{injector, "--plugin-config", good, "--protocol", "nri"}, ""},
		"a stock plugin":        {[]string{probe, "--plugin-config", write("probe.conf", "{}"), "--protocol", "nri"}, ""},
		"no plugin":             {[]string{"/bin/true"}, "handshake"},
		"a wrong configuration": {[]string{injector, "--plugin-config", write("bad.conf", `{"evn":{}}`)}, "configure"},
		"errors":                {[]string{chaos, "--plugin-config", write("error.conf", `{"name":"x","faults":[{"event":"CreateContainer","action":"error"}]}`)}, "events"},
		"a crash":               {[]string{chaos, "--plugin-config", write("panic.conf", `{"name":"x","faults":[{"event":"CreateContainer","action":"panic"}]}`)}, "events"},
		"too slow":              {[]string{chaos, "--plugin-config", fault("slow", "slow:3500ms"), "--timeout", "3s", "--repeat", "0"}, "timeouts"},
		"another answer":        {[]string{chaos, "--plugin-config", fault("twice", `forbidden", "times": 2, "whileFile": "/`)}, "idempotence"},
		"a leak":                {[]string{chaos, "--plugin-config", fault("leak", "fdleak:20")}, "leaks"},
		"no orderly end":        {[]string{chaos, "--plugin-config", write("end.conf", `{"name":"x","faults":[{"event":"Shutdown","action":"exit:3"}]}`)}, "shutdown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"verify", "--events", dir, "--repeat", "2", "--timeout", "10s", "-o", "json"}, c.args...)
			code, out, errs := harness.Run(t, args...)
			var list []finding
			if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 8 {
				t.Fatalf("%v: exit code %d\n%s%s", err, code, out, errs)
			}
			if told := strings.Contains(list[0].Detail, "without a cgroup of its own, which takes root"); c.fail == "" && told == (os.Geteuid() == 0) {
				t.Errorf("%+v for user %d", list[0], os.Geteuid())
			}
			for _, f := range list {
				if (f.Verdict == "fail") != (f.Check == c.fail) && (c.fail == "" || f.Check != "idempotence" || c.fail == "idempotence") {
					t.Errorf("%s: %s\n%s", f.Check, f.Verdict, out)
				}
			}
			if (code == 0) != (c.fail == "") {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
