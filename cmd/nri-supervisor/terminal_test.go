package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

// stale is a supervisor whose plugin runs on an older manifest than the one on disk.
func stale(now time.Time) supervisor.Status {
	st := wellBehaved(now)
	st.Plugins[0].Stale = "/etc/nri-supervisor/plugins.d/gpu-env.yaml:7: spec.index: 5 is a number; write index: \"05\""
	return st
}

func TestAPluginOnItsLastGoodVersionIsMarked(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: stale(time.Now())}})
	for _, args := range [][]string{{"status"}, {"plugin", "show", "gpu-env"}} {
		code, stdout, _ := command(t, append(args, "--socket", socket)...)
		if one := strings.Join(strings.Fields(stdout), " "); code != exitOK || !strings.Contains(one, "runs its last good version: /etc/nri-supervisor/plugins.d/gpu-env.yaml:7: spec.index") {
			t.Errorf("%v: exit code %d\n%s", args, code, stdout)
		}
	}
}

func TestStatusIsWatchedUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}})
	for _, c := range []struct {
		name string
		args []string
		look string // is in each look
	}{
		{"for people", nil, "gpu-env  ml-infra  ready"},
		{"as JSON", []string{"-o", "json"}, `"name":"gpu-env"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b lockedBuffer
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append([]string{"status", "--watch", "--socket", socket}, c.args...), &b, &b)
			}()
			var lines []string
			for looks := 0; looks < 2; {
				select {
				case code := <-ended:
					t.Fatalf("it ended with %d: %s", code, lines)
				case <-time.After(10 * time.Millisecond):
				}
				more := b.take()
				lines = append(lines, more...)
				looks += strings.Count(strings.Join(more, "\n"), c.look)
			}
			interrupt()
			if code := <-ended; code != exitOK {
				t.Errorf("exit code %d", code)
			}
			if text := strings.Join(lines, "\n"); strings.Contains(text, "\x1b") {
				t.Errorf("control sequences, although nobody reads it on a terminal: %q", text)
			}
			if c.args != nil && !json.Valid([]byte(lines[0])) {
				t.Errorf("line %q is no JSON", lines[0])
			}
		})
	}
}

func TestAWatchGoesOnWithoutAService(t *testing.T) {
	t.Parallel()
	var b lockedBuffer
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"status", "--watch", "--socket", shortDir(t) + "/none.sock"}, &b, &b)
	}()
	for text := ""; strings.Count(text, "no answer") < 2; text += strings.Join(b.take(), "\n") + "\n" {
		select {
		case code := <-ended:
			t.Fatalf("it ended with %d: %s", code, text)
		case <-time.After(10 * time.Millisecond):
		}
	}
	interrupt()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestTheShellCompletesCommandsAndTheNamesOfPlugins(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now())}})
	for _, c := range []struct {
		name string
		args []string
		want []string
		not  string
	}{
		{"a command", []string{"plugin", "re"}, []string{"restart\tStop the plugin's process in order and start a new one", "reset\t"}, "show"},
		{"a plugin", []string{"plugin", "show", "--socket", socket, ""}, []string{"gpu-env\tml-infra, ready", "netpol\tnetwork, crash_loop"}, "restart"},
		{"a plugin for an action", []string{"plugin", "trip", "--socket", socket, "net"}, []string{"netpol\tnetwork, crash_loop"}, "restart"},
		{"nothing behind a plugin", []string{"plugin", "show", "--socket", socket, "gpu-env", ""}, nil, "netpol"},
		{"a flag's plugin", []string{"events", "--socket", socket, "--plugin", ""}, []string{"netpol\t"}, "restart"},
		{"a level", []string{"log-level", "d"}, []string{"debug"}, "netpol"},
		{"a flag's team", []string{"events", "--socket", socket, "--team", ""}, []string{"network\tnetpol, slow", "ml-infra\tgpu-env"}, "restart"},
		{"a flag's outcome", []string{"events", "--outcome", ""}, []string{"timeout", "breaker_open", "success"}, "netpol"},
		{"a flag's action", []string{"events", "--action", ""}, []string{"ignored", "failed", "withheld"}, "netpol"},
		{"a flag's event", []string{"events", "--event", "Create"}, []string{"CreateContainer"}, "netpol"},
		{"a format", []string{"status", "-o", ""}, []string{"table", "json"}, "netpol"},
		{"the service's level", []string{"run", "--log-level", ""}, []string{"debug"}, "netpol"},
		{"without a service", []string{"plugin", "show", "--socket", "/nowhere", ""}, nil, "netpol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, _ := command(t, append([]string{"__complete"}, c.args...)...)
			lines := strings.Split(stdout, "\n")
			for _, want := range c.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
					t.Errorf("%q is not proposed: %q", want, stdout)
				}
			}
			if code != exitOK || strings.Contains(stdout, c.not) {
				t.Errorf("exit code %d: %q", code, stdout)
			}
		})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, stderr := command(t, "completion", shell); code != exitOK || !strings.Contains(stdout, "nri-supervisor") || stderr != "" {
			t.Errorf("completion %s: exit code %d, %d bytes, %q", shell, code, len(stdout), stderr)
		}
	}
}

// TestAWatchedStatusGivesALongErrorOneLine: else the plugins behind it would not be seen.
func TestAWatchedStatusGivesALongErrorOneLine(t *testing.T) {
	t.Parallel()
	st := wellBehaved(time.Now())
	long := strings.Repeat("what the plugin said\nwhen it ended \x1b[31m", 40)
	for _, name := range []string{"first", "second"} {
		p := st.Plugins[0]
		p.Name, p.State, p.LastError = name, "backoff", long
		st.Plugins = append(st.Plugins, p)
	}
	st.Plugins[1].Problems, st.Plugins[1].State = []string{long}, "invalid"
	st.Plugins[2].Stale = long
	var w window
	if err := showFrame(&w, formatTable, st, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(w.String(), "\n")
	cut := 0
	for _, l := range lines {
		if strings.HasSuffix(l, "…") {
			cut++
		}
		if columns(l) > usualWidth {
			t.Errorf("a line of %d columns: %q", columns(l), l)
		}
	}
	if cut != 3 || len(lines) > 24 || !strings.Contains(w.String(), "second") || !strings.Contains(w.String(), "gpu-env") || strings.Contains(w.String(), "more lines") {
		t.Errorf("%d lines, %d of them cut:\n%s", len(lines), cut, w.String())
	}
	if st.Plugins[1].LastError != long || st.Plugins[1].Problems[0] != long {
		t.Error("the status itself was changed")
	}
}

// window is a terminal of the usual size.
type window struct{ strings.Builder }

// Columns is its width, Rows its height.
func (*window) Columns() int { return usualWidth }

// Rows is as above.
func (*window) Rows() int { return 24 }

func TestAWatchedStatusKeepsItsHeadlineAndTheWorstInTheWindow(t *testing.T) {
	t.Parallel()
	st := wellBehaved(time.Now())
	for i := range 40 {
		p := st.Plugins[0]
		p.Name = fmt.Sprintf("plugin-%d", i)
		if i == 39 {
			p.State, p.Breaker.State = "crash_loop", "open"
		}
		st.Plugins = append(st.Plugins, p)
	}
	for i := range 3 {
		st.Config.Problems = append(st.Config.Problems, fmt.Sprintf("warning: /etc/nri-supervisor/plugins.d/p%d.yaml: %s", i, strings.Repeat("what is wrong and what to write instead ", 10)))
		st.Warnings = append(st.Warnings, strings.Repeat("what the service warns of ", 10))
	}
	var w window
	if err := showFrame(&w, formatTable, st, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(w.String(), "\n")
	at := func(text string) int {
		return slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, text) })
	}
	if len(lines) > 24 || at("supervisor ") < 0 || at("plugins ") < 0 || at("more lines: nri-supervisor status") != len(lines)-2 || at("plugin-39  ml-infra  crash_loop") < 0 || at("plugin-39  ml-infra") > at("gpu-env    ml-infra") ||
		at(", 3 problems: nri-supervisor check") < 0 || at("3 warnings: nri-supervisor status") < 0 {
		t.Errorf("%d lines:\n%s", len(lines), w.String())
	}
	w.Reset()
	if err := showFrame(&w, formatTable, wellBehaved(time.Now()), nil); err != nil || strings.Contains(w.String(), "more lines") {
		t.Errorf("what fits is cut, %v:\n%s", err, w.String())
	}
}
