package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// jsonLog is a log at level info.
func jsonLog(t *testing.T, w io.Writer) *zap.Logger {
	t.Helper()
	log, _, err := newLogger(w, zap.NewAtomicLevel(), "json")
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// events are one of each kind, and a second one where the line differs.
func events() []supervisor.Event {
	const plugin, team, namespace, pod, container = "gpu-env", "ml-infra", "ml-train", "bert-0", "main"
	fields := []journal.Field{{Field: "Env", Key: "CUDA"}}
	at := fakeNow()
	return []supervisor.Event{
		supervisor.Started{Version: "v1.2.3", Plugins: 3, Invalid: 1},
		supervisor.Stopping{},
		supervisor.ConfigProblem{Problem: policy.Problem{File: "a.yaml", Line: 3, Field: "spec.index", Message: "20 must be quoted", Remedy: "write \"20\""}},
		supervisor.ConfigProblem{Problem: policy.Problem{Field: "spec.timeouts", Message: "they add up", Severity: policy.Warning}},
		supervisor.Reloaded{Cause: "signal", Report: supervisor.ReloadReport{Result: "success", Hash: "3f2a", Changes: []supervisor.PluginChange{}, Unchanged: 2}},
		supervisor.RuntimeConnected{Runtime: "containerd", Version: "v2.4.2", NRIVersion: "v0.12.5", RequestTimeout: 2 * time.Second, Pods: 3, Containers: 7, Events: "RunPodSandbox"},
		supervisor.RuntimeUnavailable{Socket: "/var/run/nri/nri.sock", Reason: "missing", Err: "no such file", Hint: "enable NRI"},
		supervisor.RuntimeLost{Reason: "the connection ended"},
		supervisor.PhaseChanged{Plugin: plugin, Team: team, From: "starting", To: "syncing", PID: 42},
		supervisor.PluginStarted{Plugin: plugin, Team: team, PID: 42, Identity: supervisor.Identity{Version: "v0.4.0", SHA256: "00ff"}, Took: 41 * time.Millisecond},
		supervisor.PluginStartFailed{Plugin: plugin, Team: team, Err: "handshake: no reply in 10s"},
		supervisor.PluginStartGivenUp{Plugin: plugin, Team: team, Err: "given up after 10ms: context canceled"},
		supervisor.RegisteredOtherwise{Plugin: plugin, Team: team, Name: "gpu", Index: "99"},
		supervisor.AttachRefused{Plugin: plugin, Team: team, Refused: supervisor.Refused{UID: 1000, PID: 43, Why: "uid 1000 is not allowed", More: 2}},
		supervisor.PluginReplaced{Plugin: plugin, Team: team, From: 42, To: 43},
		supervisor.PluginExited{Plugin: plugin, Team: team, PID: 42, Exit: supervisor.Exit{Reason: "exit_code", Detail: "exit code 2 after 1.5s (exit_code)", Output: []string{"panic: x"}}},
		supervisor.PluginExited{Plugin: plugin, Team: team, PID: 42, Exit: supervisor.Exit{Reason: "stopped", Detail: "exit code 0 after 3h (stopped)"}},
		supervisor.ChildrenOutOfMemory{Plugin: plugin, Team: team, PID: 42, Killed: 2},
		supervisor.PluginSynced{Plugin: plugin, Team: team, Pods: 3, Containers: 7, Took: 5 * time.Millisecond},
		supervisor.PluginSyncFailed{Plugin: plugin, Team: team, Err: "no answer in 30s"},
		supervisor.BreakerChanged{Plugin: plugin, Team: team, Transition: breaker.Transition{From: breaker.StateClosed, To: breaker.StateOpen, Cause: breaker.CauseHung, OpenFor: 5 * time.Second}},
		supervisor.Fallback{
			Plugin: plugin, Team: team, NRIEvent: "CreateContainer", Namespace: namespace, Pod: pod, Container: container, ContainerID: "c1", Action: "ignore", Reason: "timeout",
			Detail: "no answer in 500ms", Took: 500 * time.Millisecond,
		},
		supervisor.Rejection{Plugin: plugin, Team: team, Namespace: namespace, Pod: pod, Container: container, Reason: "no GPU is left", Honoured: true},
		supervisor.Forbidden{Plugin: plugin, Team: team, Namespace: namespace, Pod: pod, Container: container, Denials: []policy.Denial{{Field: "OciHooks"}}},
		supervisor.Unmet{Plugin: plugin, Team: team, Namespace: namespace, Pod: pod, Container: container, By: "requiredPlugins", Why: "its selector does not select this container"},
		supervisor.Conflict{Plugin: plugin, Team: team, Namespace: namespace, Pod: pod, Container: container, With: []string{"cuda-fix"}, WithTeams: []string{"hpc"}, Fields: []string{"Env[CUDA]"}},
		supervisor.LateReply{Plugin: plugin, Team: team, After: 700 * time.Millisecond},
		supervisor.UpdateDenied{Plugin: plugin, Team: team, NRIEvent: "UpdateContainers", ContainerID: "c1", Why: "it is not selected", Fields: fields, Count: 1},
		supervisor.UpdateDenied{Plugin: plugin, Team: team, NRIEvent: "UpdateContainers", Why: "it is not selected", Count: 9, More: true, From: at, To: at.Add(time.Minute)},
		supervisor.UpdateFailed{Plugin: plugin, Team: team, ContainerID: "c1", Err: "no such container"},
		supervisor.Missed{Plugin: plugin, Team: team, Namespace: namespace, Pod: pod, Container: container, ContainerID: "c1", Reason: "supervisor_down"},
		supervisor.Output{Plugin: plugin, Team: team, PID: 42, Line: supervisor.OutputLine{Stream: "stderr", Level: "error", Text: "no device", Truncated: true, Dropped: 3}},
		supervisor.Output{Plugin: plugin, Team: team, PID: 42, Line: supervisor.OutputLine{Stream: "stdout", Text: "hello"}},
		supervisor.ManualAction{Plugin: plugin, Action: "trip", UID: 1000},
		supervisor.BypassGoesOn{Until: time.Date(2026, 11, 30, 12, 10, 0, 0, time.UTC)},
		supervisor.StateProblem{Err: "no space left on device"},
		supervisor.AuditProblem{Err: "no space left on device", Lost: 2},
		supervisor.AuditProblem{Lost: 2},
		supervisor.Defect{Where: "plugin gpu-env", What: "a call was not answered in its share"},
		supervisor.Dropped{Count: 12},
	}
}

func TestTheFormatOfTheLog(t *testing.T) {
	t.Parallel()
	encoder := encoderConfig()
	encoder.TimeKey = "" // the only thing that differs between two runs
	var b bytes.Buffer
	sink := logTo(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.AddSync(&b), zapcore.DebugLevel)))
	shown := map[string]bool{}
	for _, e := range events() {
		shown[strings.TrimPrefix(fmt.Sprintf("%T", e), "supervisor.")] = true
		sink(e)
	}
	golden(t, "log/lines.json", b.String())

	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "supervisor", "event.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "event" && f.Recv != nil {
			kinds++
			if name, ok := f.Recv.List[0].Type.(*ast.Ident); ok && !shown[name.Name] {
				t.Errorf("the event %s is not in the table", name.Name)
			}
		}
		return true
	})
	if kinds != len(shown) {
		t.Errorf("%d kinds of events, %d in the table", kinds, len(shown))
	}
}

