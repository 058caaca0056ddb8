package isolation_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestAPluginOfTheSDKIsStartedConfiguredCalledAndStopped(t *testing.T) {
	t.Parallel()
	out := newLines()
	s := spec(t, isolation.GoPlugin, "sdk")
	s.OnOutput = out.add
	i := startAndConfigure(t, s)
	if got := i.Registration(); got.Name != "test" || got.Index != "42" || got.NRIVersion == "" {
		t.Errorf("registration %+v", got)
	}
	reply, err := create(t, i, "web")
	if err != nil {
		t.Fatal(err)
	}
	if got := env(reply, "PLUGIN"); got != "pod/web" {
		t.Errorf("adjustment says %q", got)
	}
	if err := i.Health(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
	if err := i.SetLogLevel(t.Context(), "debug"); err != nil {
		t.Errorf("log level: %v", err)
	}
	d, err := i.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Version != "v1.2.3" {
		t.Errorf("version %q", d.Version)
	}
	if diff := cmp.Diff([]string{"CreateContainer", "RemoveContainer"}, d.Events); diff != "" {
		t.Error(diff)
	}
	exit := i.Stop(t.Context())
	if exit.Reason != isolation.ReasonStopped || exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("exit %s", exit)
	}
	out.wait(t, withText("shutdown handler called"))
	if n := strings.Count(strings.Join(exit.LastOutput, "\n"), "shutdown handler called"); n != 1 {
		t.Errorf("shutdown handler called %d times", n)
	}
	nothingLeft(t, s, i.PID())
}

func TestAStockPluginIsStartedConfiguredCalledAndStopped(t *testing.T) {
	t.Parallel()
	s := spec(t, isolation.NRI, "stock")
	i := startAndConfigure(t, s)
	reply, err := create(t, i, "web")
	if err != nil {
		t.Fatal(err)
	}
	if got := env(reply, "PLUGIN"); got != "pod/web" {
		t.Errorf("adjustment says %q", got)
	}
	if err := i.Health(t.Context()); !errors.Is(err, isolation.ErrNoControl) {
		t.Errorf("health: %v", err)
	}
	if _, err := i.Describe(t.Context()); !errors.Is(err, isolation.ErrNoControl) {
		t.Errorf("describe: %v", err)
	}
	exit := i.Stop(t.Context())
	if exit.Reason != isolation.ReasonStopped || exit.Signal.String() != "terminated" {
		t.Errorf("exit %s", exit)
	}
	if !slices.Contains(exit.LastOutput, "shutdown handler called") {
		t.Errorf("no Shutdown call before SIGTERM: %q", exit.LastOutput)
	}
	nothingLeft(t, s, i.PID())
}

// nothingLeft asserts that the process is reaped and its directory removed.
func nothingLeft(t *testing.T, s isolation.Spec, pid int) {
	t.Helper()
	if state := processState(pid); state != "" {
		t.Errorf("process %d is left, state %s", pid, state)
	}
	if files := filesIn(t, s.RunDir); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}

// filesIn lists everything below dir but the folders that stay: plugins and plugins/NAME.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if strings.Count(rel, "/") > 1 || err == nil && !d.IsDir() {
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAPinnedFileIsExecutedOnlyWithTheRightContent(t *testing.T) {
	t.Parallel()
	s := spec(t, isolation.GoPlugin, "sdk")
	data, err := os.Open(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, data); err != nil {
		t.Fatal(err)
	}
	s.SHA256 = fmt.Sprintf("%X", h.Sum(nil))
	start(t, s)

	s.SHA256 = strings.Repeat("0", 64)
	_, err = isolation.Start(t.Context(), s)
	if got := startError(t, err); got.Phase != isolation.PhaseBinary || !strings.Contains(got.Error(), "the manifest pins 0000") {
		t.Errorf("got %v", err)
	}
}

// startError asserts the type of an error of Start.
func startError(t *testing.T, err error) *isolation.StartError {
	t.Helper()
	var e *isolation.StartError
	if !errors.As(err, &e) {
		t.Fatalf("got %T %v, want a StartError", err, err)
	}
	if e.Exit.Reason != isolation.ReasonStartFailed {
		t.Errorf("reason %q", e.Exit.Reason)
	}
	return e
}

