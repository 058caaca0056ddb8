package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTenStockPluginsAtOnceOutliveARestartOfContainerd hosts ten stock plugins on one containerd: nine built with NRI 0.8 to 0.12, and optimizer-nri-plugin of
// nydus-snapshotter, a public plugin as it is released. The effect of each is in the container, also after containerd was restarted and killed.
func TestTenStockPluginsAtOnceOutliveARestartOfContainerd(t *testing.T) {
	n := newNode(t, options{timeout: "5s"})
	results := n.dir + "/results"
	write(t, results+"/.keep", "")
	write(t, n.dir+"/optimizer-server", "#!/bin/sh\nexec /bin/sleep 1000000\n")
	write(t, n.dir+"/mounted/file", "mounted")
	plugins := []manifest{{
		name: "optimizer", index: "10", program: "optimizer-nri-plugin", stock: true, label: "ten", extra: "  sandbox: {profile: none}",
		config: fmt.Sprintf("events = [\"StartContainer\"]\nserver_path = %q\npersist_dir = %q\n", n.dir+"/optimizer-server", results),
	}}
	more := []string{
		fmt.Sprintf(`, "mount": {"source": %q, "destination": "/mounted"}`, n.dir+"/mounted"),
		`, "device": {"path": "/dev/extra", "type": "c", "major": 1, "minor": 3}`,
		`, "rlimit": {"type": "RLIMIT_NOFILE", "limit": 512}`,
	}
	for i := range 9 {
		extra := ""
		if i < len(more) {
			extra = more[i]
		}
		plugins = append(plugins, manifest{
			name: fmt.Sprint("stock-", i), index: fmt.Sprint(20 + i), program: "stock-" + nriVersions()[i%5], stock: true, label: "ten",
			config: fmt.Sprintf(`{"env": {"S%d": "1"}%s}`, i, extra),
		})
	}
	s := startSupervisor(t, n.configure(manifests(plugins...)))
	names := []string{}
	for _, p := range plugins {
		names = append(names, p.name)
	}
	s.ready(1, names...)
	for i, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL} {
		if sig != 0 {
			n.stop(sig)
			s.wait(i, "runtime lost", nil)
			n.start()
			s.ready(i+1, names...)
		}
		// On a busy machine ten calls may take longer than there is time; then it is recorded as missed.
		id := ""
		n.eventually("a container with the work of all ten", func() bool {
			id = n.mustCreate(fmt.Sprint("pod-", time.Now().UnixNano()), "ten", "yes")
			return len(s.missed()[id]) == 0
		})
		env := n.exec(id, "/bin/env")
		for p := range 9 {
			if key := fmt.Sprintf("S%d=1\n", p); !strings.Contains(env, key) {
				t.Errorf("after signal %d exec in the container sees no %s", sig, key)
			}
		}
		if got := n.exec(id, "/bin/cat", "/mounted/file"); got != "mounted" {
			t.Errorf("after signal %d the mounted file holds %q", sig, got)
		}
		if got := n.exec(id, "/bin/ls", "/dev/extra"); strings.TrimSpace(got) != "/dev/extra" {
			t.Errorf("after signal %d the device: %q", sig, got)
		}
		if got := n.exec(id, "/bin/sh", "-c", "ulimit -n"); strings.TrimSpace(got) != "512" {
			t.Errorf("after signal %d open files are limited to %q", sig, got)
		}
		n.eventually("the optimizer's list of files", func() bool { return strings.HasPrefix(read(filepath.Join(results, "busybox:1.csv")), "path,size") })
	}
	if other := n.spec(n.mustCreate("other")); strings.Contains(strings.Join(other.Process.Env, " "), "S0=") {
		t.Errorf("a container that nobody selected has %v", other.Process.Env)
	}
}
