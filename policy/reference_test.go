package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestALinkDoesNotLeadOutOfTheTeamsPaths(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	program, other := tr.write("team/bin/x", "", 0o755), tr.write("other/y", "", 0o755)
	for link, target := range map[string]string{"team/bin/in": program, "team/bin/out": other, "linked": filepath.Dir(filepath.Dir(program))} {
		if err := os.Symlink(target, tr.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		paths, exec string
		want        bool
	}{
		{"team/**", "team/bin/x", true},
		{"team/**", "team/bin/in", true},
		{"team/**", "team/bin/out", false},
		{"linked/**", "linked/bin/x", true},
		{"linked/**", "linked/bin/out", false},
		{"linked/bin/*", "linked/bin/in", true},
		{"team/bin/out", "team/bin/out", false},
	} {
		team := strings.Replace(supervisorYAML, "open: {", "open: {execPaths: ["+tr.path(tt.paths)+"], ", 1)
		tr.write("config.yaml", team+"  fileTrust: off\n", 0o644)
		path := tr.write("p.yaml", plugin("p", "exec: {path: "+tr.path(tt.exec)+"}"), 0o644)
		c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{path}, CheckFiles: true})
		if got := c.Plugin("p") != nil; got != tt.want || !got && !strings.Contains(problems, "which is outside the paths of team") {
			t.Errorf("%s with execPaths %s: accepted %t, %s", tt.exec, tt.paths, got, problems)
		}
	}
}

func TestWhatAProcessHasInProcIsNoPluginsBusiness(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("config.yaml", supervisorYAML+"  fileTrust: off\n", 0o644)
	if err := os.Symlink("/proc/self/environ", tr.path("link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/self/environ", "/proc/thread-self/environ", "/proc/1/status", tr.path("link")} {
		if data, err := policy.ReadReference(path); !errors.Is(err, policy.ErrOfProcess) {
			t.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
		for _, spec := range []string{"configFrom: {file: " + path + "}", "exec: {path: " + tr.write("bin", "", 0o755) + ", env: [{name: A, valueFrom: {fileRef: " + path + "}}]}"} {
			manifest := tr.write("p.yaml", plugin("p", spec), 0o644)
			if c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{manifest}, CheckFiles: true}); c.Plugin("p") != nil || !strings.Contains(problems, "it belongs to a process") {
				t.Errorf("%s: accepted, %s", spec, problems)
			}
		}
	}
	if data, err := policy.ReadReference("/proc/sys/kernel/ostype"); err != nil || len(data) == 0 {
		t.Errorf("what the kernel says of itself: %q, %v", data, err)
	}
}

func TestALibraryThatOthersCanWriteIsRefusedUnlessFileTrustIsOff(t *testing.T) {
	t.Parallel()
	for _, trust := range []string{"strict", "off"} {
		tr := newTree(t)
		tr.write("config.yaml", supervisorYAML+"  fileTrust: "+trust+"\n", 0o644)
		library := tr.write("lib/x.so", "", 0o666)
		path := tr.write("d/p.yaml", plugin("p", "exec: {path: "+tr.write("bin/x", "", 0o755)+", env: [{name: LD_PRELOAD, value: "+library+"}]}"), 0o644)
		c, problems := tr.load(policy.LoadOptions{PluginPaths: []string{path}, CheckFiles: true})
		if refused := c.Plugin("p") == nil; refused != (trust == "strict") || refused && !strings.Contains(problems, "spec.exec.env[0]: variable LD_PRELOAD: the file /lib/x.so can be written by others") {
			t.Errorf("%s: %s", trust, problems)
		}
	}
}
