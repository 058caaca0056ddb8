//go:build manuals

package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// question is a request of a stand-in; the reader answers it between two steps, on the goroutine of its test.
type question struct {
	request
	answer chan reply
}

// listen takes the requests of stand-ins.
func (r *reader) listen() {
	r.t.Helper()
	l, err := net.Listen("unix", filepath.Join(r.root, "reader"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.asked = make(chan question)
	over := make(chan struct{})
	var each sync.WaitGroup
	each.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			each.Go(func() {
				defer func() { _ = conn.Close() }()
				q := question{answer: make(chan reply, 1)}
				if json.NewDecoder(conn).Decode(&q.request) != nil {
					return
				}
				select {
				case r.asked <- q:
				case <-over:
					return
				}
				select {
				case a := <-q.answer:
					_ = json.NewEncoder(conn).Encode(a)
				case <-over:
				}
			})
		}
	})
	r.t.Cleanup(func() {
		close(over)
		_ = l.Close()
		each.Wait()
	})
}

// serve returns what run returns, and meanwhile does what stand-ins ask for.
func (r *reader) serve(run func() error) error {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- run() }()
	for {
		select {
		case err := <-done:
			return err
		case q := <-r.asked:
			q.answer <- r.answer(q.request)
		}
	}
}

// listening is the line of the service's log that tells where its metrics are.
var listening = regexp.MustCompile(`"listening","address":"([^"]+)"|listening\s+\{"address": "([^"]+)"`)

func (r *reader) answer(q request) reply {
	r.t.Helper()
	switch q.Verb {
	case askPod:
		r.pod(q.Arg)
		return reply{}
	case askService:
		r.beside(q.Arg)
		harness.Eventually(r.t, "the service is registered, by its own account", func() bool {
			out, code := r.bash("nri-supervisor status -o json 2>/dev/null")
			var status struct{ Runtime struct{ Connected bool } }
			return code == 0 && json.Unmarshal([]byte(out), &status) == nil && status.Runtime.Connected
		})
		return reply{}
	case askMetrics:
		for _, out := range slices.Backward(r.printed) {
			if m := listening.FindStringSubmatch(out.String()); m != nil {
				return reply{Text: m[1] + m[2]}
			}
		}
		return reply{Error: "no service tells where its metrics are"}
	default:
		return reply{Error: fmt.Sprintf("%q is nothing that can be asked for", q.Verb)}
	}
}

// end ends what goes on in the background.
func (r *reader) end() {
	for _, end := range slices.Backward(r.ends) {
		end()
	}
	r.ends = nil
}

// interrupt runs a console that goes on until somebody interrupts it, which is done when a file matches the pattern, or what it printed does if the pattern has no slash. Meanwhile the
// runtime creates a container in a new pod again and again, if there is one.
func (r *reader) interrupt(where, text, pattern, pod string) {
	r.t.Helper()
	list, err := commands(text)
	if err != nil || len(list) != 1 {
		r.t.Fatalf("%s: %v, and %d commands, want one", where, err, len(list))
	}
	cmd := exec.Command("bash", "-c", r.rooted(list[0].text))
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = patience
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	r.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for n := 1; ; n++ {
		select {
		case err := <-ended:
			r.t.Fatalf("%s: %s ended by itself: %v\n%s", where, list[0].text, err, &out)
		case <-over:
			r.t.Fatalf("%s: nothing matches %q; it printed\n%s", where, pattern, &out)
		case <-tick.C:
		}
		if r.there(pattern, out.String()) {
			break
		}
		if words := strings.SplitN(pod, "/", 2); len(words) == 2 {
			r.pod(fmt.Sprintf("%s/again-%d/%s", words[0], n, words[1]))
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	select {
	case err = <-ended:
	case <-time.After(patience):
		r.t.Fatalf("%s: %s does not end when it is interrupted", where, list[0].text)
	}
	if printed := r.unrooted(out.String()); err != nil || list[0].shown != nil && !matches(list[0].shown, printed) {
		r.t.Errorf("%s: $ %s\n%v; it printed\n%s\nand the page shows\n%s", where, list[0].text, err, printed, strings.Join(list[0].shown, "\n"))
	}
}

// there reports whether what interrupt waits for is there.
func (r *reader) there(pattern, printed string) bool {
	if !strings.Contains(pattern, "/") {
		return strings.Contains(printed, pattern)
	}
	found, err := filepath.Glob(filepath.Join(r.dir, pattern))
	return err == nil && len(found) > 0
}

// checkout gives the reader the checkout, and goes there.
func (r *reader) checkout() {
	r.t.Helper()
	r.dir = filepath.Join(r.root, "checkout")
	if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
		if err := copyTree(r.repo, r.dir); err != nil {
			r.t.Fatal(err)
		}
	}
}

// copyTree copies what is in the repository, and nothing that was built.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if slices.Contains([]string{".git", "bin", "dist", ".cache", "test/ui/artefacts"}, name) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, name)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(name, ".test") || strings.HasSuffix(name, ".prof"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode().Perm())
	})
}

// node lays out what doctor looks at on a node. Paths that begin at the page's root are found below it, too, and as /host.
func (r *reader) node() {
	r.t.Helper()
	for name, text := range map[string]string{
		"proc/self/mountinfo": "24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "proc/sys/kernel/seccomp/actions_avail": "errno allow\n",
		"etc/containerd/config.toml": "version = 3\n\n[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n",
	} {
		r.write(filepath.Join(r.root, name), text, 0o644)
	}
	for from, to := range map[string]string{r.root: r.root, filepath.Dir(r.rt.Socket): filepath.Dir(r.rt.Socket), "/host": r.root} {
		link := filepath.Join(r.root, from)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil && !errors.Is(err, fs.ErrExist) {
			r.t.Fatal(err)
		}
	}
}

// output is read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
