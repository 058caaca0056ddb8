package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// buildImages writes the supervisor and a stock plugin as container images.
func buildImages(root string) error {
	for name, program := range map[string]string{"nri-supervisor": "nri-supervisor", "stock": newest} {
		at := "/" + name
		if name == "stock" {
			at = "/30-attached" // a stub takes index and name from its program's
		}
		if err := command(root, "go", "run", "./deploy/image", "-out", filepath.Join(bin, name+".tar"), "-name", "localhost/"+name+":e2e", "-entrypoint", at,
			filepath.Join(bin, program)+":"+at, "/tmp/", "/etc/", "/proc/", "/sys/", "/dev/", "/run/", "/var/run/", "/var/lib/"); err != nil {
			return err
		}
	}
	return nil
}

// privileged runs a program of an image in a privileged pod; mounts are pairs of a folder of the host and one of the container.
func (p *pod) privileged(image, attempt string, args []string, mounts ...string) (string, error) {
	c := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "main-" + attempt}, Image: &cri.ImageSpec{Image: image}, Args: args,
		Linux: &cri.LinuxContainerConfig{Resources: &cri.LinuxContainerResources{}, SecurityContext: &cri.LinuxContainerSecurityContext{Privileged: true}},
	}
	for i := 0; i+1 < len(mounts); i += 2 {
		c.Mounts = append(c.Mounts, &cri.Mount{HostPath: mounts[i], ContainerPath: mounts[i+1]})
	}
	return p.createOf(c)
}

// TestTheSupervisorRunsAsAPodAndHostsAPluginOfAnotherPod runs both as a DaemonSet would: privileged, with the folder of the NRI socket mounted; the plugin has only the folder of its own socket.
func TestTheSupervisorRunsAsAPodAndHostsAPluginOfAnotherPod(t *testing.T) {
	n := newNode(t, options{})
	n.importImage(filepath.Join(bin, "nri-supervisor.tar"))
	n.importImage(filepath.Join(bin, "stock.tar"))
	run, state, etc := n.dir+"/run", n.dir+"/lib", n.dir+"/etc"
	for _, d := range []string{run, state, etc} {
		if err := os.Mkdir(d, 0o755); err != nil { //nolint:gosec // as the kubelet makes it
			t.Fatal(err)
		}
	}
	write(t, etc+"/config.yaml", `apiVersion: nri-supervisor.dev/v1alpha1
kind: Supervisor
spec:
  metrics: {address: ""}
  teams: {net: {contact: "#net", allow: {attach: true}}}
`)
	write(t, etc+"/plugins.d/attached.yaml", `apiVersion: nri-supervisor.dev/v1alpha1
kind: Plugin
metadata: {name: attached}
spec:
  team: net
  index: "30"
  attach: {}
  configText: '{"env": {"ATTACHED": "1"}}'
  selector: {podSelector: {matchLabels: {attached: "yes"}}}
`)
	for _, path := range []string{etc + "/config.yaml", etc + "/plugins.d/attached.yaml"} {
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status := func() (out struct {
		Runtime struct{ Connected bool }
		Plugins []struct{ State string }
	},
	) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "nri-supervisor"), "status", "-o", "json", "--socket", run+"/admin.sock") //nolint:gosec // built here
		if data, err := cmd.Output(); err == nil {
			_ = json.Unmarshal(data, &out)
		}
		return out
	}
	us, err := n.runPrivilegedPod("nri-supervisor", "supervisor")
	if err != nil {
		t.Fatal(err)
	}
	them, err := n.runPrivilegedPod("plugins", "attached")
	if err != nil {
		t.Fatal(err)
	}
	var folder os.FileInfo
	for i := range 2 { // the second time as after an update: both containers are replaced
		attempt := fmt.Sprint(i)
		supervisor, err := us.privileged("localhost/nri-supervisor:e2e", attempt, []string{"run", "--config", "/etc/nri-supervisor/config.yaml", "--log-format", "json"},
			filepath.Dir(n.socket), "/var/run/nri", run, "/run/nri-supervisor", state, "/var/lib/nri-supervisor", etc, "/etc/nri-supervisor")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(read(filepath.Join(n.dir, "supervisor-main-"+attempt+".log")))
				t.Log(read(filepath.Join(n.dir, "attached-main-"+attempt+".log")))
			}
		})
		attach := run + "/attach/attached"
		n.eventually("the supervisor in the pod is registered and listens for its plugin", func() bool {
			_, err := os.Stat(attach + "/nri.sock")
			return err == nil && status().Runtime.Connected
		})
		info, err := os.Stat(attach)
		if err != nil {
			t.Fatal(err)
		}
		if folder != nil && !os.SameFile(folder, info) {
			t.Error("the folder of the socket is another one after a restart of the supervisor: what a pod has mounted is dead")
		}
		folder = info
		missing := n.mustCreate("early-"+attempt, "attached", "yes")
		plugin, err := them.privileged("localhost/stock:e2e", attempt, nil, attach, "/var/run/nri")
		if err != nil {
			t.Fatal(err)
		}
		n.eventually("the plugin of the other pod is in service", func() bool {
			s := status()
			return len(s.Plugins) == 1 && s.Plugins[0].State == "ready"
		})
		if id := n.mustCreate("late-"+attempt, "attached", "yes"); !n.has(id, "ATTACHED", "1") || n.spec(missing).env("ATTACHED") != "" {
			t.Errorf("attempt %s: ATTACHED is %q before the plugin is there and %q after", attempt, n.spec(missing).env("ATTACHED"), n.spec(id).env("ATTACHED"))
		}
		if id := n.mustCreate("other-" + attempt); n.spec(id).env("ATTACHED") != "" {
			t.Errorf("attempt %s: a container that nobody selected has ATTACHED", attempt)
		}
		n.remove(supervisor)
		n.remove(plugin)
	}
}
