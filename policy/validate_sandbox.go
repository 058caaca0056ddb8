package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// AllCapabilities in capabilities.drop stands for all of the profile's.
const AllCapabilities = "ALL"

// capabilityNames are the names in capabilities(7), without CAP_. A test of the command compares them with those that are applied.
func capabilityNames() []string {
	return strings.Fields(`AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER
		FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON
		SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME
		SYS_TTY_CONFIG WAKE_ALARM`)
}

// CapabilityNames lists the names of capabilities that a manifest may use, sorted.
func CapabilityNames() []string { return capabilityNames() }

// minimums are the smallest limits with which a plugin can come up at all: measured with a plugin of the SDK, which needs about a third
// of each, and with the process that confines it before, which is of the same size.
const (
	minMemory = 16 << 20
	minPIDs   = 16
	minNoFile = 32
	minCPU    = 10 // thousandths of a core
	// minStack holds the arguments and the environment, which may take a quarter of it, execve(2).
	minStack = 512 << 10
)

// validateSandbox checks the limits and the confinement of a plugin's process.
func (d *document) validateSandbox(path string, s *PluginSpec) {
	limits := path + ".resources.limits"
	atLeast := func(field string, q *resource.Quantity, least int64, value func() int64, text string) {
		if at := limits + "." + field; q != nil && !d.failedUnder(at) && value() < least {
			d.errorf(at, "write "+text+" or more", "%s is too little for any plugin to start", q)
		}
	}
	l := &s.Resources.Limits
	atLeast("memory", l.Memory, minMemory, func() int64 { return l.Memory.Value() }, "16Mi")
	atLeast("cpu", l.CPU, minCPU, func() int64 { return l.CPU.MilliValue() }, "10m")
	atLeast("pids", l.PIDs, minPIDs, func() int64 { return l.PIDs.Value() }, "16")
	for _, r := range l.RLimits() {
		atLeast(r.Name, *r.Limit, r.Least, func() int64 { return (*r.Limit).Value() }, leastText(r.Least))
	}
	box := path + ".sandbox."
	d.checkAccount(box+"user", s.Sandbox.User)
	d.checkAccount(box+"group", s.Sandbox.Group)
	for i, g := range s.Sandbox.SupplementalGroups {
		d.checkAccount(indexPath(box+"supplementalGroups", i), g)
	}
	d.checkCapabilities(box+"capabilities.add", s.Sandbox.Capabilities.Add, false)
	d.checkCapabilities(box+"capabilities.drop", s.Sandbox.Capabilities.Drop, true)
	for field, paths := range map[string][]string{"readOnlyPaths": s.Sandbox.ReadOnlyPaths, "readWritePaths": s.Sandbox.ReadWritePaths} {
		for i, p := range paths {
			d.checkAbsolute(indexPath(box+field, i), p)
		}
	}
}

// validateProfile checks what depends on the profile, which a team's ceiling may have raised.
func (d *document) validateProfile(path string, s *PluginSpec) {
	l, limits := &s.Resources.Limits, path+".resources.limits"
	if at := limits + ".nproc"; d.isWritten(at) && l.NProc != nil && !d.failedUnder(at) && !d.failedUnder(path+".sandbox.user") && (isRoot(&s.Sandbox) || s.Sandbox.adds("SYS_ADMIN", "SYS_RESOURCE")) {
		d.errorf(at, "write pids, which bounds any plugin, or give it a user: sandbox: {user: NAME}", "the kernel does not bound the processes of root, of SYS_ADMIN and of SYS_RESOURCE")
	}
	if at := limits + ".memlock"; d.isWritten(at) && l.MemLock != nil && !d.failedUnder(at) && (s.Sandbox.adds("IPC_LOCK") || isRoot(&s.Sandbox) && s.Sandbox.Profile == ProfileNone) {
		d.errorf(at, "write memory, which bounds any plugin, or choose a profile and do not add IPC_LOCK", "the kernel does not bound what a plugin with IPC_LOCK locks")
	}
	if s.Sandbox.Profile == ProfileNone {
		d.refuseWithoutProfile(path+".sandbox.", &s.Sandbox)
	}
}

// leastText is a number of bytes, files or processes as a manifest would write it.
func leastText(n int64) string {
	if n == 0 {
		return "0"
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// isRoot tells whether the plugin runs as root, if the supervisor does. Groups alone leave the user as the profile has it.
func isRoot(s *SandboxSpec) bool {
	if s.User != "" {
		return rootAccount(s.User)
	}
	return s.Profile != ProfileStrict
}

// rootAccount tells whether a user or group is root by its name or number. Another name may be root's, too: that is known where the plugin starts.
func rootAccount(name string) bool {
	n, err := strconv.ParseUint(name, 10, 32)
	return name == "root" || err == nil && n == 0
}

// adds tells whether the manifest adds one of the capabilities.
func (s *SandboxSpec) adds(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(s.Capabilities.Add, n) })
}

// refuseWithoutProfile refuses settings that change a profile where there is none: ignoring them would be weaker than they read.
func (d *document) refuseWithoutProfile(box string, s *SandboxSpec) {
	for field, given := range map[string]bool{
		"readOnlyPaths": len(s.ReadOnlyPaths) > 0, "readWritePaths": len(s.ReadWritePaths) > 0,
		"capabilities.add": len(s.Capabilities.Add) > 0, "capabilities.drop": len(s.Capabilities.Drop) > 0,
	} {
		if given && !d.failedUnder(box+field) {
			d.errorf(box+field, "delete it, or choose the profile standard or strict", "it changes what a profile allows, and the profile none restricts nothing")
		}
	}
}

// checkAccount checks the name or number of a user or group. Whether there is one is known where the plugin starts.
func (d *document) checkAccount(at, name string) {
	if name == "" || d.failedUnder(at) {
		return
	}
	// 2³²−1 means "leave it" to the kernel.
	if n, err := strconv.ParseUint(name, 10, 64); err == nil && n < 1<<32-1 {
		if plain := strconv.FormatUint(n, 10); name != plain {
			d.errorf(at, "write "+plain, "the number %q has zeros in front", name)
		}
		return
	}
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`).MatchString(name) {
		d.errorf(at, "write a name such as nobody, or a number", "%q is neither the name nor the number of an account", name)
	}
}

func (d *document) checkCapabilities(at string, names []string, all bool) {
	for i, name := range names {
		field := indexPath(at, i)
		if d.failedUnder(field) || slices.Contains(capabilityNames(), name) || all && name == AllCapabilities {
			continue
		}
		remedy := "write a name of capabilities(7) without CAP_, such as NET_ADMIN"
		if best := nearest(strings.TrimPrefix(strings.ToUpper(name), "CAP_"), capabilityNames()); best != "" {
			remedy = "write " + best
		}
		d.errorf(field, remedy, "%q is not a capability", name)
	}
}
