package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a running supervisor. Safe for concurrent use.
type Process struct {
	Dir     string // its folder: config.yaml, plugins.d, run, state
	tb      testing.TB
	cmd     *exec.Cmd
	done    chan struct{}
	waitErr error

	mu      sync.Mutex
	lines   []map[string]any
	metrics string
	more    chan struct{} // closed and replaced at each line
}

// Config writes a configuration for a supervisor of this runtime into a fresh folder. teams and plugins are YAML; in plugins, several documents are separated by ---.
func (r *Runtime) Config(teams, plugins string) string {
	r.tb.Helper()
	dir := TempDir(r.tb)
	if err := os.MkdirAll(filepath.Join(dir, "plugins.d"), 0o755); err != nil { //nolint:gosec // as an administrator makes it
		r.tb.Fatal(err)
	}
	config := fmt.Sprintf(`apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  runtime: {socket: %q}
  pluginDirs: [%q]
  runDir: %q
  stateDir: %q
  metrics: {address: "127.0.0.1:0"}
  fileTrust: "off" # whoever owns the folder of temporary files
  defaults: {sandbox: {profile: none}} # plugins and tests tell each other things by files in /tmp, of which a confined plugin has its own
%s
`, r.Socket, filepath.Join(dir, "plugins.d"), filepath.Join(dir, "run"), filepath.Join(dir, "state"), teams)
	write(r.tb, filepath.Join(dir, "config.yaml"), config)
	write(r.tb, filepath.Join(dir, "plugins.d", "plugins.yaml"), plugins)
	return dir
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Options say how a supervisor is started. The zero value is the usual way: as this user, with this environment, and with all that it writes read at once.
type Options struct {
	// Unprivileged starts it as nobody when the test runs as root, which no permission stops.
	Unprivileged bool
	// Env is added to the environment.
	Env []string
	// ExtraFiles are inherited, from descriptor 3 on.
	ExtraFiles []*os.File
	// Binary is another build of it; empty: that of Supervisor.
	Binary string
	// Unread leaves its log unread until it is closed, as a log collector does that hangs.
	Unread <-chan struct{}
}

// StartSupervisor runs the supervisor on a folder that Config made. It is killed at the end of the test if it still runs.
func StartSupervisor(tb testing.TB, dir string) *Process {
	tb.Helper()
	return StartSupervisorWith(tb, dir, Options{})
}

// nobody is a user without any right of its own, on every Linux.
const nobody = 65534

// StartSupervisorWith is StartSupervisor with options.
func StartSupervisorWith(tb testing.TB, dir string, o Options) *Process {
	tb.Helper()
	p := &Process{Dir: dir, tb: tb, done: make(chan struct{}), more: make(chan struct{})}
	binary := o.Binary
	if binary == "" {
		binary = Supervisor(tb)
	}
	p.cmd = exec.Command(binary, "run", "--config", filepath.Join(dir, "config.yaml"), "--log-format", "json", "--log-level", "debug") //nolint:noctx // ended by Stop or Kill
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.ExtraFiles = o.ExtraFiles
	if o.Unprivileged && os.Geteuid() == 0 {
		walk(tb, dir, func(path string, _ fs.DirEntry) {
			if err := os.Chown(path, nobody, nobody); err != nil {
				tb.Fatal(err)
			}
		})
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		if o.Unread != nil {
			<-o.Unread
		}
		p.read(stderr)
	}()
	go func() {
		<-read
		p.waitErr = p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		p.noDefects()
		if tb.Failed() {
			tb.Log(p.Log())
		}
	})
	return p
}

