package main

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
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

func TestNothingIsAskedOfASupervisorThatStandsStill(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"bypass", "--for", "10m"}, {"bypass", "--off"}, {"plugin", "disable", "a"}, {"reload"}, {"explain", "ns/pod"}, {"record", filepath.Join(t.TempDir(), "out")},
	} {
		t.Run(strings.Join(args[:1], " "), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var lines []string
			socket := still(t, func(line string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
			})
			code, stdout, stderr := command(t, append(args, "--socket", socket)...)
			if code != exitFailure || stdout != "" || !strings.Contains(stderr, "no answer within 5s") {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, line := range lines {
				if line != "GET /v1/status HTTP/1.1" {
					t.Errorf("it was asked for %q", line)
				}
			}
		})
	}
}

func TestAChangeWithoutAnAnswerSaysWhatMayStillCome(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		took func(string)
		want []string
	}{
		{"it stands still", t.Context(), func(string) {}, []string{"no answer within 5s", "hint: it is not carried out any more unless it was begun before ", "look at nri-supervisor status"}},
		{"somebody has no more patience", ctx, func(string) { interrupt() }, []string{"error: interrupted before the supervisor had answered\n", "hint: what was begun is carried out to its end: look at nri-supervisor status\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			code := run(c.ctx, []string{"log-level", "debug", "--socket", still(t, c.took)}, &stdout, &stderr)
			if code != exitFailure || stdout.String() != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout.String())
			}
			for _, want := range c.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("stderr %q lacks %q", stderr.String(), want)
				}
			}
		})
	}
}
