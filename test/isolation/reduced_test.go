//go:build root

package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// beUnprivileged is a supervisor that can apply little: it starts a plugin with the standard profile, first as somebody asked for it, then with parts
// that may be missing, and says what came of each.
func beUnprivileged(runDir, program string) int {
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: runDir, Helper: []string{helper}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer h.Close()
	c := isolation.Standard([]string{runDir})
	c.TrustFile = false // the test's own program is where go test puts it
	s := isolation.Spec{
		Name: "test", Index: "42", Path: program, Args: []string{hostile}, Protocol: isolation.NRI, RunDir: runDir,
		Env: []string{"GORACE=atexit_sleep_ms=0"}, Host: h, Confine: c,
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, part := range []isolation.Part{isolation.PartMounts, isolation.PartCgroup, ""} {
		i, err := isolation.Start(ctx, s)
		e, ok := errors.AsType[*isolation.StartError](err)
		switch {
		case ok:
			fmt.Println("refused:", e.Phase, e)
		case err != nil:
			fmt.Println(err)
		default:
			for _, r := range i.Reduced() {
				fmt.Println("reduced:", r)
			}
			i.Kill(isolation.ReasonStopped)
		}
		s.Confine.Optional = append(s.Confine.Optional, part)
	}
	return 0
}

func TestWhatThisHostCannotApplyIsRefusedOrTold(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	copied(t, exe, program)
	runDir := filepath.Join(dir, "run")
	if err := errors.Join(os.Mkdir(runDir, 0o711), os.Chown(runDir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, unprivileged, runDir, program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := string(out)
	for _, want := range []string{
		"refused: sandbox sandbox: a cgroup of its own: ", "refused: sandbox sandbox: make a file system in memory: ", "reduced: a cgroup of its own: ", "reduced: mounts: make a mount namespace: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
