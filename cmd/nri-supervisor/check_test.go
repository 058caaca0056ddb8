package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

// goodConfig declares the teams of the manifests below.
const goodConfig = `apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  runDir: /run/nri-supervisor
  teams:
    ml-infra: {contact: "#ml-infra"}
  fileTrust: "off" # whoever owns the folder of temporary files
`

// goodPlugin is a manifest with DIR for the folder of its binary.
const goodPlugin = `apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: gpu-env}
spec:
  team: ml-infra
  index: "20"
  exec: {path: DIR/gpu-env}
  selector: {namespaces: {include: ["ml-*"]}}
`

// checkFolder writes files that nobody else can write; DIR in them is the folder, and so is it in what of replaces.
func checkFolder(t *testing.T, files map[string]string) (dir string, of func(string) string) {
	t.Helper()
	dir = shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "gpu-env"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(s string) string { return strings.ReplaceAll(s, dir, "DIR") }
}

// fiveMistakes has one mistake of a different kind in each of five manifests, and a good one.
func fiveMistakes() map[string]string {
	wrong := func(name, old, text string) string {
		return strings.Replace(strings.Replace(goodPlugin, "name: gpu-env", "name: "+name, 1), old, text, 1)
	}
	return map[string]string{
		"config.yaml":    goodConfig,
		"good.yaml":      goodPlugin,
		"1-field.yaml":   wrong("one", "selector:", "selecter: {}\n  selector:"),
		"2-index.yaml":   wrong("two", `"20"`, "20"),
		"3-team.yaml":    wrong("three", "ml-infra", "ml-infa"),
		"4-binary.yaml":  wrong("four", "DIR/gpu-env", "DIR/gpu-evn"),
		"5-timeout.yaml": wrong("five", "exec:", "timeouts: {default: soon}\n  exec:"),
	}
}

func TestCheckPrintsOneLinePerMistakeWithFileAndLine(t *testing.T) {
	t.Parallel()
	dir, of := checkFolder(t, fiveMistakes())
	code, stdout, stderr := command(t, "check", "--config", filepath.Join(dir, "config.yaml"), dir)
	if code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	got := strings.Split(strings.TrimSuffix(of(stdout), "\n"), "\n")
	want := []string{
		"DIR/1-field.yaml:8: spec.selecter: ", "DIR/2-index.yaml:6: spec.index: ", "DIR/3-team.yaml:5: spec.team: ",
		"DIR/4-binary.yaml:7: spec.exec.path: ", "DIR/5-timeout.yaml:7: spec.timeouts.default: ",
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), stdout)
	}
	for i, line := range got {
		if !strings.HasPrefix(line, want[i]) || len(line) < len(want[i])+10 {
			t.Errorf("line %q does not start with %q and go on with what is wrong", line, want[i])
		}
	}
	if want := "1 plugin valid, 5 invalid: 5 errors, 0 warnings\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}

