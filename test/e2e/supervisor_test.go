package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// supervisor is the released binary, running beside a node.
type supervisor struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []map[string]any
	more  chan struct{}
}

// configure writes a configuration for the node.
func (n *node) configure(plugins string) string {
	n.t.Helper()
	dir := filepath.Join(n.dir, "supervisor")
	if err := os.MkdirAll(filepath.Join(dir, "plugins.d"), 0o755); err != nil { //nolint:gosec // as an administrator makes it
		n.t.Fatal(err)
	}
	config := fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  runtime: {socket: %q}
  pluginDirs: [%q]
  runDir: %q
  stateDir: %q
  metrics: {address: ""}
  teams:
    ml-infra: {contact: "#ml-infra", allow: {failurePolicyFail: true}}
    net: {contact: "#net"}
`, n.socket, filepath.Join(dir, "plugins.d"), filepath.Join(dir, "run"), filepath.Join(dir, "state"))
	for name, text := range map[string]string{"config.yaml": config, "plugins.d/plugins.yaml": plugins} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	return dir
}

// startSupervisor runs the supervisor on a folder that configure made.
func startSupervisor(t *testing.T, dir string) *supervisor {
	t.Helper()
	s := &supervisor{t: t, dir: dir, done: make(chan struct{}), more: make(chan struct{})}
	s.cmd = exec.Command(filepath.Join(bin, "nri-supervisor"), "run", "--config", filepath.Join(dir, "config.yaml"), "--log-format", "json", "--log-level", "debug") //nolint:gosec,noctx // ended below
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		sc := bufio.NewScanner(out)
		sc.Buffer(make([]byte, 1<<20), 4<<20)
		for sc.Scan() {
			line := map[string]any{}
			if json.Unmarshal(sc.Bytes(), &line) != nil {
				line["msg"] = sc.Text()
			}
			s.mu.Lock()
			s.lines = append(s.lines, line)
			close(s.more)
			s.more = make(chan struct{})
			s.mu.Unlock()
		}
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(os.Interrupt)
		select {
		case <-s.done:
		case <-time.After(15 * time.Second):
			_ = s.cmd.Process.Kill()
			<-s.done
		}
		if t.Failed() {
			t.Log(s.text())
		}
	})
	return s
}

func (s *supervisor) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, l := range s.lines {
		data, _ := json.Marshal(l)
		b.Write(append(data, '\n'))
	}
	return b.String()
}

// wait returns the nth log line with the message and fields.
func (s *supervisor) wait(nth int, msg string, fields map[string]any) map[string]any {
	s.t.Helper()
	limit := time.After(60 * time.Second)
	for {
		s.mu.Lock()
		more, found := s.more, 0
		for _, l := range s.lines {
			if l["msg"] == msg && matches(l, fields) {
				if found++; found == nth {
					s.mu.Unlock()
					return l
				}
			}
		}
		s.mu.Unlock()
		select {
		case <-more:
		case <-s.done:
			s.t.Fatalf("the supervisor ended before line %d %q %v", nth, msg, fields)
		case <-limit:
			s.t.Fatalf("no line %d %q %v in 60 s", nth, msg, fields)
		}
	}
}

func matches(line, fields map[string]any) bool {
	for k, v := range fields {
		if fmt.Sprint(line[k]) != fmt.Sprint(v) {
			return false
		}
	}
	return true
}
