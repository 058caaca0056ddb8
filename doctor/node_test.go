package doctor_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/doctor"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

const (
	socketPath = "run/nri/nri.sock"
	mountinfo  = "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	service    = "sys/fs/cgroup/system.slice/nri-supervisor.service"
)

// node is a healthy node: containerd 2, a supervisor as a systemd service that is connected, two plugins.
type node struct {
	files    fstest.MapFS
	landlock int
	config   string
	plugins  string
	live     doctor.Live
	err      error
	sockets  map[string]string
}

func healthy() *node {
	n := &node{
		files: fstest.MapFS{}, landlock: 7,
		config: "teams: {ml: {}}\n", plugins: manifest("gpu-env", ""),
		live: doctor.Live{Connected: true, Runtime: "containerd", Version: "v2.4.2", NRIVersion: "v0.12.5", RequestTimeout: 2 * time.Second},
	}
	n.files["var/run"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("/run")}
	n.files[socketPath] = &fstest.MapFile{Mode: fs.ModeSocket | 0o700}
	n.files["proc/net/unix"] = &fstest.MapFile{Data: []byte("Num RefCount Protocol Flags Type St Inode Path\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 4242 /var/run/nri/nri.sock\n")}
	n.files["sys/kernel/security/lsm"] = &fstest.MapFile{Data: []byte("capability,landlock,apparmor")}
	n.files["proc/sys/kernel/seccomp/actions_avail"] = &fstest.MapFile{Data: []byte("kill_process errno allow\n")}
	n.files["proc/self/mountinfo"] = &fstest.MapFile{Data: []byte(mountinfo)}
	n.files[service+"/cgroup.controllers"] = &fstest.MapFile{Data: []byte("cpu memory pids\n")}
	n.process(80, "/usr/bin/containerd")
	n.supervisor(90, "/usr/local/bin/nri-supervisor", "run")
	return n
}

func manifest(name, more string) string {
	return "---\napiVersion: nri-supervisor.dev/v1alpha1\nkind: Plugin\nmetadata: {name: " + name + "}\nspec:\n  team: ml\n  index: \"20\"\n  exec: {path: /opt/x}\n  selector: {}\n" + more
}

func (n *node) process(pid int, args ...string) {
	n.files[fmt.Sprintf("proc/%d/cmdline", pid)] = &fstest.MapFile{Data: []byte(strings.Join(args, "\x00") + "\x00")}
}

func (n *node) supervisor(pid int, args ...string) {
	n.process(pid, args...)
	n.files[fmt.Sprintf("proc/%d/mountinfo", pid)] = &fstest.MapFile{Data: []byte(mountinfo)}
	n.files[fmt.Sprintf("proc/%d/cgroup", pid)] = &fstest.MapFile{Data: []byte("0::/system.slice/nri-supervisor.service/supervisor\n")}
}

func (n *node) write(path, text string) { n.files[path] = &fstest.MapFile{Data: []byte(text)} }

// alone is a node on which no supervisor runs.
func (n *node) alone() {
	delete(n.files, "proc/90/cmdline")
	n.live = doctor.Live{Silent: "there is no such socket"}
}

func (n *node) diagnose(t *testing.T) doctor.Report {
	t.Helper()
	in := doctor.Input{
		Host: doctor.Host{Files: n.files, Landlock: n.landlock}, ConfigFile: "/etc/config.yaml", Live: n.live, ConfigErr: n.err,
		SocketOf: func(config string) string { return n.sockets[config] },
	}
	if n.err == nil {
		text := "apiVersion: nri-supervisor.dev/v1alpha1\nkind: Supervisor\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(n.config), "\n", "\n  ") + "\n"
		config, err := policy.Parse([]policy.SourceFile{{Path: "config.yaml", Data: []byte(text)}, {Path: "plugins.yaml", Data: []byte(n.plugins)}}, policy.LoadOptions{ConfigFile: "config.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		in.Config = config
	}
	return doctor.Diagnose(in)
}

func TestOnAHealthyNodeNothingIsWrong(t *testing.T) {
	t.Parallel()
	r := healthy().diagnose(t)
	var checks []doctor.Check
	for _, f := range r.Findings {
		checks = append(checks, f.Check)
		if f.Result != doctor.OK || f.What == "" {
			t.Errorf("%+v", f)
		}
	}
	if diff := cmp.Diff(doctor.Checks(), checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if r.ExitCode() != doctor.ExitOK || r.Summary() != "ok: 12 checks, nothing is wrong" {
		t.Errorf("exit code %d, summary %q", r.ExitCode(), r.Summary())
	}
}

// like says whether got has the result, and the texts of want somewhere in its own; Where and Value count from their beginning.
func like(got, want doctor.Finding) bool {
	return got.Check == want.Check && got.Result == want.Result && strings.Contains(got.What, want.What) && strings.Contains(got.Mend, want.Mend) &&
		strings.HasPrefix(got.Where, want.Where) && (strings.HasPrefix(got.Value, want.Value) || strings.Contains(got.Value, want.Value))
}

// finds is a node, and what doctor finds there.
type finds struct {
	name string
	make func(*node)
	want doctor.Finding // What is a part of it
	code int
}

// each lets doctor look at nodes.
func each(t *testing.T, cases []finds) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := healthy()
			c.make(n)
			r := n.diagnose(t)
			if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return like(f, c.want) }) {
				t.Errorf("no finding like\n%+v\nin\n%+v", c.want, r.Findings)
			}
			for _, f := range r.Findings {
				if f.Result != doctor.OK && (f.What == "" || f.Mend == "") {
					t.Errorf("%+v does not say what is wrong or how to mend it", f)
				}
			}
			if r.ExitCode() != c.code {
				t.Errorf("exit code %d, want %d: %s", r.ExitCode(), c.code, r.Summary())
			}
			if s := r.Summary(); len(s) > 80 || strings.Contains(s, "\n") {
				t.Errorf("summary %q", s)
			}
		})
	}
}
