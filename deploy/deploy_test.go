//go:build deploy

package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// machines are the released architectures.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
}

func TestTheReleasedBinariesAreStatic(t *testing.T) {
	t.Parallel()
	for arch, machine := range machines() {
		f, err := elf.Open("../dist/nri-supervisor-linux-" + arch)
		if err != nil {
			t.Fatalf("%v; make release builds it", err)
		}
		if f.Machine != machine {
			t.Errorf("%s: the binary is for %s", arch, f.Machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: the binary needs a dynamic linker (%s)", arch, p.Type)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// entries reads a tar file; folders have no content.
func entries(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheImagesHoldTheReleasedBinary(t *testing.T) {
	t.Parallel()
	type blob struct{ Digest string }
	for arch := range machines() {
		layout := entries(t, read(t, "../dist/nri-supervisor-image-"+arch+".tar"))
		get := func(b blob, out any) []byte {
			t.Helper()
			data, ok := layout["blobs/"+strings.Replace(b.Digest, ":", "/", 1)]
			if !ok {
				t.Fatalf("%s: no blob %q", arch, b.Digest)
			}
			if out != nil {
				if err := json.Unmarshal(data, out); err != nil {
					t.Fatal(err)
				}
			}
			return data
		}
		var index struct{ Manifests []blob }
		if err := json.Unmarshal(layout["index.json"], &index); err != nil || len(index.Manifests) == 0 {
			t.Fatalf("%s: index %v %s", arch, err, layout["index.json"])
		}
		var manifest struct {
			Config blob
			Layers []blob
		}
		get(index.Manifests[0], &manifest)
		var config struct {
			Architecture string
			Config       struct{ Entrypoint []string }
		}
		get(manifest.Config, &config)
		if config.Architecture != arch || len(config.Config.Entrypoint) != 1 {
			t.Errorf("%s: the image is %+v", arch, config)
		}
		files := entries(t, get(manifest.Layers[0], nil))
		if !bytes.Equal(files[strings.TrimPrefix(config.Config.Entrypoint[0], "/")], read(t, "../dist/nri-supervisor-linux-"+arch)) {
			t.Errorf("%s: the entrypoint is not the released binary", arch)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const unit = "systemd/nri-supervisor.service"

func TestTheManPagesAreReleased(t *testing.T) {
	t.Parallel()
	packed, err := gzip.NewReader(bytes.NewReader(read(t, "../dist/nri-supervisor-man.tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	pages := entries(t, data)
	files, err := filepath.Glob("man/*.8")
	if err != nil || len(files) == 0 || len(files) != len(pages) {
		t.Errorf("%d pages are released, of %d: %v", len(pages), len(files), err)
	}
	for _, file := range files {
		if !bytes.Equal(pages[filepath.Base(file)], read(t, file)) {
			t.Errorf("%s is not what is released", file)
		}
	}
}

func TestTheUnitSaysWhatTheServiceNeeds(t *testing.T) {
	t.Parallel()
	text := "\n" + string(read(t, unit))
	for _, line := range []string{
		"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "WatchdogSec=30s", "KillMode=mixed", "Delegate=yes", "OOMScoreAdjust=-999", "RuntimeDirectory=nri-supervisor", "RuntimeDirectoryPreserve=yes", "StateDirectory=nri-supervisor",
		"Restart=always", "RestartSteps=6", "RestartMaxDelaySec=60s", "StartLimitIntervalSec=0", "Before=kubelet.service",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if !regexp.MustCompile(`(?m)^After=.*\bcontainerd\.service\b`).MatchString(text) {
		t.Error("not ordered after containerd.service")
	}
	if regexp.MustCompile(`(?m)^(Requires|BindsTo|PartOf|Wants)=`).MatchString(text) {
		t.Error("bound to another unit: the service outlives its runtime")
	}
}

// systemd itself reads the unit. Versions before 254 know two of the keys not yet, and say so.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "nri-supervisor")
	if err := os.WriteFile(program, nil, 0o755); err != nil { //nolint:gosec // systemd wants it executable
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(unit))
	if err := os.WriteFile(path, bytes.ReplaceAll(read(t, unit), []byte("/usr/local/bin/nri-supervisor"), []byte(program)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path) //nolint:gosec // our own file
	out, err := cmd.CombinedOutput()
	known := regexp.MustCompile(`Unknown key( name)? '(RestartSteps|RestartMaxDelaySec)' in section`)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, filepath.Base(unit)) && !known.MatchString(line) {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	if err != nil && len(out) == 0 {
		t.Errorf("systemd-analyze: %v", err)
	}
}

// document is one YAML document, by path.
type document map[string]any

func (d document) at(path ...string) any {
	var v any = map[string]any(d)
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func parse(t *testing.T, path string) document {
	t.Helper()
	var d map[string]any // a type of its own would become that of the maps inside, too
	if err := yaml.Unmarshal(read(t, path), &d); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

func TestTheDaemonSetIsWhatANodeServiceHasToBe(t *testing.T) {
	t.Parallel()
	d := parse(t, "kubernetes/daemonset.yaml")
	for _, c := range []struct {
		path []string
		want any
	}{
		{[]string{"kind"}, "DaemonSet"},
		{[]string{"spec", "updateStrategy", "rollingUpdate", "maxSurge"}, 0},
		{[]string{"spec", "template", "spec", "priorityClassName"}, "system-node-critical"},
		{[]string{"spec", "template", "spec", "automountServiceAccountToken"}, false},
	} {
		if got := d.at(c.path...); got != c.want {
			t.Errorf("%s is %v, want %v", strings.Join(c.path, "."), got, c.want)
		}
	}
	hostPaths := map[string]bool{}
	for _, v := range d.at("spec", "template", "spec", "volumes").([]any) {
		if path, ok := document(v.(map[string]any)).at("hostPath", "path").(string); ok {
			hostPaths[path] = true
		}
	}
	for _, path := range []string{"/var/run/nri", "/run/nri-supervisor", "/var/lib/nri-supervisor"} {
		if !hostPaths[path] {
			t.Errorf("the folder %s of the node is not mounted", path)
		}
	}
	k := parse(t, "kubernetes/kustomization.yaml")
	var names []string
	for _, r := range k["resources"].([]any) {
		parse(t, "kubernetes/"+r.(string))
	}
	for _, g := range k["configMapGenerator"].([]any) {
		names = append(names, document(g.(map[string]any)).at("name").(string))
		for _, f := range document(g.(map[string]any)).at("files").([]any) {
			parse(t, "kubernetes/"+f.(string))
		}
	}
	for _, v := range d.at("spec", "template", "spec", "volumes").([]any) {
		if name, ok := document(v.(map[string]any)).at("configMap", "name").(string); ok && !slices.Contains(names, name) {
			t.Errorf("nobody makes the ConfigMap %q", name)
		}
	}
}

func TestTheDeliveredConfigurationIsValid(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "../dist/nri-supervisor-linux-"+runtime.GOARCH, "check", "--config", "kubernetes/config/config.yaml", "kubernetes/config/plugins.yaml") //nolint:gosec // built here
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
