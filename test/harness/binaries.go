package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// module is the import path of the repository.
const module = "github.com/nri-supervisor/nri-supervisor"

// binaries builds each program once per test process.
type binaries struct {
	mu    sync.Mutex
	dir   string
	built map[string]string
}

var programs = &binaries{built: map[string]string{}} //nolint:gochecknoglobals // one build cache for one test process

// Main runs the tests of a package and removes what was built for them. Use it in TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	return code
}

// Race reports whether the programs under test are built with the race detector, as NRI_SUPERVISOR_TEST_RACE=1 asks for.
func Race() bool { return os.Getenv("NRI_SUPERVISOR_TEST_RACE") != "" }

// Supervisor returns the path of the supervisor's binary.
func Supervisor(tb testing.TB) string {
	tb.Helper()
	return build(tb, "cmd/nri-supervisor")
}

// Plugin returns the path of an in-tree plugin's binary.
func Plugin(tb testing.TB, name string) string {
	tb.Helper()
	return build(tb, "plugins/"+name)
}

// Probe returns the path of the plugin for tests, test/harness/probe.
func Probe(tb testing.TB) string {
	tb.Helper()
	return build(tb, "test/harness/probe")
}

// root is the folder of the repository. A test in a module of its own builds the programs by the versions in the repository's go.mod all the same.
func root(tb testing.TB) string {
	tb.Helper()
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) {
		tb.Fatalf("where this file lies is not known, only %q: do not build tests with -trimpath", file)
	}
	return filepath.Join(filepath.Dir(file), "..", "..")
}

func build(tb testing.TB, pkg string) string {
	tb.Helper()
	return buildAs(tb, pkg, filepath.Base(pkg))
}

// buildAs builds a program with further flags of the go tool, once by that name.
func buildAs(tb testing.TB, pkg, name string, flags ...string) string {
	tb.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if p, ok := programs.built[name]; ok {
		return p
	}
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "nris-bin")
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // programs run as another user, too
			tb.Fatal(err)
		}
		programs.dir = dir
	}
	out := filepath.Join(programs.dir, name)
	args := append([]string{"build", "-o", out}, flags...)
	if Race() {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(tb.Context(), "go", append(args, module+"/"+pkg)...)
	cmd.Dir = root(tb)
	if msg, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", pkg, err, msg)
	}
	if err := os.Chmod(out, 0o755); err != nil { //nolint:gosec // a program
		tb.Fatal(fmt.Errorf("build %s: %w", pkg, err))
	}
	programs.built[name] = out
	return out
}

// TempDir returns a folder with a path short enough for sockets (107 bytes), removed at the end of the test.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "nris")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
