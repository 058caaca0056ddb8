//go:build manuals

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// targets are those of make that the manuals ask for, and how they are carried out: for real, or only as far as make says what it would do.
func targets() map[string]bool {
	return map[string]bool{"build": true, "demo": false, "test": false, "release": false, "bench": false, "bench-gate": false}
}

// make builds for real, in the reader's checkout. What takes minutes is a stage of CI by itself, or measures: there it is asked what it would do. A release is laid out as release.sh would.
func (s standIn) make(args []string) error {
	if len(args) == 0 {
		return errors.New("no target")
	}
	for _, target := range args {
		forReal, found := targets()[target]
		if !found {
			return fmt.Errorf("no target %q that the manuals may ask for", target)
		}
		if forReal {
			if err := s.real("make", target); err != nil {
				return err
			}
			continue
		}
		if err := s.real("make", "--dry-run", target); err != nil {
			return err
		}
		if target == "release" {
			if err := s.release(); err != nil {
				return err
			}
		}
	}
	return nil
}

// release writes files with the names of a release.
func (s standIn) release() error {
	script, err := s.file("deploy/release.sh")
	if err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(os.Getenv("PROGRAMS"), "nri-supervisor"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "dist"), 0o755); err != nil {
		return err
	}
	names := regexp.MustCompile(`\$dist/([a-z.$-]+)`).FindAllStringSubmatch(string(script), -1)
	if len(names) < 3 {
		return fmt.Errorf("release.sh writes %q only", names)
	}
	for _, n := range names {
		name := strings.ReplaceAll(n[1], "$arch", "amd64")
		text, mode := []byte(name), os.FileMode(0o644)
		if name == "nri-supervisor-linux-amd64" {
			text, mode = program, 0o755
		}
		if err := os.WriteFile(filepath.Join(s.dir, "dist", name), text, mode); err != nil {
			return err
		}
	}
	return nil
}

// real runs the program itself, with what it prints.
func (s standIn) real(name string, args ...string) error {
	path := ""
	for _, dir := range filepath.SplitList(s.path) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
			path = filepath.Join(dir, name)
			break
		}
	}
	if path == "" {
		return fmt.Errorf("there is no %s on this machine", name)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.out, s.out
	cmd.Env = append(os.Environ(), "PATH="+s.path)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// module is the name under which a reader gets the checkout.
const module = "github.com/nri-supervisor/nri-supervisor"

// goTool is go itself, but that the latest release is the checkout, and that a benchmark is only looked at.
func (s standIn) goTool(args []string) error {
	switch {
	case slices.Equal(args, []string{"get", module + "@latest"}):
		return s.real("go", "mod", "edit", "-require", module+"@v0.0.0", "-replace", module+"="+s.repo)
	case len(args) > 2 && args[0] == "run" && args[1] == "./test/bench":
		return s.bench(args[2:])
	default:
		return s.real("go", args...)
	}
}

// bench looks whether the benchmark has the flags, and the part or bar that -only names.
func (s standIn) bench(args []string) error {
	files, err := filepath.Glob(filepath.Join(s.dir, "test/bench/*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("test/bench holds %q, %v", files, err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		all.Write(text)
	}
	known := map[string]string{}
	for _, m := range regexp.MustCompile(`flags\.(String|Int|Bool)\("([a-z]+)"`).FindAllStringSubmatch(all.String(), -1) {
		known["-"+m[2]] = map[string]string{"String": `[A-Za-z0-9./-]+`, "Int": `\d+`, "Bool": ""}[m[1]]
	}
	got, rest, err := options(args, known)
	if err != nil {
		return err
	}
	if part := got["-only"]; len(rest) > 0 || part != "" && !strings.Contains(all.String(), `"`+part+`"`) {
		return fmt.Errorf("the benchmark knows neither %q nor a part or bar %q", rest, part)
	}
	return nil
}

// curl asks for real: the service's socket, or its metrics, which are somewhere else than in production.
func (s standIn) curl(args []string) error {
	got, rest, err := options(args, map[string]string{"-s": "", "-d": `[^@].*`, "--unix-socket": `/.+`})
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return fmt.Errorf("%q is not one address", rest)
	}
	address := rest[0]
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: patience}
	if path := got["--unix-socket"]; path != "" {
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
	} else {
		if u.Hostname() != "127.0.0.1" {
			return fmt.Errorf("%q is not on this node", u.Host)
		}
		if err := s.metricsPort(u.Port()); err != nil {
			return err
		}
		if u.Host, err = s.ask(request{Verb: askMetrics}); err != nil {
			return err
		}
	}
	var resp *http.Response
	if body, found := got["-d"]; found {
		resp, err = client.Post(u.String(), "application/x-www-form-urlencoded", strings.NewReader(body))
	} else {
		resp, err = client.Get(u.String())
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(s.out, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 300 { // curl itself does not mind, but a manual that shows it would be wrong
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	return nil
}
