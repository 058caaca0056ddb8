package main

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// still is a supervisor that takes requests and does nothing, as one that is stopped. took is told the first line of each.
func still(t *testing.T, took func(line string)) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "still.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			readers.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				line, _ := r.ReadString('\n')
				took(strings.TrimSpace(line))
				_, _ = r.WriteTo(&strings.Builder{}) // until the client gives up
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		readers.Wait()
	})
	return socket
}

// asking is one command and what came of it.
type asking struct {
	args           []string
	lines          []string // that the supervisor got
	code           int
	stdout, stderr string
}

// askAll runs commands against supervisors that stand still, all at once, since each takes as long as the client's patience.
func askAll(t *testing.T, list ...[]string) []asking {
	t.Helper()
	out := make([]asking, len(list))
	var commands sync.WaitGroup
	for i, args := range list {
		var mu sync.Mutex
		var lines []string
		socket := still(t, func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		})
		commands.Go(func() {
			code, stdout, stderr := command(t, append(args, "--socket", socket)...)
			mu.Lock()
			defer mu.Unlock()
			out[i] = asking{args: args, lines: slices.Clone(lines), code: code, stdout: stdout, stderr: stderr} // a line may still come
		})
	}
	commands.Wait()
	return out
}

func TestNothingIsAskedOfASupervisorThatStandsStill(t *testing.T) {
	t.Parallel()
	for _, a := range askAll(
		t, []string{"bypass", "--for", "10m"}, []string{"bypass", "--off"}, []string{"plugin", "disable", "a"}, []string{"reload"}, []string{"explain", "ns/pod"},
		[]string{"record", filepath.Join(t.TempDir(), "out")}, []string{"log-level", "debug"},
	) {
		if a.code != exitFailure || a.stdout != "" || !strings.Contains(a.stderr, "no answer within 5s") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", a.args, a.code, a.stdout, a.stderr)
		}
		if a.args[0] == "log-level" { // which is one request, and may have been begun
			if !strings.Contains(a.stderr, "hint: it is not carried out any more unless it was begun before ") || !strings.Contains(a.stderr, "look at nri-supervisor status") {
				t.Errorf("%v: stderr %q", a.args, a.stderr)
			}
			continue
		}
		for _, line := range a.lines {
			if line != "GET /v1/status HTTP/1.1" {
				t.Errorf("%v: it was asked for %q", a.args, line)
			}
		}
	}
}

func TestAChangeThatIsInterruptedSaysWhatMayStillCome(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr strings.Builder
	code := run(ctx, []string{"log-level", "debug", "--socket", still(t, func(string) { interrupt() })}, &stdout, &stderr)
	want := "nri-supervisor: error: interrupted before the supervisor had answered\nnri-supervisor: hint: what was begun is carried out to its end: look at nri-supervisor status\n"
	if code != exitFailure || stdout.String() != "" || stderr.String() != want {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}
