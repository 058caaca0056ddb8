package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// attach runs a plugin beside the supervisor, as a DaemonSet's pod does: the folder of its socket is mounted where the plugin looks for the runtime's, and whenever the plugin ends
// it is started again.
func (s *supervisor) attach(n *node, m manifest) {
	s.t.Helper()
	folder := filepath.Join(s.dir, "run", "attach", m.name)
	script := fmt.Sprintf(`mount -t tmpfs none /run && mkdir -p /run/nri && mount --bind "$FOLDER" /run/nri || exit 1
while :; do %q; sleep 0.1; done`, filepath.Join(bin, m.program))
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script) //nolint:gosec,noctx // ended below
	cmd.Env = append(os.Environ(), "FOLDER="+folder, "NRI_PLUGIN_NAME="+m.name, "NRI_PLUGIN_IDX="+m.index)
	n.eventually("the socket of "+m.name, func() bool {
		_, err := os.Stat(filepath.Join(folder, "nri.sock"))
		return err == nil
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}