func TestAFailedStartSaysWhatIsWrongAndLeavesNothing(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(runDir(t), "s")
	for name, tt := range map[string]struct {
		protocol isolation.Protocol
		mode     string
		phase    isolation.Phase
		want     []string
	}{
		"exit at start": {
			isolation.GoPlugin, "exit", isolation.PhaseHandshake,
			[]string{"it exited with code 7 before it was ready", `last output: "cannot read licence file"`},
		},
		"exit at start, stock": {
			isolation.NRI, "exit", isolation.PhaseRegister,
			[]string{"it exited with code 7 before it was ready", `last output: "cannot read licence file"`},
		},
		"garbage before the handshake": {
			isolation.GoPlugin, "garbage", isolation.PhaseHandshake,
			[]string{`its first line on stdout is no handshake: "Welcome to my plugin!"`, "plugins.Serve", "protocol: nri"},
		},
		"binary garbage": {
			isolation.GoPlugin, "binary-garbage", isolation.PhaseHandshake,
			[]string{`is no handshake: "\x1b\xff\x00"`},
		},
		"another version": {
			isolation.GoPlugin, "version", isolation.PhaseHandshake,
			[]string{"it speaks version 99 of the plugin protocol, this supervisor version 1"},
		},
		"an address on the network": {
			isolation.GoPlugin, "address:tcp|127.0.0.1:22", isolation.PhaseHandshake,
			[]string{`plugin listens on "tcp" "127.0.0.1:22": only a unix socket in its own directory`},
		},
		"the socket of somebody else": {
			isolation.GoPlugin, "address:unix|" + elsewhere, isolation.PhaseHandshake,
			[]string{"only a socket in its own directory"},
		},
		"a stock plugin as one of the SDK": {
			isolation.GoPlugin, "stock", isolation.PhaseHandshake,
			[]string{"without the handshake of the SDK: set protocol: nri"},
		},
		"closing the connection": {
			isolation.NRI, "close-fd3", isolation.PhaseRegister,
			[]string{"closed its NRI connection (descriptor 3) before it registered"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(t, tt.protocol, tt.mode)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			i, err := isolation.Start(ctx, s)
			if i != nil {
				t.Fatal("started")
			}
			e := startError(t, err)
			if e.Phase != tt.phase {
				t.Errorf("phase %q, want %q", e.Phase, tt.phase)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q\nlacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			if e.Exit.Started.IsZero() || e.Exit.Ended.Before(e.Exit.Started) {
				t.Errorf("times %v, %v", e.Exit.Started, e.Exit.Ended)
			}
			if files := filesIn(t, s.RunDir); len(files) > 0 {
				t.Errorf("files are left: %q", files)
			}
		})
	}
}

func TestAHangingStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		protocol isolation.Protocol
		want     string
	}{
		"without handshake":    {isolation.GoPlugin, "no handshake in "},
		"without registration": {isolation.NRI, "no RegisterPlugin on descriptor 3 in "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(t, tt.protocol, "hang")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := isolation.Start(ctx, s)
			_ = startError(t, err)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			if files := filesIn(t, s.RunDir); len(files) > 0 {
				t.Errorf("files are left: %q", files)
			}
		})
	}
}

