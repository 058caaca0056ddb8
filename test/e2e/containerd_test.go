package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// node is a containerd with its CRI client.
type node struct {
	t       *testing.T
	dir     string
	socket  string // NRI
	cmd     *exec.Cmd
	done    chan struct{}
	conn    *grpc.ClientConn
	cri     cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	timeout string
	extra   string // more lines for the nri table
	pods    []string
}

// newNode starts a containerd in a temporary root. timeout is NRI's plugin_request_timeout; extra lines go into the configuration as they are.
func newNode(t *testing.T, timeout, extra string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "nrie2e")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: dir, socket: filepath.Join(dir, "nri", "nri.sock"), timeout: timeout, extra: extra}
	t.Cleanup(n.cleanup)
	n.start()
	n.importImage()
	return n
}

func (n *node) start() {
	n.t.Helper()
	config := fmt.Sprintf(`version = 3
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %[3]q
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
  socket_path = %[6]q
  plugin_path = %[7]q
  plugin_config_path = %[7]q
  plugin_request_timeout = %[8]q
%[9]s
`, filepath.Join(n.dir, "root"), filepath.Join(n.dir, "state"), n.address(), filepath.Join(built, "bin", "runc"), filepath.Join(n.dir, "cni"),
		n.socket, filepath.Join(n.dir, "nri-plugins"), n.timeout, n.extra)
	path := filepath.Join(n.dir, "config.toml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		n.t.Fatal(err)
	}
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
		conn, err := grpc.NewClient("unix://"+n.address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			n.t.Fatal(err)
		}
		n.conn, n.cri, n.images = conn, cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn)
	}
	n.eventually("containerd's CRI", func() bool {
		ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Second)
		defer cancel()
		_, err := n.cri.Version(ctx, &cri.VersionRequest{}, grpc.WaitForReady(true))
		return err == nil
	})
}

func (n *node) importImage() {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(built, "bin", "ctr"), "--address", n.address(), "-n", "k8s.io", "images", "import", //nolint:gosec // built here
		filepath.Join(built, "image.tar"))
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("import image: %v\n%s\n%s", err, out, n.log())
	}
}

// stop ends containerd; its shims and containers stay, as on a real node.
func (n *node) stop(s syscall.Signal) {
	n.t.Helper()
	_ = n.cmd.Process.Signal(s)
	<-n.done
}

func (n *node) log() string {
	data, _ := os.ReadFile(filepath.Join(n.dir, "containerd.log"))
	lines := strings.Split(string(data), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

func (n *node) cleanup() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if n.t.Failed() {
		n.t.Log(n.log())
	}
	if n.cri != nil {
		for _, id := range n.pods {
			_, _ = n.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
			_, _ = n.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
		}
		_ = n.conn.Close()
	}
	n.stop(syscall.SIGTERM)
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for l := range strings.Lines(string(mounts)) {
		if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(f[1], n.dir) {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
	_ = os.RemoveAll(n.dir)
}

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

// pod is a running sandbox.
type pod struct {
	n      *node
	id     string
	config *cri.PodSandboxConfig
}

// runPod starts a sandbox in the node's network; labels are pairs.
func (n *node) runPod(namespace, name string, labels ...string) (*pod, error) {
	c := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: "uid-" + namespace + "-" + name},
		LogDirectory: n.dir, Labels: map[string]string{}, Annotations: map[string]string{},
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_NODE},
		}},
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if key, ok := strings.CutPrefix(labels[i], "@"); ok {
			c.Annotations[key] = labels[i+1]
			continue
		}
		c.Labels[labels[i]] = labels[i+1]
	}
	rsp, err := n.cri.RunPodSandbox(n.t.Context(), &cri.RunPodSandboxRequest{Config: c})
	if err != nil {
		return nil, err
	}
	n.pods = append(n.pods, rsp.GetPodSandboxId())
	return &pod{n: n, id: rsp.GetPodSandboxId(), config: c}, nil
}

// create creates a container and starts it.
func (p *pod) create(name string) (string, error) {
	ctx := p.n.t.Context()
	rsp, err := p.n.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: "localhost/busybox:1"}, Command: []string{"/bin/sleep", "1000000"},
			LogPath: p.config.GetMetadata().GetName() + "-" + name + ".log",
			Linux: &cri.LinuxContainerConfig{
				Resources:       &cri.LinuxContainerResources{MemoryLimitInBytes: 64 << 20, CpuShares: 512},
				SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions()},
			},
		},
	})
	if err != nil {
		return "", err
	}
	_, err = p.n.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: rsp.GetContainerId()})
	return rsp.GetContainerId(), err
}

// exec runs a command in a container and returns its output.
func (n *node) exec(id string, args ...string) string {
	n.t.Helper()
	rsp, err := n.cri.ExecSync(n.t.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: args, Timeout: 10})
	if err != nil {
		n.t.Fatal(err)
	}
	return string(rsp.GetStdout())
}
