package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/policy"
)

func TestTheSocketsWithWhichRootIsRootOnTheNodeAreHidden(t *testing.T) {
	t.Parallel()
	for _, socket := range []string{
		"/run/containerd/containerd.sock", "/run/nri/nri.sock", "/run/crio/crio.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/k3s/containerd/containerd.sock",
		"/run/k0s/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/user/0/systemd/private", "/run/udev/control", "/run/udev/io.systemd.Udev", "/run/host-containerd/containerd.sock", "/run/api.sock", "/var/lib/incus/unix.socket",
		"/var/snap/lxd/common/lxd/unix.socket", "/var/snap/microk8s/common/run/containerd.sock",
	} {
		if !slices.ContainsFunc(policy.RuntimeSockets(), func(h string) bool { return socket == h || strings.HasPrefix(socket, h+"/") }) {
			t.Errorf("%s is not hidden", socket)
		}
	}
	if resolver := "/run/systemd/resolve"; slices.ContainsFunc(policy.RuntimeSockets(), func(h string) bool { return strings.HasPrefix(resolver, h) }) {
		t.Errorf("%s is hidden, and plugins resolve no names", resolver)
	}
}