// lockedBuffer is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was written since the last time.
func (l *lockedBuffer) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(l.b.String())
	l.b.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// said are a field of each line, and how many lines it stands for beyond itself.
func said(t *testing.T, lines []string, field string) []string {
	t.Helper()
	var out []string
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(m[field])
		if n, ok := m[repeatedField]; ok {
			text += fmt.Sprintf(" +%v", n)
		}
		out = append(out, text)
	}
	return out
}

func TestLinesThatRepeatAreCountedAndTheCountAppears(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b lockedBuffer
		log, repeats, err := newLogger(&b, zap.NewAtomicLevel(), "json")
		if err != nil {
			t.Fatal(err)
		}
		sink := logTo(log)
		write := func(text string, n int) {
			for i := range n {
				sink(supervisor.Output{Plugin: "p", Team: "t", PID: i, Line: supervisor.OutputLine{Stream: "stderr", Text: text}})
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if got := said(t, b.take(), "text"); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		write("a", 100)
		write("b", 2)
		expect("at once", "a", "a", "a", "a", "a", "b", "b")
		time.Sleep(sampleWindow + time.Second)
		synctest.Wait()
		expect("after the window", "a +95")
		write("a", 3)
		time.Sleep(sampleWindow)
		synctest.Wait()
		expect("while it goes on", "a +3")
		time.Sleep(2 * sampleWindow)
		write("a", 1)
		expect("after a pause", "a")
		write("a", 10)
		b.take()
		repeats.flush()
		expect("at the end", "a +6")
	})
}