// noDefects fails the test if the supervisor found a fault of its own, or its race detector or runtime did. A share that was overrun is none for programs with the race
// detector: they starve each other. A busy machine overruns a few; a defect overruns each.
func (p *Process) noDefects() {
	const overrun = 3
	shares := 0
	bad := p.Lines(func(l map[string]any) bool {
		msg, _ := l["msg"].(string)
		if what, _ := l["what"].(string); strings.Contains(what, "share") {
			shares++
			return !Race() && shares > overrun
		}
		return msg == "defect of nri-supervisor, please report" || strings.Contains(msg, "DATA RACE") ||
			strings.HasPrefix(msg, "panic: ") || strings.HasPrefix(msg, "fatal error: ")
	})
	for _, l := range bad {
		p.tb.Errorf("the supervisor wrote %v", l)
	}
}

func (p *Process) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<20), 4<<20)
	for sc.Scan() {
		var line map[string]any
		if json.Unmarshal(bytes.Clone(sc.Bytes()), &line) != nil {
			line = map[string]any{"msg": sc.Text()}
		}
		p.mu.Lock()
		p.lines = append(p.lines, line)
		if line["msg"] == "listening" {
			p.metrics, _ = line["address"].(string)
		}
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r)
}

// PID of the supervisor.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the supervisor.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Ended reports whether the supervisor has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop ends the supervisor in order and returns its exit code.
func (p *Process) Stop() int {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(15 * time.Second)
}

// Kill ends the supervisor by SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Wait returns the exit code when the supervisor has ended.
func (p *Process) Wait(limit time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.tb.Fatalf("the supervisor did not end in %s", limit)
		return -1
	}
}

// Lines returns the log lines so far that match.
func (p *Process) Lines(match func(map[string]any) bool) []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []map[string]any
	for _, l := range p.lines {
		if match(l) {
			out = append(out, l)
		}
	}
	return out
}

// WaitLine returns the nth log line (from 1) with the message and the fields, when it has been written.
func (p *Process) WaitLine(nth int, msg string, fields map[string]any) map[string]any {
	p.tb.Helper()
	limit := time.After(30 * time.Second)
	match := func(l map[string]any) bool {
		if l["msg"] != msg {
			return false
		}
		for k, v := range fields {
			if fmt.Sprint(l[k]) != fmt.Sprint(v) {
				return false
			}
		}
		return true
	}
	for {
		p.mu.Lock()
		more := p.more
		p.mu.Unlock()
		if found := p.Lines(match); len(found) >= nth {
			return found[nth-1]
		}
		select {
		case <-more:
		case <-p.done:
			if found := p.Lines(match); len(found) >= nth {
				return found[nth-1]
			}
			p.tb.Fatalf("the supervisor ended before line %d %q %v", nth, msg, fields)
		case <-limit:
			p.tb.Fatalf("no line %d %q %v in 30 s", nth, msg, fields)
		}
	}
}

// Log returns everything that the supervisor wrote, as text.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.lines {
		data, _ := json.Marshal(l)
		b.Write(data)
		b.WriteByte('\n')
	}
	return b.String()
}

// MetricsAddress is where the supervisor serves HTTP, as host:port.
func (p *Process) MetricsAddress() string {
	p.tb.Helper()
	p.WaitLine(1, "listening", nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.metrics
}

// Get fetches a path from the metrics address: status code and body.
func (p *Process) Get(path string) (int, string) {
	p.tb.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.MetricsAddress()+path, nil)
	if err != nil {
		p.tb.Fatal(err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer func() { _ = rsp.Body.Close() }()
	body, err := io.ReadAll(rsp.Body)
	if err != nil {
		p.tb.Fatal(err)
	}
	return rsp.StatusCode, string(body)
}

// Metric returns the value of a series in the supervisor's metrics; "" when there is none. series is a name with its labels as exposed.
func (p *Process) Metric(series string) string {
	p.tb.Helper()
	_, body := p.Get("/metrics")
	for l := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(l, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Run runs the supervisor's binary with arguments and returns its exit code and output.
func Run(tb testing.TB, args ...string) (code int, stdout, stderr string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), Supervisor(tb), args...)
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		tb.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errb.String()
}
