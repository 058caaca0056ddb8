package isolation

// standardCapabilities are what plugins that run as root use: they handle files of other users.
func standardCapabilities() []string { return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"} }

// protectedPaths are what a plugin with the standard profile cannot write to: who can is root at the next login, boot or update, or
// through the kernel at once, or in containers of others, or leaves its cgroup, or fills the memory of the host's file systems in memory, without
// which no runtime works.
func protectedPaths() []string {
	return []string{
		"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/boot", "/efi",
		"/root", "/home", "/opt", "/usr/local", "/sysroot", "/nix", "/run", "/dev", "/proc", "/sys", "/var/spool",
		"/var/lib/cloud", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/systemd", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker",
		"/var/lib/rancher", "/var/lib/kubelet/pods", "/var/lib/kubelet/pki", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env",
		"/var/lib/apt/lists", "/var/lib/dkms", "/var/lib/waagent",
	}
}

// privateTmp are the temporary folders of which each confined plugin gets its own.
func privateTmp() []string { return []string{"/tmp", "/var/tmp", "/dev/shm"} }

// Standard is the profile for plugins that nothing is known of: they run as root, and can do what such plugins do. hide are the
// folders of the runtimes' and the supervisor's sockets, and the run directory.
func Standard(hide []string) Confinement {
	c := confined(hide)
	c.Capabilities, c.Protect = standardCapabilities(), protectedPaths()
	return c
}

// Strict is the profile for plugins that need nothing but their connection: a user of their own, no capability, no network, and no
// files but the system's, which they can read, and their own.
func Strict(hide []string) Confinement {
	c := confined(hide)
	c.OwnUser, c.NoNetwork, c.ConfineFiles = true, true, true
	return c
}

// halfOOMScore lets a plugin go before the supervisor and before most pods, whatever their sizes are.
const halfOOMScore = maxOOMScore / 2

// None is the profile that keeps a plugin from nothing. It has a cgroup all the same, where there are any, so that nothing of it survives its end.
func None() Confinement {
	return Confinement{Optional: []Part{PartCgroup}, Cgroup: true, OOMScore: halfOOMScore, Setuid: true}
}

// confined is what both have.
func confined(hide []string) Confinement {
	return Confinement{
		Cgroup: true, OOMScore: halfOOMScore, CutCapabilities: true, NoNewPrivs: true, Seccomp: true, Shield: true,
		Hide: hide, PrivateTmp: privateTmp(), NoDevices: true, TrustFile: true,
	}
}
