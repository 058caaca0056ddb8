package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// built is where prepare.sh puts containerd and the image; bin is where this test puts the supervisor and the plugins.
var built, bin string //nolint:gochecknoglobals // set once by TestMain

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "e2e: these tests create containers and need root")
		return 1
	}
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	root := filepath.Join(here, "..", "..")
	built = filepath.Join(root, ".cache", "e2e")
	if err := command(here, "bash", "prepare.sh"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: prepare:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "nris-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // programs that plugins of other users execute
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	bin = dir
	for _, p := range []string{"./cmd/nri-supervisor", "./plugins/env-injector", "./plugins/chaos"} {
		if err := command(root, "go", "build", "-buildvcs=false", "-o", dir+"/", p); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: build", p, err)
			return 1
		}
	}
	return m.Run()
}

func command(dir string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // constant programs
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	return cmd.Run()
}
