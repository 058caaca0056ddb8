//go:build manuals

package docs_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// standIn plays a program that a reader has and the test has not: a cluster, a systemd, an hour. It checks what it is asked as far as the delivered files tell, does what would come of it
// on the simulated node, and refuses all else.
type standIn struct {
	// dir is where it is called, root where absolute paths begin, repo the checkout.
	dir, root, repo string
	// path is PATH without stand-ins.
	path string
	out  io.Writer
	// ask has the test do something.
	ask func(request) (string, error)
}

// request is what a stand-in asks of the test.
type request struct {
	Verb askVerb `json:"verb"`
	Arg  string  `json:"arg,omitempty"`
}

// askVerb is what can be asked. It is a closed set.
type askVerb string

const (
	// askPod has the runtime create a container, as the comment of that name does.
	askPod askVerb = "pod"
	// askService starts a command that goes on until the end of the page.
	askService askVerb = "service"
	// askMetrics is answered with the address of the service's metrics.
	askMetrics askVerb = "metrics"
)

type reply struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

// standIns are the programs that are played.
func standIns() map[string]func(standIn, []string) error {
	return map[string]func(standIn, []string) error{
		"systemctl": standIn.systemctl, "kubectl": standIn.kubectl, "ssh": standIn.ssh, "skopeo": standIn.skopeo, "ctr": standIn.ctr, "curl": standIn.curl,
		"make": standIn.make, "go": standIn.goTool,
	}
}

// The environment of a stand-in.
const (
	envRoot = "READER_ROOT"
	envPath = "READER_PATH"
)

// play is the main program of a stand-in.
func play(name string, args []string) int {
	dir, err := os.Getwd()
	if err != nil {
		return refuse(name, err)
	}
	s := standIn{dir: dir, root: os.Getenv(envRoot), repo: os.Getenv("REPO"), path: os.Getenv(envPath), out: os.Stdout}
	s.ask = s.askReader
	if err := standIns()[name](s, args); err != nil {
		return refuse(name, err)
	}
	return 0
}

func refuse(name string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return 1
}

// askReader asks the test, and waits until it has done it.
func (s standIn) askReader(q request) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(s.root, "reader"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return "", err
	}
	var a reply
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&a); err != nil {
		return "", err
	}
	if a.Error != "" {
		return "", errors.New(a.Error)
	}
	return a.Text, nil
}

// options takes the flags out of args: each of known has a value, which must match the whole expression. What is behind "--" is left alone.
func options(args []string, known map[string]string) (map[string]string, []string, error) {
	got := map[string]string{}
	var rest []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return got, append(rest, args[i:]...), nil
		}
		if !strings.HasPrefix(a, "-") {
			rest = append(rest, a)
			continue
		}
		name, value, found := strings.Cut(a, "=")
		form, ok := known[name]
		if !ok {
			return nil, nil, fmt.Errorf("no flag %q; there are %q", name, slices.Sorted(maps.Keys(known)))
		}
		if _, again := got[name]; again {
			return nil, nil, fmt.Errorf("%s is there twice", name)
		}
		if !found && form != "" {
			i++
			if i == len(args) {
				return nil, nil, fmt.Errorf("%s has no value", name)
			}
			value = args[i]
		}
		if !regexp.MustCompile(`\A(?:` + form + `)\z`).MatchString(value) {
			return nil, nil, fmt.Errorf("%s %q is not of the form %s", name, value, form)
		}
		got[name] = value
	}
	return got, rest, nil
}

// file returns what is in a file that somebody names.
func (s standIn) file(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	return os.ReadFile(path)
}

// systemctl knows the unit that is delivered, and starts what it would start.
func (s standIn) systemctl(args []string) error {
	switch {
	case slices.Equal(args, []string{"daemon-reload"}):
		return nil
	case len(args) == 3 && args[0] == "enable" && args[1] == "--now":
	default:
		return fmt.Errorf("%q is neither daemon-reload nor enable --now UNIT", args)
	}
	unit := strings.TrimSuffix(args[2], ".service") + ".service"
	delivered, err := os.ReadFile(filepath.Join(s.repo, "deploy/systemd", unit))
	if err != nil {
		return err
	}
	installed, err := os.ReadFile(filepath.Join(s.root, "etc/systemd/system", unit))
	if err != nil {
		return err
	}
	if string(installed) != string(delivered) {
		return fmt.Errorf("%s is not as it is delivered", unit)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(/\S+)(.*)$`).FindStringSubmatch(string(installed))
	if start == nil {
		return fmt.Errorf("%s starts nothing", unit)
	}
	if info, err := os.Stat(filepath.Join(s.root, start[1])); err != nil || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s starts %s, which is no program that is installed: %v", unit, start[1], err)
	}
	_, err = s.ask(request{askService, filepath.Base(start[1]) + start[2]})
	return err
}

// ssh forwards the port of the metrics and does nothing else.
func (s standIn) ssh(args []string) error {
	got, rest, err := options(args, map[string]string{"-L": `(\d+):127\.0\.0\.1:(\d+)`})
	if err != nil {
		return err
	}
	if len(rest) != 1 || got["-L"] == "" {
		return fmt.Errorf("%q is not -L PORT:127.0.0.1:PORT HOST", args)
	}
	return s.metricsPort(got["-L"][strings.LastIndex(got["-L"], ":")+1:])
}

// metricsPort refuses a port that the delivered manifests do not ask for metrics.
func (s standIn) metricsPort(port string) error {
	text, err := os.ReadFile(filepath.Join(s.repo, "deploy/kubernetes/daemonset.yaml"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "port: "+port+",") {
		return fmt.Errorf("nothing listens at port %q", port)
	}
	return nil
}

// image refuses an image that make release has not written.
func (s standIn) image(path string) error {
	if filepath.Dir(path) != "dist" {
		return fmt.Errorf("%q does not come from make release", path)
	}
	_, err := s.file(path)
	return err
}

// skopeo copies an image that make release has written to a registry.
func (s standIn) skopeo(args []string) error {
	if len(args) != 3 || args[0] != "copy" {
		return fmt.Errorf("%q is not copy FROM TO", args)
	}
	from := regexp.MustCompile(`\Aoci-archive:([^:]+):(.+)\z`).FindStringSubmatch(args[1])
	if from == nil || !regexp.MustCompile(`\Adocker://[a-z0-9.-]+/[a-z0-9/-]+:[a-zA-Z0-9.-]+\z`).MatchString(args[2]) {
		return fmt.Errorf("%q to %q is not oci-archive:FILE:NAME to docker://NAME:TAG", args[1], args[2])
	}
	release, err := os.ReadFile(filepath.Join(s.repo, "deploy/release.sh"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(release), "-name "+from[2]+" ") {
		return fmt.Errorf("make release gives no image the name %q", from[2])
	}
	return s.image(from[1])
}

// ctr imports an image that make release has written.
func (s standIn) ctr(args []string) error {
	_, rest, err := options(args, map[string]string{"-n": "k8s[.]io"})
	if err != nil {
		return err
	}
	if len(rest) != 3 || rest[0] != "images" || rest[1] != "import" {
		return fmt.Errorf("%q is not images import FILE", rest)
	}
	return s.image(rest[2])
}