func TestABadSpecOrFileIsRefusedBeforeAnythingIsExecuted(t *testing.T) {
	t.Parallel()
	dir := runDir(t)
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := file("text", "not a program", 0o755)
	plain := file("plain", "x", 0o644)
	setuid := file("setuid", "x", 0o755|os.ModeSetuid)
	script := file("script", "#!/bin/sh\nexit 9\n", 0o755)
	relative := file("relative", "#!sh\n", 0o755)
	nowhere := file("nowhere", "#! /nowhere -x\n", 0o755)
	raised := file("raised", "#!"+setuid+"\n", 0o755)
	for name, tt := range map[string]struct {
		change func(*isolation.Spec)
		phase  isolation.Phase
		want   string
	}{
		"name":      {func(s *isolation.Spec) { s.Name = "a/b" }, isolation.PhaseSpec, `check name "a/b"`},
		"dots":      {func(s *isolation.Spec) { s.Name = ".." }, isolation.PhaseSpec, `check name ".."`},
		"index":     {func(s *isolation.Spec) { s.Index = "7" }, isolation.PhaseSpec, "use two digits"},
		"protocol":  {func(s *isolation.Spec) { s.Protocol = "grpc" }, isolation.PhaseSpec, "use go-plugin or nri"},
		"run dir":   {func(s *isolation.Spec) { s.RunDir = "run" }, isolation.PhaseSpec, "not an absolute path"},
		"level":     {func(s *isolation.Spec) { s.LogLevel = "loud" }, isolation.PhaseSpec, "use trace, debug"},
		"env form":  {func(s *isolation.Spec) { s.Env = []string{"A"} }, isolation.PhaseSpec, "use KEY=VALUE"},
		"env zero":  {func(s *isolation.Spec) { s.Env = []string{"A=x\x00"} }, isolation.PhaseSpec, `environment "A": use KEY=VALUE without`},
		"env taken": {func(s *isolation.Spec) { s.Env = []string{"NRI_PLUGIN_SOCKET=4"} }, isolation.PhaseSpec, "set by the supervisor"},
		"missing":   {func(s *isolation.Spec) { s.Path = "/nowhere" }, isolation.PhaseBinary, "no such file"},
		"relative":  {func(s *isolation.Spec) { s.Path = "sh" }, isolation.PhaseBinary, "not an absolute path"},
		"directory": {func(s *isolation.Spec) { s.Path = dir }, isolation.PhaseBinary, "a directory"},
		"mode":      {func(s *isolation.Spec) { s.Path = plain }, isolation.PhaseBinary, "chmod +x it"},
		"setuid":    {func(s *isolation.Spec) { s.Path = setuid }, isolation.PhaseBinary, "setuid or setgid programs are refused"},
		"pin form":  {func(s *isolation.Spec) { s.SHA256 = "abc" }, isolation.PhaseBinary, "64 hexadecimal digits"},
		"pinned script": {
			func(s *isolation.Spec) { s.Path, s.SHA256 = script, strings.Repeat("0", 64) }, isolation.PhaseBinary,
			"the manifest pins 0000",
		},
		"interpreter": {
			func(s *isolation.Spec) { s.Path = relative }, isolation.PhaseBinary,
			"write an absolute path behind #!",
		},
		"no interpreter": {
			func(s *isolation.Spec) { s.Path = nowhere }, isolation.PhaseBinary,
			`check "/nowhere": no such file`,
		},
		"setuid interpreter": {
			func(s *isolation.Spec) { s.Path = raised }, isolation.PhaseBinary,
			"setuid or setgid programs are refused",
		},
		"long path": {func(s *isolation.Spec) { s.Name = strings.Repeat("n", 90) }, isolation.PhaseRunDir, "the limit is 107"},
		"no program": {
			func(s *isolation.Spec) { s.Path = text }, isolation.PhaseExec,
			"not a program for this machine's architecture",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(t, isolation.GoPlugin, "sdk")
			tt.change(&s)
			_, err := isolation.Start(t.Context(), s)
			e := startError(t, err)
			if e.Phase != tt.phase || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got phase %q, %v; want phase %q, %q", e.Phase, err, tt.phase, tt.want)
			}
			if tt.phase == isolation.PhaseExec && !errors.Is(err, syscall.ENOEXEC) {
				t.Errorf("%v does not tell a caller what the kernel said to the child", err)
			}
			if !e.Exit.Started.IsZero() {
				t.Error("it was executed")
			}
			if files := filesIn(t, s.RunDir); len(files) > 0 {
				t.Errorf("files are left: %q", files)
			}
		})
	}
}

func TestAScriptCanBeAPlugin(t *testing.T) {
	t.Parallel()
	for _, pinned := range []bool{false, true} {
		s := spec(t, isolation.NRI, "stock")
		script := filepath.Join(runDir(t), "plugin.sh")
		text := []byte("#!/bin/sh\nexec " + s.Path + "\n")
		// Another process writes it: a child that is forked here meanwhile would hold it open, and it could not be executed.
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `cat >"$0" && chmod 700 "$0"`, script)
		cmd.Stdin = bytes.NewReader(text)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		s.Path = script
		if pinned {
			s.SHA256 = fmt.Sprintf("%x", sha256.Sum256(text))
		}
		start(t, s)
	}
}
