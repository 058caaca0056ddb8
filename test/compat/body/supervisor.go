package body

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

// supervisor is the binary, running.
type supervisor struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex // guards lines
	lines []map[string]any
}

// folder is a folder with a name that is short enough for sockets.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "compat")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// build builds the supervisor, an SDK plugin, and a stock plugin with this module's version of NRI. COMPAT_BIN names a folder that has the first two already.
func build(t *testing.T) string {
	t.Helper()
	bin := folder(t)
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", bin + "/"}, args...)...) //nolint:gosec // constant
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %v: %v\n%s", args, err, out)
		}
	}
	if given := os.Getenv("COMPAT_BIN"); given != "" {
		for _, name := range []string{"nri-supervisor", "env-injector"} {
			if err := os.Symlink(filepath.Join(given, name), filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		run("../../..", "./cmd/nri-supervisor", "./plugins/env-injector")
	}
	run(".", "github.com/nri-supervisor/nri-supervisor/test/compat/body/stock")
	return bin
}

// plugin is a manifest; pods with the plugin's name as a label are selected.
func plugin(name, index, protocol, path, config string) string {
	return fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: %[1]s}
spec:
  team: team
  index: %[2]q
  exec: {path: %[3]q, protocol: %[4]s}
  %[5]s
  selector: {podSelector: {matchLabels: {%[1]s: "yes"}}}
`, name, index, path, protocol, config)
}

// start starts the supervisor; it is ended with the test.
func start(t *testing.T, dir, socket, programs string, plugins ...string) *supervisor {
	t.Helper()
	config := fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  runtime: {socket: %q}
  pluginDirs: [%q]
  runDir: %q
  stateDir: %q
  metrics: {address: ""}
  fileTrust: "off"
  teams: {team: {contact: "#team"}}
`, socket, dir+"/plugins.d", dir+"/run", dir+"/state")
	if err := os.Mkdir(dir+"/plugins.d", 0o755); err != nil { //nolint:gosec // as an administrator makes it
		t.Fatal(err)
	}
	for path, text := range map[string]string{"/config.yaml": config, "/plugins.d/all.yaml": strings.Join(plugins, "---\n")} {
		if err := os.WriteFile(dir+path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &supervisor{t: t, done: make(chan struct{})}
	s.cmd = exec.Command(programs+"/nri-supervisor", "run", "--config", dir+"/config.yaml", "--log-format", "json", "--log-level", "debug") //nolint:gosec,noctx // ended below
	out, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go s.read(bufio.NewScanner(out))
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(os.Interrupt)
		select {
		case <-s.done:
		case <-time.After(30 * time.Second):
			t.Error("the supervisor did not end within 30 s")
			_ = s.cmd.Process.Kill()
			<-s.done
		}
		if t.Failed() {
			for _, l := range s.lines {
				t.Log(l)
			}
		}
	})
	return s
}

func (s *supervisor) read(lines *bufio.Scanner) {
	lines.Buffer(make([]byte, 1<<20), 4<<20)
	for lines.Scan() {
		l := map[string]any{}
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			l["msg"] = lines.Text()
		}
		s.mu.Lock()
		s.lines = append(s.lines, l)
		s.mu.Unlock()
	}
	_ = s.cmd.Wait()
	close(s.done)
}

// find returns the lines with a message and, in pairs, fields.
func (s *supervisor) find(msg string, fields ...string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []map[string]any
	for _, l := range s.lines {
		ok := l["msg"] == msg
		for i := 0; i+1 < len(fields); i += 2 {
			ok = ok && fmt.Sprint(l[fields[i]]) == fields[i+1]
		}
		if ok {
			found = append(found, l)
		}
	}
	return found
}

func (s *supervisor) count(msg string, fields ...string) int { return len(s.find(msg, fields...)) }

// wait returns the nth line.
func (s *supervisor) wait(nth int, msg string, fields ...string) map[string]any {
	s.t.Helper()
	s.eventually(fmt.Sprintf("line %d %q %v", nth, msg, fields), func() bool { return s.count(msg, fields...) >= nth })
	return s.find(msg, fields...)[nth-1]
}

// ready waits until a plugin has become ready for the nth time.
func (s *supervisor) ready(nth int, plugin string) {
	s.t.Helper()
	s.wait(nth, "plugin changed state", "plugin", plugin, "to", "ready")
}

// eventually waits until something holds, a minute at most.
func (s *supervisor) eventually(what string, holds func() bool) {
	s.t.Helper()
	limit := time.After(60 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-s.done:
			s.t.Fatalf("%s: the supervisor ended", what)
		case <-limit:
			s.t.Fatalf("%s: not in 60 s", what)
		}
	}
}
