package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

func TestOperatorCommandsExplainThemselves(t *testing.T) {
	t.Parallel()
	all := [][]string{{"check"}, {"status"}, {"missed"}, {"events"}, {"bypass"}, {"reload"}, {"doctor"}, {"log-level"}, {"plugin"}, {"plugin", "list"}, {"plugin", "show"}}
	for _, a := range pluginActions() {
		all = append(all, []string{"plugin", a.name})
	}
	for _, args := range all {
		name := strings.Join(args, "-")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, append(args, "--help")...)
			if code != exitOK || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			golden(t, "help/"+name+".txt", stdout)
		})
	}
}

func TestEachCommandIsInTheManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	var headings string
	for line := range strings.Lines(string(manual)) {
		if strings.HasPrefix(line, "## ") {
			headings += line
		}
	}
	words := regexp.MustCompile(`[a-z-]+( [a-z-]+)?`).FindAllString(headings, -1)
	for _, cmd := range newRoot(io.Discard, io.Discard).Commands() {
		names := []string{cmd.Name()}
		if subs := cmd.Commands(); cmd.HasAvailableSubCommands() {
			names = nil
			for _, sub := range subs {
				names = append(names, cmd.Name()+" "+sub.Name())
			}
		}
		for _, name := range names {
			if !slices.Contains(words, name) || !strings.Contains(string(manual), "$ nri-supervisor "+strings.Fields(name)[0]) {
				t.Errorf("docs/cli.md has no section or no example of %q", name)
			}
		}
	}
}

func TestWrongUseExitsWithTwoAndSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want []string // parts of stderr
	}{
		{"an output that does not exist", []string{"status", "-o", "xml"}, []string{`invalid argument "xml" for "-o, --output" flag: use table or json`}},
		{"an unknown flag", []string{"status", "--sokcet", "/x"}, []string{"unknown flag: --sokcet"}},
		{"an argument too many", []string{"status", "gpu-env"}, []string{`nri-supervisor status: unknown argument "gpu-env"`, "nri-supervisor status --help"}},
		{"an empty value", []string{"missed", "--plugin"}, []string{"flag needs an argument: --plugin"}},
		{"an unknown action", []string{"plugin", "restrat", "gpu-env"}, []string{`nri-supervisor plugin: unknown command "restrat"`, "hint: did you mean: restart", "hint: see: nri-supervisor plugin --help"}},
		{"an unknown command", []string{"chek"}, []string{`nri-supervisor: error: unknown command "chek"`, "hint: did you mean: check", "hint: see: nri-supervisor --help"}},
		{"a log level that does not exist", []string{"run", "--log-level", "loud"}, []string{`--log-level "loud" is not one of`, "hint: see: nri-supervisor run --help"}},
		{"no name", []string{"plugin", "trip"}, []string{"nri-supervisor plugin trip: 0 arguments instead of the name of one plugin", "nri-supervisor plugin list"}},
		{"an empty name", []string{"plugin", "show", ""}, []string{"nri-supervisor plugin show: "}},
		{"two names", []string{"plugin", "trip", "a", "b"}, []string{"2 arguments instead of the name of one plugin"}},
		{"no duration", []string{"bypass"}, []string{"bypass: for how long is not said", "hint: write --for 10m, at most 24h, or --off to end a bypass"}},
		{"on and off", []string{"bypass", "--for", "1m", "--off"}, []string{"bypass: --for and --off exclude each other"}},
		{"a number without unit", []string{"bypass", "--for", "10"}, []string{`bypass: --for "10" is no duration`, "write --for 10m"}},
		{"nothing", []string{"bypass", "--for", "0s"}, []string{"bypass: --for 0s is not above zero"}},
		{"less than nothing", []string{"bypass", "--for=-1m"}, []string{"bypass: --for -1m0s is not above zero"}},
		{"more than a day", []string{"bypass", "--for", "24h1s"}, []string{"bypass: --for 24h0m1s is more than 24h0m0s"}},
		{
			"a socket path that is too long",
			[]string{"status", "--socket", "/" + strings.Repeat("x", 107)},
			[]string{"has 108 bytes, and unix sockets allow 107: choose a shorter one", "hint: set --socket"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, c.args...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr %q lacks %q", stderr, want)
				}
			}
			if !strings.HasPrefix(stderr, "nri-supervisor: error: ") {
				t.Errorf("stderr %q does not start with the error", stderr)
			}
			if lines := strings.Split(strings.TrimSpace(stderr), "\n"); !strings.HasPrefix(lines[len(lines)-1], "nri-supervisor: hint: see: nri-supervisor") {
				t.Errorf("stderr %q does not end with where to read on", stderr)
			}
		})
	}
}

