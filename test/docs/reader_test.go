//go:build manuals

package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

const (
	// patience bounds each wait: far more than a busy machine needs.
	patience = time.Minute
	// longest bounds one command: some compile.
	longest = 5 * time.Minute
)

// reader does what a page says.
type reader struct {
	t    *testing.T
	repo string
	// root is where the page's absolute paths begin, dir where its commands run, which cd changes.
	root, dir string
	env       []string
	// rt is the runtime.
	rt *harness.Runtime
	// asked is what stand-ins ask for.
	asked chan question
	// ends end what goes on in the background; printed is what it printed.
	ends    []func()
	printed []*output
}

// settings are what the service needs on this machine, and timeouts that no healthy plugin meets. They are added to the page's Supervisor document.
const settings = `  # what the test adds
  runtime: {socket: %q}
  pluginDirs: [%q]
  runDir: %q
  stateDir: %q
  metrics: {address: "127.0.0.1:0"}
  defaults: {sandbox: {profile: none}, timeouts: {default: 1500ms}}
`

// wrapper is the reader's nri-supervisor, that which is installed if there is one: it finds the configuration below the page's root, looks at a node there, and shows the demo faster.
const wrapper = `#!/bin/sh
root=%[1]q
config=$root/etc/nri-supervisor/config.yaml
program=$root/usr/local/bin/nri-supervisor
[ -x "$program" ] || program=%[2]q
if [ -f "$config" ] && ! grep -q 'what the test adds' "$config"; then cat "$root/settings.yaml" >>"$config"; fi
case "$1" in
doctor)
	case " $* " in *" --root "*) ;; *) set -- "$@" --root "$root" ;; esac
	set -- "$@" --wait 1m --socket "$root/run/nri-supervisor/admin.sock" ;;
demo) exec "$program" "$@" --containers 300 --rate 150 ;;
esac
case "$1" in
check|run|status|security|missed|events|explain|record|plugin|reload|bypass|doctor|log-level)
	case " $* " in *" --config "*) ;; *) [ -f "$config" ] && exec "$program" "$@" --config "$config" ;; esac ;;
esac
exec "$program" "$@"
`

func newReader(t *testing.T) *reader {
	t.Helper()
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, repo: repo, root: harness.TempDir(t)}
	r.dir = filepath.Join(r.root, "home")
	bin := filepath.Join(r.root, "programs")
	for _, dir := range []string{r.dir, bin, filepath.Join(r.root, "etc", "nri-supervisor"), filepath.Join(r.root, "etc/systemd/system"), filepath.Join(r.root, "usr/local/bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.rt = harness.NewRuntime(t)
	supervisor := harness.Supervisor(t)
	for _, name := range []string{"env-injector", "event-logger", "chaos"} {
		harness.Plugin(t, name)
	}
	add := filepath.Join(r.root, "settings.yaml")
	r.write(add, fmt.Sprintf(settings, r.rt.Socket, filepath.Join(r.root, "etc/nri-supervisor/plugins.d"), filepath.Join(r.root, "run/nri-supervisor"), filepath.Join(r.root, "var/lib/nri-supervisor")), 0o644)
	r.write(filepath.Join(bin, "nri-supervisor"), fmt.Sprintf(wrapper, r.root, supervisor), 0o755)
	r.write(filepath.Join(bin, "sudo"), "#!/bin/sh\nexec \"$@\"\n", 0o755)
	r.node()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range standIns() {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.listen()
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), envPath+"="+os.Getenv("PATH"), envRoot+"="+r.root, "REPO="+repo, "PROGRAMS="+filepath.Dir(supervisor),
		"GOFLAGS=-mod=mod -buildvcs=false", "GONOSUMDB=*", "GOWORK=off", "LC_ALL=C")
	return r
}

func (r *reader) write(path, text string, mode os.FileMode) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

// absolute are the folders that a page may name.
var absolute = regexp.MustCompile(`(^|[\s"'=:,({<>])(/host|/etc/nri-supervisor|/etc/systemd|/etc/bash_completion\.d|/opt|/run/nri-supervisor|/var/lib/nri-supervisor|/usr/local/bin)\b`)

