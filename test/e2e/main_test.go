package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
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
	root := filepath.Join(filepath.Dir(file), "..", "..")
	built = filepath.Join(root, ".cache", "e2e")
	dir, err := os.MkdirTemp("", "nris-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	if err := sweepOld(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: remove what killed runs left:", err)
		return 1
	}
	if given := os.Getenv("E2E_BIN"); given != "" { // programs of an earlier run, for work on one test
		bin = given
		return m.Run()
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"containerd, runc and the image", func() error { return command(filepath.Join(root, "test", "e2e"), "bash", "prepare.sh") }},
		{"the supervisor and its plugins", func() error {
			if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // programs that plugins of other users execute
				return err
			}
			return command(root, "go", "build", "-trimpath", "-o", dir+"/", "./cmd/nri-supervisor", "./plugins/env-injector", "./plugins/chaos")
		}},
		{"stock plugins with each version of NRI", func() error { return buildStock(filepath.Join(root, "test", "compat")) }},
		{"a public plugin", func() error {
			return command(filepath.Join(root, "test", "e2e", "public"), "go", "build", "-trimpath", "-o", dir+"/", "github.com/containerd/nydus-snapshotter/cmd/optimizer-nri-plugin")
		}},
		{"the images", func() error { return buildImages(root) }},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: %s: %v\n", step.name, err)
			return 1
		}
		fmt.Fprintf(os.Stderr, "e2e: %s: ready after %.0f s\n", step.name, time.Since(begin).Seconds())
	}
	return m.Run()
}

// nriVersions are the folders below test/compat, each with a version of NRI.
func nriVersions() []string { return []string{"nri08", "nri09", "nri010", "nri011", "nri012"} }

// buildStock builds the stock plugin as stock-nri08 and so on.
func buildStock(compat string) error {
	for _, v := range nriVersions() {
		if err := command(filepath.Join(compat, v), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(bin, "stock-"+v),
			"github.com/nri-supervisor/nri-supervisor/test/compat/body/stock"); err != nil {
			return err
		}
	}
	return nil
}

func command(dir string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // constant programs
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	return cmd.Run()
}
