package isolation_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestThePluginInheritsNothing(t *testing.T) {
	t.Setenv("SUPERVISOR_SECRET", "token")
	// A descriptor that is inherited on exec, as a supervisor that was itself launched by a runtime has them.
	leak, err := os.Open("/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leak.Close() }()
	clearCloseOnExec(t, leak)
	allowCoreDumps(t)

	for _, protocol := range []isolation.Protocol{isolation.GoPlugin, isolation.NRI} { //nolint:paralleltest // it changes this process
		t.Run(protocol.String(), func(t *testing.T) {
			s := spec(t, protocol, map[isolation.Protocol]string{isolation.GoPlugin: "sdk", isolation.NRI: "stock"}[protocol])
			s.Env = append(s.Env, "LOG=debug")
			i := start(t, s)
			configure(t, i, "facts")
			dirs, err := filepath.Glob(filepath.Join(s.RunDir, "plugins", "test", "*"))
			if err != nil || len(dirs) != 1 {
				t.Fatalf("directories %q, %v", dirs, err)
			}
			data, err := os.ReadFile(filepath.Join(dirs[0], "facts.json"))
			if err != nil {
				t.Fatal(err)
			}
			var f facts
			if err := json.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			checkFacts(t, f, dirs[0])
			info, err := os.Stat(dirs[0])
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("directory has mode %v, %v", info.Mode(), err)
			}
		})
	}
}

func checkFacts(t *testing.T, f facts, dir string) {
	t.Helper()
	if f.Dir != dir || f.Stdin != "/dev/null" || !f.Session || f.Core != 0 {
		t.Errorf("directory %q, stdin %q, leads session %v, core limit %d", f.Dir, f.Stdin, f.Session, f.Core)
	}
	var names []string
	for _, kv := range f.Env {
		name, value, _ := strings.Cut(kv, "=")
		if name == "HOME" && value != dir {
			t.Errorf("HOME is %q", value)
		}
		// The SDK removes what only it may see; go-plugin's own variables are harmless.
		if !strings.HasPrefix(name, "PLUGIN_") && !strings.HasPrefix(name, "NRI_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"GORACE", "HOME", modeEnv, "LOG", "PATH"}, names); diff != "" {
		t.Error("environment:", diff)
	}
	for _, fd := range f.Fds {
		number, target, _ := strings.Cut(fd, "=")
		switch {
		case number == "0" || number == "1" || number == "2":
		case strings.HasPrefix(target, "socket:"), strings.HasPrefix(target, "pipe:"),
			strings.HasPrefix(target, "anon_inode:"), strings.HasPrefix(target, "/proc/"): // the plugin's own
		case strings.HasPrefix(target, "/sys/fs/cgroup"): // Go's runtime
		default:
			t.Errorf("descriptor %s", fd)
		}
	}
}
