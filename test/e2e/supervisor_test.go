package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
    ml-infra: {contact: "#ml-infra", allow: {failurePolicyFail: true, attach: true}, permissions: {adjust: ["*"]}}
    net: {contact: "#net", allow: {attach: true}}
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
		s.stop(os.Interrupt)
		if t.Failed() {
			t.Log(s.text())
		}
	})
	return s
}

// stop ends the supervisor, in order or not.
func (s *supervisor) stop(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		s.t.Errorf("the supervisor did not end within 30 s of %s", sig)
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

// ask runs a command of the command line and decodes its answer.
func (s *supervisor) ask(out any, args ...string) {
	s.t.Helper()
	args = append(args, "-o", "json", "--socket", filepath.Join(s.dir, "run", "admin.sock"))
	data, err := exec.CommandContext(s.t.Context(), filepath.Join(bin, "nri-supervisor"), args...).Output() //nolint:gosec // built here
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		s.t.Fatalf("nri-supervisor %v: %v\n%s", args, err, data)
	}
}

// missed tells for each container the plugins whose work it lacks, with the reason.
func (s *supervisor) missed() map[string]map[string]string {
	s.t.Helper()
	var rows []struct{ ContainerID, Plugin, Reason string }
	s.ask(&rows, "missed")
	all := map[string]map[string]string{}
	for _, r := range rows {
		if all[r.ContainerID] == nil {
			all[r.ContainerID] = map[string]string{}
		}
		all[r.ContainerID][r.Plugin] = r.Reason
	}
	return all
}

// runtimeStatus is what status says about the runtime.
type runtimeStatus struct {
	Connected                    bool
	Reason, Hint, RequestTimeout string
}

func (s *supervisor) runtime() runtimeStatus {
	s.t.Helper()
	var status struct{ Runtime runtimeStatus }
	s.ask(&status, "status")
	return status.Runtime
}

// kill kills the process of a plugin and says whether there was one.
func (s *supervisor) kill(plugin string) bool {
	s.mu.Lock()
	pid := 0
	for _, l := range s.lines {
		if l["msg"] == "plugin started" && l["plugin"] == plugin {
			pid = int(l["pid"].(float64))
		}
	}
	s.mu.Unlock()
	if pid == 0 {
		return false
	}
	// The handle is taken first: should the number be another process's by now, that one is not our supervisor's child.
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	stat := read(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(stat, ") ")
	if f := strings.Fields(after); len(f) < 2 || f[0] == "Z" || f[1] != strconv.Itoa(s.cmd.Process.Pid) {
		return false
	}
	return p.Kill() == nil
}

// ready waits until each of the plugins has become ready for the nth time.
func (s *supervisor) ready(nth int, plugins ...string) {
	s.t.Helper()
	for _, p := range plugins {
		s.wait(nth, "plugin changed state", map[string]any{"plugin": p, "to": "ready"})
	}
}

// count is how many lines there are with the message and fields.
func (s *supervisor) count(msg string, fields map[string]any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, l := range s.lines {
		if l["msg"] == msg && matches(l, fields) {
			n++
		}
	}
	return n
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
