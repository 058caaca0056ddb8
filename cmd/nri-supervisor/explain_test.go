package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// explained is an explanation with everything that there can be in one.
func explained(container string) []supervisor.Explanation {
	at := fakeNow()
	main := supervisor.Explanation{
		Object: journal.Object{Namespace: "ml-train", Pod: "job-1", PodID: "p", Container: "main", ContainerID: "c"}, Source: supervisor.ExplainedLive, Phase: "created",
		Plugins: []supervisor.PluginExplanation{
			{Plugin: "gpu-env", Team: "ml-infra", Match: journal.MatchSelected, Decisions: []journal.Decision{{
				Time: at, Kind: journal.KindEvent, Event: "CreateContainer", Outcome: "success", Action: journal.ActionAllowed, TookSeconds: 0.0031,
				Changed: []journal.Field{{Field: "Env", Key: "CUDA_VISIBLE_DEVICES"}, {Field: "CPUShares", Container: "other"}},
			}}},
			{Plugin: "cuda-fix", Team: "hpc", Match: journal.MatchSelected, Decisions: []journal.Decision{
				{
					Time: at, Kind: journal.KindEvent, Event: "CreateContainer", Outcome: "conflict", Reason: "conflict", Action: journal.ActionIgnored, TookSeconds: 0.0012,
					Dropped: []journal.Field{{Field: "Env", Key: "CUDA_VISIBLE_DEVICES"}}, With: []string{"gpu-env"}, Detail: "conflict with gpu-env",
				},
				{Time: at, Kind: journal.KindUpdate, Action: journal.ActionDenied, Detail: "permissions.update is none"},
			}},
			{Plugin: "down", Team: "hpc", Match: journal.MatchSelected, Work: &supervisor.WorkExplanation{Reason: "not_ready", Missed: true}},
			{Plugin: "net-tuner", Team: "network", Match: journal.MatchNot, Part: "namespaces", Detail: `namespace "ml-train", include ["edge-*"]`},
			{Plugin: "shy", Team: "network", Match: journal.MatchOptedOut, Part: "opted out", Note: "a note"},
		},
		Owners: []journal.Owner{{Field: "Env", Key: "CUDA_VISIBLE_DEVICES", Plugin: "gpu-env", Event: "CreateContainer"}, {Field: "Mounts", Key: "/x", Removed: true, Plugin: "gpu-env", Event: "CreateContainer"}},
		Notes:  []string{"the audit could not be read"},
	}
	if container != "" {
		return []supervisor.Explanation{main}
	}
	pod := supervisor.Explanation{Object: journal.Object{Namespace: "ml-train", Pod: "job-1", PodID: "p"}, Source: supervisor.ExplainedFromAudit}
	refused := supervisor.Explanation{
		Object: journal.Object{Namespace: "ml-train", Pod: "job-1", PodID: "p", Container: "refused", ContainerID: "r"}, Source: supervisor.ExplainedFromAudit,
		Decisions: []journal.Decision{{
			Time: at, Kind: journal.KindEvent, Event: "CreateContainer", Reason: "required", Action: journal.ActionFailed, Detail: "the annotation cannot be read",
		}},
	}
	return []supervisor.Explanation{pod, main, refused}
}

func TestExplainSaysWhoDidWhatAndWhyNot(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{})
	for file, args := range map[string][]string{"explain/pod.txt": {"ml-train/job-1"}, "explain/container.json": {"ml-train/job-1/main", "-o", "json"}} {
		code, stdout, stderr := onScreen(t, append([]string{"explain", "--socket", socket}, args...)...)
		if code != exitOK || stderr != "" {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
		golden(t, file, stdout)
	}
	code, stdout, stderr := command(t, "explain", "--socket", socket, "default/nobody")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "nothing is known of it\nnri-supervisor: hint: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestExplainNeedsToKnowOfWhat(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"pod"}, {"a/b/c/d"}, {"a/"}, {"a/b/"}, {"a/b", "c/d"}, {"--event", "x", "--audit", "y"}} {
		if code, _, stderr := command(t, append([]string{"explain"}, args...)...); code != exitUsage || !strings.Contains(stderr, "explain") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

func TestExplainOfAnEventNamesThePartThatRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml": "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  teams: {t: {}}\n",
		"a.yaml":      "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: a}\nspec:\n  team: t\n  index: \"10\"\n  exec: {path: /bin/true}\n  selector: {podSelector: {matchLabels: {gpu: \"1\"}}}\n",
		"b.yaml":      "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: b}\nspec:\n  team: t\n  index: \"20\"\n  exec: {path: /bin/true}\n  selector: {namespaces: {include: [\"edge-*\"]}, matchConditions: [{name: big, expression: 'container.name == \"x\"'}]}\n",
		"bad.yaml":    "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: bad}\nspec: {}\n",
		"event.json":  `{"event":"CreateContainer","pod":{"id":"p","name":"job","namespace":"ml","labels":{"gpu":"1"}},"container":{"id":"c","name":"main"}}`,
		"broken.json": `{"event":"Create"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	code, stdout, stderr := command(t, "explain", "--event", file("event.json"), "--config", file("config.yaml"), file("a.yaml"), file("b.yaml"), file("bad.yaml"))
	want := "container ml/job/main, from the event; what would be selected\n  a (team t): selected\n  b (team t): not selected by namespaces: namespace \"ml\", include [\"edge-*\"]\n"
	if code != exitOK || stdout != want || !strings.Contains(stderr, `warning: plugin "bad"`) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, _, stderr = command(t, "explain", "--event", file("broken.json"), "--config", file("config.yaml"), file("a.yaml"))
	if code != exitFailure || !strings.Contains(stderr, `"Create" is not an event of NRI`) {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestRecordWritesOneEventAFileAndSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{})
	dir := filepath.Join(t.TempDir(), "events")
	code, stdout, stderr := command(t, "record", dir, "--socket", socket, "--count", "2")
	if code != exitOK || stderr != "" || stdout != "2 events in "+dir+", after the state in 000000-Synchronize.json\n3 events are missing: this client was too slow\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 3 || filepath.Base(files[2]) != "000002-StopPodSandbox-a_b-.._c.json" {
		t.Errorf("%v, %v", err, files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, mode %v", err, info.Mode())
		}
	}
	if code, _, stderr := command(t, "record", dir, "--socket", socket, "--count", "2"); code != exitFailure || !strings.Contains(stderr, "hint: name a new folder") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if code, _, _ := command(t, "record", "--socket", socket); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
}
