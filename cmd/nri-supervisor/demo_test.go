package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoBinary builds the command, which re-executes itself: a test binary could not.
func demoBinary(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "nri-supervisor")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// demoRun is a demo of the shortest stream at a high rate, and what it left behind.
type demoRun struct {
	code           int
	stdout, stderr string
	result         demoResult
}

func runDemoBinary(t *testing.T, bin string, args ...string) demoRun {
	t.Helper()
	tmp := demoTempDir(t)
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"demo", "-o", "json", "--containers", "300", "--rate", "120"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r := demoRun{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&r.result); err != nil {
		t.Fatalf("stdout is no result: %v\n%s\n%s", err, r.stdout, r.stderr)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("there is more on stdout than one JSON object: %v", err)
	}
	nothingLeft(t, tmp)
	return r
}

// demoTempDir is a folder with a path that is short enough for the demo to use it.
func demoTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "nrid")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// nothingLeft checks that no file is left in the folder, and no process that was started there.
func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	entries, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("the demo left %q behind", e.Name())
	}
	if left := demoProcesses(t, tmp); len(left) > 0 {
		t.Errorf("the demo left processes behind: %v", left)
	}
}

// demoProcesses are the processes with the folder in their arguments or as a parent of their working directory: the runtime, the supervisor and the hosted plugins.
func demoProcesses(t *testing.T, tmp string) []string {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range procs {
		args, _ := os.ReadFile(filepath.Join(p, "cmdline")) // it may be gone
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if strings.Contains(string(args), tmp) || strings.HasPrefix(cwd, tmp+"/") {
			found = append(found, fmt.Sprintf("%s %q in %s", filepath.Base(p), args, cwd))
		}
	}
	return found
}

// The three variants run one after the other and not beside other tests of this package, since the first of them measures time.
func TestTheDemoKeepsItsPromisesAndBreaksThemWithoutThePartsThatKeepThem(t *testing.T) {
	bin := demoBinary(t)

	t.Run("as it is", func(t *testing.T) { //nolint:paralleltest // it measures time
		r := runDemoBinary(t, bin)
		res := r.result
		if res.Containers < 300 || res.Registrations != 1 || res.DeadlineMissed != 0 || res.Unselected < 200 {
			t.Errorf("%+v", res)
		}
		for _, p := range res.Plugins {
			if p.Selected != p.Adjusted+p.missed()+p.Rejected || !p.InService {
				t.Errorf("%+v", p)
			}
			if broken := p.Name != demoGPU().name; broken && (p.Restarts == 0 || p.BreakerOpened == 0 || p.BreakerClosed == 0 || p.missed() == 0) {
				t.Errorf("%s did not break and come back: %+v", p.Name, p)
			}
		}
		// How long waits are is the machine's business here, where other packages are tested at the same time. `make demo` is strict.
		waits := regexp.MustCompile(`waited|kept the node waiting|cost the node|set aside`)
		for _, p := range res.Promises {
			for _, b := range p.Broken {
				if !waits.MatchString(b) {
					t.Errorf("%s: %s", p.Name, b)
				}
			}
		}
		if res.Latency.P50 <= 0 || res.Latency.P50 > res.Latency.P99 {
			t.Errorf("latency %+v", res.Latency)
		}
		if want := exitFailure; (r.code == want) != (res.verdict() != nil) {
			t.Errorf("exit code %d with promises %+v", r.code, res.Promises)
		}
	})

	for without, wants := range map[demoWithout]map[string]string{
		demoWithoutGuard: {
			"blast radius":           "waited longer than a plugin's timeout allows",
			"never late, never lost": "net-tuner is not in service at the end",
			"never silent":           "are told to be without it",
		},
		demoWithoutSelector: {
			"blast radius": "that no broken plugin selected differ from the baseline",
		},
	} {
		t.Run("without "+string(without), func(t *testing.T) {
			t.Parallel()
			r := runDemoBinary(t, bin, "--without", string(without))
			if r.code != exitFailure {
				t.Errorf("exit code %d, want %d", r.code, exitFailure)
			}
			if !strings.Contains(r.stderr, "a promise is broken: blast radius: ") || !strings.Contains(r.stderr, "--without "+string(without)) {
				t.Errorf("stderr does not say what broke and why:\n%s", r.stderr)
			}
			if r.result.UnselectedAffected == 0 || r.result.Without != string(without) {
				t.Errorf("%+v", r.result)
			}
			for _, p := range r.result.Promises {
				if want := wants[p.Name]; !strings.Contains(strings.Join(p.Broken, "\n"), want) {
					t.Errorf("%s: want %q, got %q", p.Name, want, p.Broken)
				}
			}
		})
	}

	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		tmp := demoTempDir(t)
		cmd := exec.CommandContext(t.Context(), bin, "demo")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		progress, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		limit := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		lines := demoScanner(progress)
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), " of 320 containers") { // everything runs by now
				if len(demoProcesses(t, tmp)) < 3 {
					t.Errorf("only these run: %v", demoProcesses(t, tmp))
				}
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitFailure {
			t.Errorf("ended with %v, want exit code %d", err, exitFailure)
		}
		if !strings.Contains(text.String(), "nri-supervisor: error: demo: interrupted") {
			t.Errorf("stderr:\n%s", text.String())
		}
		nothingLeft(t, tmp)
	})
}

func TestWrongFlagsOfTheDemoAreUsageErrorsThatSayWhatIsRight(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--containers 299 is not between 300 and 100000":         {"--containers", "299"},
		"--rate 0.5 is not between 1 and 200":                    {"--rate", "0.5"},
		"--rate NaN is not between 1 and 200":                    {"--rate", "NaN"},
		"use guard or selector":                                  {"--without", "breaker"},
		"use table or json":                                      {"-o", "yaml"},
		"invalid argument":                                       {"--seed", "-1"},
		`unknown argument "now"`:                                 {"now"},
		"demo runtime: --socket has to be an absolute path":      {"runtime"},
		"demo plugin: --socket has to be an absolute path":       {"plugin", "gpu-env"},
		`demo plugin: there is no plugin "x"`:                    {"plugin", "x", "--socket", "/nowhere"},
		"demo plugin: it takes the name of one plugin, and no 2": {"plugin", "gpu-env", "net-tuner"},
	} {
		code, stdout, stderr := command(t, append([]string{"demo"}, args...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("demo %v: exit code %d, stderr %q, want %d and %q", args, code, stderr, exitUsage, want)
		}
	}
}

func TestTheManualNamesEachFieldAndFlagOfTheDemo(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "demo.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range []any{demoResult{}, demoPluginResult{}, demoLatency{}, demoSetAside{}, demoPromise{}} {
		for f := range reflect.TypeOf(v).Fields() {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
				names = append(names, "`"+tag+"`")
			}
		}
	}
	names = append(names, regexp.MustCompile(`--[a-z]+`).FindAllString(newDemo().Flags().FlagUsages(), -1)...)
	for _, name := range names {
		if name != "--output" && !strings.Contains(string(manual), name) {
			t.Errorf("docs/demo.md does not say what %s is", name)
		}
	}
}