func TestCheckAsJSONHasTheSameProblems(t *testing.T) {
	t.Parallel()
	dir, of := checkFolder(t, fiveMistakes())
	code, stdout, _ := command(t, "check", "-o", "json", "--config", filepath.Join(dir, "config.yaml"), dir)
	if code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	var got checkReport
	if err := json.Unmarshal([]byte(of(stdout)), &got); err != nil {
		t.Fatal(err)
	}
	for i, p := range got.Problems {
		if p.Message == "" || p.Remedy == "" {
			t.Errorf("problem without message or remedy: %+v", p)
		}
		got.Problems[i].Message, got.Problems[i].Remedy = "", ""
	}
	want := checkReport{
		Config: "DIR/config.yaml", Usable: true, Valid: []string{"gpu-env"}, Invalid: 5,
		Problems: []checkProblem{
			{File: "DIR/1-field.yaml", Line: 8, Field: "spec.selecter", Plugin: "one", Severity: "error"},
			{File: "DIR/2-index.yaml", Line: 6, Field: "spec.index", Plugin: "two", Severity: "error"},
			{File: "DIR/3-team.yaml", Line: 5, Field: "spec.team", Plugin: "three", Severity: "error"},
			{File: "DIR/4-binary.yaml", Line: 7, Field: "spec.exec.path", Plugin: "four", Severity: "error"},
			{File: "DIR/5-timeout.yaml", Line: 7, Field: "spec.timeouts.default", Plugin: "five", Severity: "error"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestCheckExitsWithZeroWhenThereAreOnlyWarnings(t *testing.T) {
	t.Parallel()
	dir, of := checkFolder(t, map[string]string{
		"config.yaml": goodConfig, "slow.yaml": strings.Replace(goodPlugin, "exec:", "timeouts: {default: 3s}\n  exec:", 1),
	})
	code, stdout, stderr := command(t, "check", "--config", filepath.Join(dir, "config.yaml"), filepath.Join(dir, "slow.yaml"))
	if code != exitOK || !strings.HasPrefix(of(stdout), "DIR/slow.yaml:1: warning: spec.timeouts: ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if want := "1 plugin valid, 0 invalid: 0 errors, 1 warning\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}

func TestCheckOfGoodManifestsSaysSo(t *testing.T) {
	t.Parallel()
	dir, _ := checkFolder(t, map[string]string{
		"config.yaml": goodConfig + "  pluginDirs: [DIR]\n", "good.yaml": goodPlugin,
	})
	config := filepath.Join(dir, "config.yaml")
	code, stdout, stderr := command(t, "check", "--config", config)
	if code != exitOK || stdout != "" || stderr != "1 plugin valid, 0 invalid\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, _ = command(t, "check", "--config", config, "-o", "json")
	want := "{\n  \"config\": \"" + config + "\",\n  \"usable\": true,\n  \"valid\": [\n    \"gpu-env\"\n  ],\n  \"invalid\": 0,\n  \"problems\": []\n}\n"
	if code != exitOK || stdout != want {
		t.Errorf("exit code %d, stdout %s", code, stdout)
	}
}

func TestCheckTellsOfAnUnusableConfiguration(t *testing.T) {
	t.Parallel()
	dir, of := checkFolder(t, map[string]string{
		"config.yaml": strings.Replace(goodConfig, "runDir:", "runDri:", 1), "good.yaml": goodPlugin,
	})
	code, stdout, stderr := command(t, "check", "--config", filepath.Join(dir, "config.yaml"), filepath.Join(dir, "good.yaml"))
	if code != exitFailure || !strings.HasPrefix(of(stdout), "DIR/config.yaml:4: spec.runDri: ") {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if want := "the configuration cannot be used: 1 error, 0 warnings\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}

func TestCheckOfAMissingFileOrFolderFails(t *testing.T) {
	t.Parallel()
	dir, of := checkFolder(t, map[string]string{"config.yaml": goodConfig})
	code, stdout, stderr := command(t, "check", "--config", filepath.Join(dir, "config.yaml"), filepath.Join(dir, "plugins.d"))
	if code != exitFailure || !strings.HasPrefix(of(stdout), "DIR/plugins.d: ") || stderr != "0 plugins valid, 0 invalid: 1 error, 0 warnings\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, _ = command(t, "check", "--config", filepath.Join(dir, "none.yaml"))
	if code != exitFailure || !strings.HasPrefix(of(stdout), "DIR/none.yaml: ") {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
}

func TestCheckSaysWhenItUsesTheBuiltInDefaults(t *testing.T) {
	t.Parallel()
	dir, of := checkFolder(t, map[string]string{"good.yaml": goodPlugin})
	f := checkFlags{output: formatTable}
	var stdout, stderr bytes.Buffer
	if err := f.check(&stdout, &stderr, "", []string{dir}); !errors.Is(err, silentError{}) {
		t.Errorf("error %v: a plugin of an undeclared team is one", err)
	}
	if !strings.HasPrefix(of(stdout.String()), "DIR/good.yaml:5: spec.team: ") {
		t.Errorf("stdout %q", stdout.String())
	}
	want := "nri-supervisor: note: there is no " + defaultConfig + ": built-in defaults, which declare no team; set --config\n" +
		"0 plugins valid, 1 invalid: 1 error, 0 warnings\n"
	if stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

func TestCheckIndentsARemedyToPasteAndEscapesWhatActsOnATerminal(t *testing.T) {
	t.Parallel()
	b := paper{width: usualWidth}
	writeProblem(&b, policy.Problem{File: "x.yaml", Line: 3, Field: "spec", Message: "\x1b[31m is wrong", Remedy: "write\nspec:\n  a: 1\n"})
	if want := "x.yaml:3: spec: \\x1b[31m is wrong; write\n    spec:\n      a: 1\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestCheckFindsWhatTheStartWouldRefuse(t *testing.T) {
	t.Parallel()
	script := strings.Replace(goodPlugin, "DIR/gpu-env", "DIR/script", 1)
	dir, _ := checkFolder(t, map[string]string{"config.yaml": goodConfig, "plugin.yaml": script, "script": "#!DIR/gpu-env\n"})
	for name, tt := range map[string]struct {
		mode os.FileMode // of the interpreter
		code int
		want string
	}{
		"a plain interpreter":  {0o700, exitOK, ""},
		"a setuid interpreter": {0o700 | os.ModeSetuid, exitFailure, "setuid or setgid programs are refused"},
		"none that executes":   {0o600, exitFailure, "not executable"},
	} {
		for file, mode := range map[string]os.FileMode{"gpu-env": tt.mode, "script": 0o700} {
			if err := os.Chmod(filepath.Join(dir, file), mode); err != nil {
				t.Fatal(err)
			}
		}
		code, stdout, stderr := command(t, "check", "--config", filepath.Join(dir, "config.yaml"), filepath.Join(dir, "plugin.yaml"))
		if code != tt.code || !strings.Contains(stdout, tt.want) || strings.Contains(stderr, "1 plugin valid") != (tt.code == exitOK) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
}
