package policy

import (
	"path/filepath"
	"slices"
	"strings"
)

// RuntimeSockets are the usual folders and files in which container runtimes listen, and others that start whatever root asks them to, outside of a
// plugin's cgroup: who can connect there is root on the node. A profile hides them.
func RuntimeSockets() []string {
	return []string{
		"/run/containerd", "/run/nri", "/run/crio", "/run/docker", "/run/docker.sock", "/run/cri-dockerd.sock", "/run/podman",
		"/run/k3s/containerd", "/run/k0s", "/run/dockershim.sock", "/run/isulad.sock", "/run/buildkit", "/run/libvirt", "/run/lxd.socket", "/var/lib/lxd", "/var/lib/incus",
		"/run/incus", "/run/snapd.socket", "/run/snapd-snap.socket", "/var/snap/microk8s/common/run", "/var/snap/lxd/common/lxd", "/run/snap.docker",
		"/run/dbus", "/run/user", "/run/systemd/private", "/run/systemd/io.systemd.Manager", "/run/systemd/io.systemd.sysext", "/run/systemd/io.systemd.Import",
		"/run/systemd/io.systemd.MountFileSystem", "/run/systemd/io.systemd.Repart", "/run/systemd/io.systemd.FactoryReset", "/run/systemd/io.systemd.Login",
		"/run/systemd/machine", "/run/systemd/initctl", "/run/initctl", "/run/udev/control", "/run/udev/io.systemd.Udev",
		"/run/host-containerd", "/run/api.sock", // Bottlerocket's containerd of its own containers, and its settings
	}
}

// showsSocket says which of the paths shows what a profile hides; "": none. A folder above that can be written shows what appears later. A link is not
// followed.
func (b *builder) showsSocket(paths []string, writable bool) string {
	hidden := RuntimeSockets()
	for _, socket := range []string{b.spec.Runtime.Socket, b.spec.Admin.Socket} {
		hidden = append(hidden, inRun(socket))
	}
	hidden = append(hidden, inRun(b.spec.RunDir), inRun(b.spec.StateDir))
	for _, path := range paths {
		shows := func(h string) bool {
			later := writable && (strings.HasPrefix(h, "/run/") || strings.HasPrefix(h, "/var/snap/"))
			return inRun(path) == h || strings.HasPrefix(inRun(path), h+"/") || later && strings.HasPrefix(h, inRun(path)+"/")
		}
		if slices.ContainsFunc(hidden, shows) {
			return path
		}
	}
	return ""
}

// inRun is the path without the link that /var/run is.
func inRun(path string) string {
	path = filepath.Clean(path)
	if rest, ok := strings.CutPrefix(path, "/var/run"); ok && (rest == "" || rest[0] == '/') {
		return "/run" + rest
	}
	return path
}