func TestEachCommandSaysWhyTheSupervisorDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	none, file := filepath.Join(dir, "none.sock"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"status"}, {"missed"}, {"plugin", "list"}, {"plugin", "show", "x"}, {"plugin", "restart", "x"}, {"bypass", "--off"}, {"bypass", "--for", "1m"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, append(args, "--socket", none)...)
			want := "nri-supervisor: error: connect to \"" + none + "\": there is no such socket\n" +
				"nri-supervisor: hint: nri-supervisor does not run on this host, or its admin socket is elsewhere: set --socket\n"
			if diff := cmp.Diff(want, stderr); code != exitFailure || stdout != "" || diff != "" {
				t.Errorf("exit code %d, stdout %q, stderr (-want +got):\n%s", code, stdout, diff)
			}
			if code, _, stderr := command(t, append(args, "--socket", file)...); code != exitFailure || !strings.Contains(stderr, "it is not a socket") {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
		})
	}
}

func TestTheSocketIsTheOneInTheConfiguration(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}})
	dir, of := checkFolder(t, map[string]string{
		"config.yaml": goodConfig + "  admin: {socket: " + socket + "}\n",
		"broken.yaml": strings.Replace(goodConfig, "runDir:", "runDri:", 1),
	})
	if code, _, stderr := command(t, "status", "--config", filepath.Join(dir, "config.yaml")); code != exitOK || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if code, _, stderr := command(t, "status", "--config", filepath.Join(dir, "broken.yaml"), "--socket", socket); code != exitOK || stderr != "" {
		t.Errorf("with --socket: exit code %d, stderr %q", code, stderr)
	}
	code, _, stderr := command(t, "status", "--config", filepath.Join(dir, "broken.yaml"))
	if code != exitFailure || !strings.Contains(of(stderr), "error: DIR/broken.yaml:4: ") || !strings.Contains(stderr, "hint: name the admin socket itself: --socket "+defaultSocket) {
		t.Errorf("with a broken configuration: exit code %d, stderr %q", code, stderr)
	}
}

func TestWhatASupervisorSaysCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	st := wellBehaved(time.Now())
	st.Version = "\x1b]0;owned\x07"
	st.Plugins[0].Name = "\x1b[31mred"
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st, Missing: []supervisor.MissedWork{{Namespace: "a\x1b[2Jb", Plugin: "x\x9b"}}}})
	for _, args := range [][]string{{"status"}, {"missed"}, {"plugin", "list"}, {"plugin", "show", "x"}, {"plugin", "trip", "x"}} {
		_, stdout, stderr := command(t, append(args, "--socket", socket)...)
		if i := strings.IndexAny(stdout+stderr, "\x1b\x07\u009b"); i >= 0 {
			t.Errorf("%v: output has an active character: %q", args, stdout+stderr)
		}
	}
}

func TestErrorsOfASupervisorCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	report(asked(&admin.RequestError{Message: "a\x1b[2Jb", Hints: []string{"c\x1b[2Jd\ne"}}), &stderr)
	want := `nri-supervisor: error: a\x1b[2Jb` + "\n" + `nri-supervisor: hint: c\x1b[2Jd\ne` + "\n"
	if stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

func TestEachLineOfAnErrorSaysWhatItIs(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	err := policy.Problems{
		{File: "config.yaml", Line: 4, Field: "spec.metrics.adress", Message: "unknown field", Remedy: "did you mean address?"},
		{File: "config.yaml", Line: 5, Field: "spec.stateDir", Severity: policy.Warning, Message: "the folder lies in /tmp"},
	}
	if code := report(hintError{err, []string{"mend it"}}, &stderr); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	report(fmt.Errorf("start: %w", errors.Join(errors.New("one"), errors.New("two"))), &stderr)
	want := "nri-supervisor: error: config.yaml:4: spec.metrics.adress: unknown field; did you mean address?\n" +
		"nri-supervisor: warning: config.yaml:5: spec.stateDir: the folder lies in /tmp\n" +
		"nri-supervisor: hint: mend it\n" +
		"nri-supervisor: error: start: one\nnri-supervisor: error: two\n"
	if diff := cmp.Diff(want, stderr.String()); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

func TestTheVersionIsACommandAndAFlag(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, stdout, stderr := command(t, args...); code != exitOK || stdout != "nri-supervisor devel\n" || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestAFullDiskIsAnError(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}})
	for _, args := range [][]string{{"status"}, {"missed", "-o", "json"}, {"plugin", "trip", "gpu-env"}} {
		var stderr strings.Builder
		code := run(t.Context(), append(args, "--socket", socket), fullDisk{}, &stderr)
		if code != exitFailure || !strings.Contains(stderr.String(), "write the output: no space left") {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr.String())
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAnInterruptedCommandEndsAtOnce(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "silent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := l.Accept(); err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		cancel()
	}()
	var stdout, stderr strings.Builder
	if code := run(ctx, []string{"status", "--socket", socket}, &stdout, &stderr); code != exitFailure || stderr.String() != "nri-supervisor: error: interrupted before the supervisor had answered\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}
