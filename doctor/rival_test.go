package doctor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nri-supervisor/nri-supervisor/doctor"
)

func TestASupervisorOfAnotherRuntimeIsNoRival(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, config, cwd string
		sockets           map[string]string
		want              doctor.Result
		says              string
	}{
		{"another runtime", "/etc/docker.yaml", "", map[string]string{"/etc/docker.yaml": "/run/docker/nri.sock"}, doctor.OK, "process 90"},
		{"another runtime, in a container", "/etc/x.yaml", "", map[string]string{"/proc/91/root/etc/x.yaml": "/run/docker/nri.sock", "/etc/x.yaml": "/run/nri/nri.sock"}, doctor.OK, "the only one"},
		{"relative, another runtime", "x.yaml", "/etc/docker", map[string]string{"/etc/docker/x.yaml": "/run/docker/nri.sock", "x.yaml": "/run/nri/nri.sock"}, doctor.OK, "the only one"},
		{"relative, the same file", "config.yaml", "/etc", nil, doctor.Problem, "2 supervisors"},
		{"relative, nobody knows to what", "config.yaml", "", map[string]string{"config.yaml": "/run/nri/nri.sock"}, doctor.OK, "which runtime process 91"},
		{"unreadable", "/etc/secret.yaml", "", nil, doctor.OK, "which runtime process 91"},
	} {
		n := healthy()
		n.sockets = c.sockets
		n.supervisor(91, "/usr/local/bin/nri-supervisor", "run", "--config", c.config)
		if c.cwd != "" {
			n.files["proc/91/cwd"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(c.cwd)}
		}
		i := slices.IndexFunc(n.diagnose(t).Findings, func(f doctor.Finding) bool { return f.Check == doctor.Supervisors })
		if f := n.diagnose(t).Findings[i]; f.Result != c.want || !strings.Contains(f.What, c.says) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestRealFilesAreReadBelowTheRootWithTheirLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/real/config.toml", "version = 3\nimports = [\"/etc/real/more/*.toml\"]\n")
	write("etc/real/more/a.toml", nriTable+"  disable = true # for now\n")
	write("run/nri/nri.sock", "")
	for from, to := range map[string]string{"etc/containerd": "/etc/real", "var": "nowhere/..", "nowhere": "."} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	files, ok := os.DirFS(root).(fs.ReadLinkFS)
	if !ok {
		t.Fatal("the files of the system have no links")
	}
	r := doctor.Diagnose(doctor.Input{Host: doctor.Host{Files: files, Landlock: 7}, Live: doctor.Live{Silent: "nobody"}})
	for _, want := range []doctor.Finding{
		{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is off in containerd", Where: "/etc/real/more/a.toml:2", Value: "disable = true"},
		{Check: doctor.Socket, Result: doctor.Problem, What: "is not a socket", Where: "/var/run/nri/nri.sock"},
		{Check: doctor.Cgroups, Result: doctor.Unknown, What: "cannot be seen"},
		{Check: doctor.Seccomp, Result: doctor.Unknown, What: "cannot be seen"},
	} {
		if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return like(f, want) }) {
			t.Errorf("no finding like\n%+v\nin\n%+v", want, r.Findings)
		}
	}
}
