package chaosplugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins/chaos/chaosplugin"
)

// actionEnv makes this test binary do one action and exit with 42.
const actionEnv = "CHAOS_TEST_ACTION"

func TestMain(m *testing.M) {
	if action := os.Getenv(actionEnv); action != "" {
		p := chaosplugin.New()
		err := p.RunPodSandbox(context.Background(), &api.PodSandbox{Annotations: map[string]string{chaosplugin.AnnotationPrefix + "RunPodSandbox": action}})
		fmt.Println("error:", err)
		os.Exit(42)
	}
	if os.Getenv(chaosplugin.StartEnv) != "" {
		chaosplugin.Main()
	}
	os.Exit(m.Run())
}

func TestAWrongConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ config, want string }{
		"unknown field":       {`{"fault": []}`, `unknown field "fault"`},
		"unknown event":       {`{"faults": [{"event": "Boot", "action": "hang"}]}`, `faults[0]: event "Boot" is unknown`},
		"wrong case":          {`{"faults": [{"event": "createcontainer", "action": "hang"}]}`, "is unknown"},
		"a group of events":   {`{"faults": [{"event": "pod", "action": "hang"}]}`, "is unknown"},
		"unknown action":      {`{"faults": [{"event": "Health", "action": "boom"}]}`, `action "boom" is unknown`},
		"no action":           {`{"faults": [{"event": "Health"}]}`, `action "" is unknown`},
		"wrong duration":      {`{"faults": [{"event": "Health", "action": "slow:5"}]}`, `action "slow:5"`},
		"wrong code":          {`{"faults": [{"event": "Health", "action": "status:Bad"}]}`, "gRPC status code"},
		"wrong scope":         {`{"faults": [{"event": "Health", "action": "not-interested:node"}]}`, "use pod or container"},
		"unexpected argument": {`{"faults": [{"event": "Health", "action": "hang:1s"}]}`, "takes no argument"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := chaosplugin.ParseConfig(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// configured returns a plugin with that configuration.
func configured(t *testing.T, c chaosplugin.Config) *chaosplugin.Plugin {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := chaosplugin.New()
	if _, err := p.Configure(t.Context(), string(data), "test", "v1"); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAFaultActsOnlyWhereItApplies(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "on")
	pod := &api.PodSandbox{
		Id: "p", Namespace: "a", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"fail": "yes"},
	}
	for name, tt := range map[string]struct {
		fault chaosplugin.Fault
		acts  int // of three tries
	}{
		"everywhere":       {chaosplugin.Fault{}, 3},
		"its namespace":    {chaosplugin.Fault{Namespace: "a"}, 3},
		"other namespace":  {chaosplugin.Fault{Namespace: "b"}, 0},
		"its label":        {chaosplugin.Fault{PodLabel: "app=web"}, 3},
		"other label":      {chaosplugin.Fault{PodLabel: "app=db"}, 0},
		"missing label":    {chaosplugin.Fault{PodLabel: "tier="}, 0},
		"its annotation":   {chaosplugin.Fault{Annotation: "fail=yes"}, 3},
		"other annotation": {chaosplugin.Fault{Annotation: "fail=no"}, 0},
		"both":             {chaosplugin.Fault{PodLabel: "app=web", Annotation: "fail=no"}, 0},
		"twice":            {chaosplugin.Fault{Times: 2}, 2},
		"no file":          {chaosplugin.Fault{WhileFile: file}, 0},
		"other event":      {chaosplugin.Fault{Event: "StopContainer"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.fault.Event == "" {
				tt.fault.Event = "StartContainer"
			}
			tt.fault.Action = "error:as told"
			p := configured(t, chaosplugin.Config{Faults: []chaosplugin.Fault{tt.fault}})
			acts := 0
			for range 3 {
				if err := p.StartContainer(t.Context(), pod, &api.Container{Id: "c"}); err != nil {
					acts++
				}
			}
			if acts != tt.acts {
				t.Errorf("acted %d times, want %d", acts, tt.acts)
			}
		})
	}
}

func TestAFaultEndsWhenItsFileIsRemoved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "on")
	p := configured(t, chaosplugin.Config{Faults: []chaosplugin.Fault{{Event: "Health", Action: "error:sick", WhileFile: file}}})
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p.Health(t.Context()) == nil {
		t.Error("healthy while the file exists")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := p.Health(t.Context()); err != nil {
		t.Errorf("sick without the file: %v", err)
	}
}

func TestAPodCanAskForAFault(t *testing.T) {
	t.Parallel()
	p := chaosplugin.New()
	pod := &api.PodSandbox{Annotations: map[string]string{chaosplugin.AnnotationPrefix + "CreateContainer": "status:Unavailable"}}
	if _, _, err := p.CreateContainer(t.Context(), pod, &api.Container{}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	if err := p.StartContainer(t.Context(), pod, &api.Container{}); err != nil {
		t.Errorf("another event: %v", err)
	}
}

func TestTheWorkIsVisible(t *testing.T) {
	t.Parallel()
	p := configured(t, chaosplugin.Config{Name: "chaos-a"})
	adjust, _, err := p.CreateContainer(t.Context(), &api.PodSandbox{}, &api.Container{})
	if err != nil {
		t.Fatal(err)
	}
	if kv := adjust.GetEnv(); len(kv) != 1 || kv[0].GetKey() != chaosplugin.InjectedEnv || kv[0].GetValue() != "chaos-a" {
		t.Errorf("environment %v", kv)
	}
}

func TestTheDumpTellsWhatThePluginKnowsAndHowOftenItSawIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dump.json")
	p := configured(t, chaosplugin.Config{
		Name: "x", Dump: file, Faults: []chaosplugin.Fault{{Event: "StopPodSandbox", Action: "dump"}},
	})
	pod, a, b := &api.PodSandbox{Id: "p"}, &api.Container{Id: "a"}, &api.Container{Id: "b"}
	ctx := t.Context()
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	_, _, err := p.CreateContainer(ctx, pod, &api.Container{Id: "forgotten"})
	keep(err)
	_, err = p.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{a})
	keep(err)
	_, _, err = p.CreateContainer(ctx, pod, b)
	keep(err)
	keep(p.PostStartContainer(ctx, pod, b))
	keep(p.PostStartContainer(ctx, pod, b))
	keep(p.RemoveContainer(ctx, pod, a))
	keep(p.StopPodSandbox(ctx, pod))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got chaosplugin.Dump
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := chaosplugin.Dump{
		Name: "x", PID: os.Getpid(), Dumps: 1, Configured: 1, Synchronized: 1,
		Pods: []string{"p"}, Containers: []string{"b"}, Snapshot: []string{"a"},
		Events: map[string]map[string]int{
			"forgotten": {"CreateContainer": 1}, "a": {"RemoveContainer": 1},
			"b": {"CreateContainer": 1, "PostStartContainer": 2}, "p": {"StopPodSandbox": 1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

func TestAHangKeepsNoOtherHandler(t *testing.T) {
	t.Parallel()
	p := configured(t, chaosplugin.Config{Faults: []chaosplugin.Fault{{Event: "StartContainer", Action: "hang", Times: 1}}})
	hung := make(chan error, 1)
	go func() { hung <- p.StartContainer(t.Context(), &api.PodSandbox{}, &api.Container{}) }()
	if err := p.Health(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-hung:
		t.Errorf("the hanging handler returned %v", err)
	case <-time.After(20 * time.Millisecond):
	}
}

// run executes this test binary with that environment and descriptor 3, and returns its state and output.
func run(t *testing.T, env string, fd3 *os.File) (*os.ProcessState, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), env)
	if fd3 != nil {
		cmd.ExtraFiles = []*os.File{fd3}
	}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(exit, err)
	}
	return cmd.ProcessState, string(out)
}

func TestAProcessEndsAsTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env    string
		code   int
		output string
	}{
		"exit":              {actionEnv + "=exit:7", 7, ""},
		"exit by default":   {actionEnv + "=exit", 1, ""},
		"panic":             {actionEnv + "=panic", 2, "panic: chaos: as told"},
		"kill":              {actionEnv + "=kill", -1, ""},
		"flood":             {actionEnv + "=flood:2", 42, strings.Repeat("x", 99) + "\n" + strings.Repeat("x", 99) + "\n"},
		"deadline":          {actionEnv + "=deadline", 42, "error: context deadline exceeded"},
		"nothing":           {actionEnv + "=none", 42, "error: <nil>"},
		"exit at the start": {chaosplugin.StartEnv + "=exit:9", 9, ""},
		"wrong start":       {chaosplugin.StartEnv + "=boom", 1, `error: CHAOS_START: action "boom" is unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, out := run(t, tt.env, nil)
			if state.ExitCode() != tt.code || !strings.Contains(out, tt.output) {
				t.Errorf("%s, output %q; want code %d and %q", state, out, tt.code, tt.output)
			}
		})
	}
}

func TestGarbageAndCloseReachTheOtherEndOfTheConnection(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]int{"garbage": 1024, "close": 0} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			local, peer := os.NewFile(uintptr(fds[0]), "local"), os.NewFile(uintptr(fds[1]), "peer")
			defer func() { _ = local.Close() }()
			state, out := run(t, actionEnv+"="+action, peer)
			if err := peer.Close(); err != nil {
				t.Fatal(err)
			}
			if state.ExitCode() != 42 || !strings.Contains(out, "error: <nil>") {
				t.Errorf("%s, output %q", state, out)
			}
			buf := make([]byte, 4096)
			if n, _ := local.Read(buf); n != want {
				t.Errorf("read %d bytes, want %d", n, want)
			}
		})
	}
}