func TestWhatHeldLinesCountIsSummedUp(t *testing.T) {
	t.Parallel()
	var b lockedBuffer
	log, repeats, err := newLogger(&b, zap.NewAtomicLevel(), "json")
	if err != nil {
		t.Fatal(err)
	}
	sink := logTo(log)
	for i := range sampleBurst + 4 {
		sink(supervisor.Output{Plugin: "p", Team: "t", Line: supervisor.OutputLine{Stream: "stderr", Text: "a", Dropped: i % (sampleBurst + 3)}})
	}
	b.take()
	repeats.flush()
	if got, want := said(t, b.take(), "dropped"), []string{"18 +4"}; !slices.Equal(got, want) {
		t.Errorf("lines that dropped 5, 6, 7 and none are told of as %v, want %v", got, want)
	}
}

func TestWhatHappenedToAContainerIsNeverSampled(t *testing.T) {
	t.Parallel()
	var b lockedBuffer
	sink := logTo(jsonLog(t, &b))
	for range 50 {
		sink(supervisor.Fallback{Plugin: "p", Pod: "same", Reason: "timeout"})
		sink(supervisor.Missed{Plugin: "p", Pod: "same", Reason: "timeout"})
	}
	if n := len(b.take()); n != 100 {
		t.Errorf("%d lines of 100", n)
	}
}

func TestTheLogLevelIsChangedWhileTheServiceRuns(t *testing.T) {
	t.Parallel()
	var b lockedBuffer
	level := zap.NewAtomicLevel()
	log, _, err := newLogger(&b, level, "json")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(shortDir(t), "admin.sock")
	noted := make(chan string, 4)
	note := func(level string, uid uint32) { noted <- fmt.Sprintf("%s by %d", level, uid) }
	admintest.Serve(t, socket, &fakeAPI{}, admin.Options{Log: logLevel{level, log, note}})
	ask := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, append([]string{"log-level", "--socket", socket}, args...)...)
		if code != exitOK || stdout != want || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	ask("log level info\n")
	log.Debug("not yet")
	ask("log level debug\n", "debug")
	log.Debug("now")
	ask("{\n  \"level\": \"error\"\n}\n", "error", "-o", "json")
	log.Warn("no more")
	ask("log level error\n")
	for _, want := range []string{"debug", "error"} {
		if got := <-noted; got != fmt.Sprintf("%s by %d", want, os.Getuid()) {
			t.Errorf("recorded is %q, want %s and who asked", got, want)
		}
	}
	if got := said(t, b.take(), "msg"); !slices.Contains(got, "now") || slices.Contains(got, "not yet") || slices.Contains(got, "no more") {
		t.Errorf("lines %v", got)
	}
	if code, _, stderr := command(t, "log-level", "loud", "--socket", socket); code != exitUsage || !strings.Contains(stderr, `"loud" is not one of debug, info, warn, error`) {
		t.Errorf("a level that does not exist: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := command(t, "log-level", "--socket", serveFake(t, &fakeAPI{})); code != exitFailure || !strings.Contains(stderr, "cannot be changed") {
		t.Errorf("a log without a level: exit code %d, %s", code, stderr)
	}
}
