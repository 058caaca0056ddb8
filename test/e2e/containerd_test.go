package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// options say how a containerd is configured. The zero value is NRI with its defaults.
type options struct {
	timeout  string            // plugin_request_timeout; default 2s
	disabled bool              // NRI is switched off
	required []string          // required_plugins of the default validator
	plugins  map[string]string // pre-installed: file name (NN-name) to program
	configs  map[string]string // their configurations
}

// node is a containerd with its CRI client. Its pods may be made by several goroutines.
type node struct {
	t       *testing.T
	dir     string
	name    string // of its folder, and of the parent of all its control groups
	socket  string // NRI
	options options
	cmd     *exec.Cmd
	done    chan struct{}
	killed  bool // SIGKILL can hit containerd between starting a shim and writing it down; then it is forgotten for ever
	conn    *grpc.ClientConn
	cri     cri.RuntimeServiceClient
}

// newNode starts a containerd in a temporary root, with the image. It is gone with all that it made when the test ends, which is checked.
func newNode(t *testing.T, o options) *node {
	t.Helper()
	dir, err := os.MkdirTemp(nodeRoot, nodePrefix)
	if err != nil {
		t.Fatal(err)
	}
	claim(t, dir)
	if o.timeout == "" {
		o.timeout = "2s"
	}
	n := &node{t: t, dir: dir, name: filepath.Base(dir), socket: filepath.Join(dir, "nri", "nri.sock"), options: o}
	t.Cleanup(n.cleanup)
	n.start()
	n.importImage(filepath.Join(built, "image.tar"))
	return n
}

const containerdConfig = `version = 3
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %[3]q
[ttrpc]
  address = "%[3]s.ttrpc"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_selinux = false
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = %[4]q
  [plugins."io.containerd.cri.v1.runtime".cni]
    conf_dir = %[5]q
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.nri.v1.nri"]
  disable = %[6]t
  socket_path = %[7]q
  plugin_path = %[8]q
  plugin_config_path = %[8]q
  plugin_request_timeout = %[9]q
%[10]s
`

// writeConfig writes containerd's configuration and its pre-installed plugins.
func (n *node) writeConfig() string {
	n.t.Helper()
	preinstalled := filepath.Join(n.dir, "nri-plugins")
	if err := os.MkdirAll(preinstalled, 0o755); err != nil { //nolint:gosec // as an administrator makes it
		n.t.Fatal(err)
	}
	for name, program := range n.options.plugins {
		if err := os.Link(program, filepath.Join(preinstalled, name)); err != nil && !os.IsExist(err) {
			n.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(preinstalled, name+".conf"), []byte(n.options.configs[name]), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	extra := ""
	if len(n.options.required) > 0 {
		extra = fmt.Sprintf("  [plugins.\"io.containerd.nri.v1.nri\".default_validator]\n    enable = true\n    required_plugins = [%q]\n", strings.Join(n.options.required, `", "`))
	}
	config := fmt.Sprintf(containerdConfig, filepath.Join(n.dir, "root"), filepath.Join(n.dir, "state"), n.address(), filepath.Join(built, "bin", "runc"),
		filepath.Join(n.dir, "cni"), n.options.disabled, n.socket, preinstalled, n.options.timeout, extra)
	path := filepath.Join(n.dir, "config.toml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// start starts containerd, also again after stop.
func (n *node) start() {
	n.t.Helper()
	path := n.writeConfig()
	log, err := os.OpenFile(filepath.Join(n.dir, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	n.cmd = exec.Command(filepath.Join(built, "bin", "containerd"), "--config", path, "--log-level", "info") //nolint:gosec,noctx // ended by stop
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.Env = []string{"PATH=" + filepath.Join(built, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.done = make(chan struct{})
	cmd, done := n.cmd, n.done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	n.connect()
}

func (n *node) address() string { return filepath.Join(n.dir, "containerd.sock") }

func (n *node) connect() {
	n.t.Helper()
	if n.conn == nil {
		conn, err := grpc.NewClient("unix://"+n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
		if err != nil {
			n.t.Fatal(err)
		}
		n.conn, n.cri = conn, cri.NewRuntimeServiceClient(conn)
	}
	n.eventually("containerd's CRI", func() bool {
		n.conn.ResetConnectBackoff()
		ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Second)
		defer cancel()
		_, err := n.cri.Version(ctx, &cri.VersionRequest{}, grpc.WaitForReady(true))
		return err == nil
	})
}

func (n *node) importImage(path string) {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(built, "bin", "ctr"), "--address", n.address(), "-n", "k8s.io", "images", "import", path) //nolint:gosec // built here
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("import image: %v\n%s\n%s", err, out, n.log())
	}
}

// stop ends containerd; its shims and containers stay, as on a real node.
func (n *node) stop(s syscall.Signal) {
	n.killed = n.killed || s == syscall.SIGKILL
	_ = n.cmd.Process.Signal(s)
	<-n.done
}

// log is the end of containerd's log.
func (n *node) log() string {
	data, _ := os.ReadFile(filepath.Join(n.dir, "containerd.log"))
	lines := strings.Split(string(data), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// eventually waits until something holds, a minute at most.
func (n *node) eventually(what string, holds func() bool) {
	n.t.Helper()
	limit := time.Now().Add(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(limit) {
			n.t.Fatalf("%s: not in 60 s\n%s", what, n.log())
		}
		<-tick.C
	}
}

// cleanup removes all pods in order, ends containerd, and checks that nothing is left; what is left all the same is removed by force.
func (n *node) cleanup() {
	if n.t.Failed() {
		n.t.Log(n.log())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if n.conn != nil {
		var wg sync.WaitGroup
		free := make(chan struct{}, 8)
		pods, _ := n.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{}) // also those whose creation was interrupted
		for _, p := range pods.GetItems() {
			id := p.GetId()
			wg.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				_, _ = n.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
				_, _ = n.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
			})
		}
		wg.Wait()
		_ = n.conn.Close()
	}
	n.stop(syscall.SIGTERM)
	left := leftovers(n.dir)
	for end := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(end); left = leftovers(n.dir) { // a shim ends after containerd has been told
		<-time.After(10 * time.Millisecond)
	}
	if len(left) > 0 && !n.killed && !n.t.Failed() {
		n.t.Errorf("left after all pods were removed and containerd ended:\n%s", strings.Join(left, "\n"))
	}
	if err := sweep(n.dir); err != nil {
		n.t.Error(err)
	}
}