// rooted puts what a page names below its root.
func (r *reader) rooted(text string) string {
	text = strings.ReplaceAll(text, "/path/to/nri-supervisor", r.repo)
	return absolute.ReplaceAllString(text, "${1}"+r.root+"${2}")
}

// noise is what the service says about the folders of a test, and nobody else sees.
var noise = regexp.MustCompile(`(?m)^.*where everybody can create names.*\n`)

var warnings = regexp.MustCompile(`\b(\d+) warnings?\b`)

// unrooted is what was printed, as a reader would see it.
func (r *reader) unrooted(text string) string {
	text = strings.ReplaceAll(text, r.root, "")
	if n := len(noise.FindAllString(text, -1)); n > 0 {
		text = noise.ReplaceAllString(text, "")
		text = warnings.ReplaceAllStringFunc(text, func(s string) string {
			number, _, _ := strings.Cut(s, " ")
			if have, err := strconv.Atoi(number); err == nil && have-n == 1 {
				return "1 warning"
			} else if err == nil {
				return fmt.Sprintf("%d warnings", have-n)
			}
			return s
		})
	}
	return text
}

// bash runs a script in the reader's folder; the folder that it ends in is the next one's. It returns what it printed, as it is, and its exit code.
func (r *reader) bash(script string) (string, int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	where := filepath.Join(r.root, "where")
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -eu -o pipefail; umask 022; trap 'pwd >\"$WHERE\"' EXIT\n"+r.rooted(script))
	cmd.Dir = r.dir
	cmd.Env = append(r.env, "WHERE="+where)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = patience
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := r.serve(cmd.Run)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatalf("run %q: %v\n%s", script, err, &out)
	}
	if dir, err := os.ReadFile(where); err == nil {
		r.dir = strings.TrimSpace(string(dir))
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// beside starts a script that goes on until the end of the page, and returns when the runtime has a plugin more.
func (r *reader) beside(script string) {
	r.t.Helper()
	cmd := exec.Command("bash", "-c", r.rooted(script))
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	r.printed = append(r.printed, &out)
	end := sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
			r.t.Errorf("%q did not end by SIGTERM", script)
		}
	})
	r.ends = append(r.ends, end)
	r.t.Cleanup(func() {
		end()
		if r.t.Failed() {
			r.t.Logf("%q printed:\n%s", script, &out)
		}
	})
	r.rt.WaitSync()
}

// ready waits until plugins are in service.
func (r *reader) ready(names []string) {
	r.t.Helper()
	for _, name := range names {
		var last string
		harness.Eventually(r.t, name+" is in service", func() bool {
			out, code := r.bash("nri-supervisor status -o json 2>/dev/null")
			last = out
			var status struct {
				Plugins []struct {
					Name, State string
					Breaker     struct{ State string }
				}
			}
			if code != 0 || json.Unmarshal([]byte(last), &status) != nil {
				return false
			}
			for _, p := range status.Plugins {
				if p.Name == name {
					return p.State == "ready" && p.Breaker.State == "closed"
				}
			}
			return false
		})
	}
}

// pod has the runtime create a container: NAMESPACE/POD/CONTAINER KEY=VALUE…
func (r *reader) pod(arg string) {
	r.t.Helper()
	words := strings.Fields(arg)
	names := strings.Split(words[0], "/")
	if len(names) != 3 {
		r.t.Fatalf("the pod %q is not NAMESPACE/POD/CONTAINER", words[0])
	}
	var labels []string
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		labels = append(labels, key, value)
	}
	p := harness.Pod(names[0], names[1], labels...)
	c := harness.Container(p, names[2])
	if err := r.rt.RunPod(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.rt.Create(r.t.Context(), p, c); err != nil {
		r.t.Fatal(err)
	}
	if err := r.rt.StartContainer(r.t.Context(), p, c); err != nil {
		r.t.Fatal(err)
	}
}
