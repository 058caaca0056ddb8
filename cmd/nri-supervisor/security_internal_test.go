package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

func TestTheCapabilitiesOfManifestsAreThoseThatAreApplied(t *testing.T) {
	t.Parallel()
	applied := isolation.Capabilities()
	slices.Sort(applied)
	if diff := cmp.Diff(applied, policy.CapabilityNames()); diff != "" {
		t.Error(diff)
	}
}

func TestSecurityTellsHowToLowerWhatIsNotSealed(t *testing.T) {
	t.Parallel()
	strict, standard := isolation.Strict([]string{"/run/x"}), isolation.Standard([]string{"/run/x"})
	strict.Limits = isolation.Limits{Memory: 1 << 30, CPU: 1000, PIDs: 100}
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/hidden", 0o755), os.Symlink("hidden", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	listing, key, socket, linked := strict, strict, strict, strict
	linked.Hide, linked.ReadWrite = []string{dir + "/hidden"}, []string{dir + "/link"}
	key.Capabilities, socket.ReadOnly = []string{"BPF"}, []string{"/run/x/its.sock"}
	listing.ReadOnly, listing.ReadWrite = []string{"/etc/x"}, []string{"/var/lib/x", "/dev/x"}
	all := []string{
		"user", "capabilities", "files", "disk", "devices", "runtimes' sockets", "other sockets", "other processes", "system calls", "memory", "processor", "processes", "cgroup", "survivors",
	}
	bare := []string{"user", "memory", "processor", "processes"}
	usual := []string{"capabilities", "files", "disk", "other sockets", "network"}
	old := []string{"user", "other processes", "memory", "processor", "processes"}
	for name, tt := range map[string]struct {
		c       isolation.Confinement
		kernel  int // its version of Landlock
		exposed []string
		limited []string
	}{
		"none":                      {isolation.None(), 7, all, []string{"network", "limits of each process"}},
		"less than none":            {isolation.Confinement{}, 7, all, []string{"network", "limits of each process"}},
		"standard":                  {standard, 7, bare, usual},
		"standard on Linux 6.1":     {standard, 2, old, usual},
		"standard without Landlock": {standard, 0, old, usual},
		"strict with limits":        {strict, 0, nil, []string{"other sockets"}},
		"strict that lists paths":   {listing, 7, nil, []string{"files", "disk", "devices", "other sockets"}},
		"strict with a master key":  {key, 7, []string{"capabilities"}, []string{"other sockets"}},
		"strict with a link to it":  {linked, 7, []string{"runtimes' sockets"}, []string{"files", "disk", "other sockets"}},
		"strict with a socket":      {socket, 7, []string{"runtimes' sockets"}, []string{"other sockets"}},
	} {
		var exposedNow, limitedNow []string
		for _, f := range freedoms(&tt.c, tt.kernel) {
			switch f.Exposure {
			case exposed:
				exposedNow = append(exposedNow, f.What)
			case limited:
				limitedNow = append(limitedNow, f.What)
			case sealed:
			}
			nothingHelps := f.What == "other sockets" && f.Exposure == limited && tt.c.ConfineFiles
			if (f.Lower == "") != (f.Exposure == sealed || nothingHelps) || f.May == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if diff := cmp.Diff(tt.exposed, exposedNow) + cmp.Diff(tt.limited, limitedNow); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestARuntimesFolderThatIsNotThereYetIsSaidNotToBeHiddenOutsideOfRun(t *testing.T) {
	t.Parallel()
	const folder = "/var/lib/incus"
	_, err := os.Lstat(folder)
	missing := err != nil
	hide := []string{folder, "/run/crio", "/var/snap/microk8s/common/run"}
	standard, strict := isolation.Standard(hide), isolation.Strict(hide)
	if f := socketsOf(&standard); (f.Exposure == limited) != missing || strings.Contains(f.May, folder) != missing || strings.Contains(f.May, "crio") {
		t.Errorf("standard, where the folder is missing (%t): %+v", missing, f)
	}
	if f := socketsOf(&strict); f.Exposure != sealed {
		t.Errorf("strict: %+v", f)
	}
}

func TestSecurityIsReadableOnATerminal(t *testing.T) {
	t.Parallel()
	hide := []string{"/run/x"}
	none, strict, standard := isolation.None(), isolation.Strict(hide), isolation.Standard(hide)
	standard.Limits = isolation.Limits{Memory: 1 << 30}
	standard.Capabilities = append(standard.Capabilities, "NET_ADMIN", "NET_RAW", "SYS_PTRACE")
	standard.ReadWrite = []string{"/dev/nvidia0", "/dev/nvidiactl", "/run/cdi", "/var/lib/a-team-with-a-long-name/its-plugin"}
	strict.Limits, strict.NoFile = isolation.Limits{Memory: 1 << 30, CPU: 1000, PIDs: 100}, 256
	strict.RLimits = []isolation.RLimit{{Resource: isolation.StackSize, Value: 8 << 20}, {Resource: isolation.FileSize, Value: 1 << 20}}
	const kernel = 7
	list := []pluginSecurity{
		{"free", "a", "none", freedoms(&none, kernel)},
		{"usual", "b", "standard", freedoms(&standard, kernel)},
		{"tight", "b", "strict", freedoms(&strict, kernel)},
	}
	b := paper{width: usualWidth}
	writeSecurity(&b, list)
	golden(t, "security/three.txt", b.String())
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > usualWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	var machine bytes.Buffer
	asJSON := formatJSON
	if err := asJSON.show(&machine, list[2:], nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "security/tight.json", machine.String())
}

func TestWhatAManifestChangesIsAppliedOrThePluginDoesNotStart(t *testing.T) {
	t.Parallel()
	spec, _ := policy.DefaultSpecs()
	asRoot := true
	of := func(change func(*policy.Plugin)) isolation.Confinement {
		_, plugin := policy.DefaultSpecs()
		p := &policy.Plugin{Name: "p", Spec: plugin}
		change(p)
		confine := newConfinements(&spec, nil)
		confine.root = asRoot
		c, err := confine.of(p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := of(func(*policy.Plugin) {}); len(c.Optional) != 3 || slices.Contains(c.Optional, isolation.PartCgroup) || !c.Cgroup || !c.TrustFile {
		t.Errorf("the default profile: optional %v, a cgroup %v, trusts only %v", c.Optional, c.Cgroup, c.TrustFile)
	}
	asRoot = false
	if c := of(func(*policy.Plugin) {}); !slices.Contains(c.Optional, isolation.PartCgroup) {
		t.Errorf("who is not root has to have cgroups: optional %v", c.Optional)
	}
	asRoot = true
	if c := of(func(p *policy.Plugin) { p.ProfileWritten, p.Spec.Sandbox.Profile = true, policy.ProfileNone }); !c.Cgroup || c.OOMScore == 0 ||
		!slices.Equal(c.Optional, []isolation.Part{isolation.PartCgroup}) {
		t.Errorf("none: something of it could survive, or outlive the supervisor in want of memory: %+v", c)
	}
	if c := of(func(p *policy.Plugin) { p.ProfileWritten = true }); len(c.Optional) != 0 {
		t.Errorf("a written profile has optional parts: %v", c.Optional)
	}
	c := of(func(p *policy.Plugin) {
		p.Spec.Sandbox.Capabilities = policy.CapabilitiesSpec{Add: []string{"NET_ADMIN"}, Drop: []string{"ALL"}}
		p.Spec.Sandbox.ReadWritePaths = []string{"/etc/cdi"}
	})
	if diff := cmp.Diff([]string{"NET_ADMIN"}, c.Capabilities); diff != "" {
		t.Error(diff)
	}
	if slices.Contains(c.Optional, isolation.PartCapabilities) || slices.Contains(c.Optional, isolation.PartMounts) {
		t.Errorf("what the manifest asks for is optional: %v", c.Optional)
	}
	if c := of(func(p *policy.Plugin) { p.Spec.Sandbox.Profile = policy.ProfileStrict }); !c.NoNetwork || !c.OwnUser || len(c.Capabilities) > 0 {
		t.Errorf("strict: %+v", c)
	}
}

func TestWhatDecidesWhatRunsNextIsKeptFromEachPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("elsewhere/program", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "elsewhere"), 0o755), os.WriteFile(filepath.Join(dir, "elsewhere/program"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	spec, standard := policy.DefaultSpecs()
	spec.Audit.Path = "/srv/nri/audit.jsonl"
	of := func(name, path string) *policy.Plugin {
		p := &policy.Plugin{Name: name, Spec: standard}
		p.Spec.Exec = &policy.ExecSpec{Path: path}
		return p
	}
	attached := &policy.Plugin{Name: "c", Spec: standard}
	attached.Spec.Attach = &policy.AttachSpec{Socket: "/srv/topology/nri.sock"}
	a := of("a", "/srv/a/program")
	cfg := &policy.Config{Supervisor: spec, Plugins: []*policy.Plugin{a, of("b", filepath.Join(dir, "link")), attached}}
	l := launcher{confine: confinementsOf(cfg, "/srv/nri/config.yaml", nil)}
	if _, err := l.confinement(of("d", "/srv/d/program")); err != nil {
		t.Fatal(err)
	}
	c, err := l.confinement(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/srv/a/program", "/srv/d/program", filepath.Join(dir, "link"), dir, "/srv/nri/config.yaml", "/srv/nri"} {
		if !slices.Contains(c.Protect, path) {
			t.Errorf("%s can be written: %q", path, c.Protect)
		}
	}
	for _, path := range []string{"/srv/topology", "/run/containerd", "/run/nri", "/run/crio", "/run/docker.sock", "/run/nri-supervisor", "/var/lib/nri-supervisor"} {
		if !slices.Contains(c.Hide, path) {
			t.Errorf("%s can be seen: %q", path, c.Hide)
		}
	}
}

func TestWhatARunningProcessHasLessThanItsProfileIsALineOfItsOwn(t *testing.T) {
	t.Parallel()
	list := []pluginSecurity{{Plugin: "a", Team: "t"}, {Plugin: "b", Team: "t"}}
	addReduced([]supervisor.PluginStatus{
		{Name: "a", Team: "t", Identity: &supervisor.Identity{Reduced: "mounts: none"}},
		{Name: "b", Team: "other", Identity: &supervisor.Identity{Reduced: "mounts: none"}},
		{Name: "b", Team: "t", Identity: &supervisor.Identity{}},
		{Name: "c", Team: "t"},
	}, list)
	if len(list[1].Freedoms) > 0 || len(list[0].Freedoms) != 1 || list[0].Freedoms[0].Exposure != exposed || !strings.HasSuffix(list[0].Freedoms[0].May, ": mounts: none") {
		t.Errorf("%+v", list)
	}
}
