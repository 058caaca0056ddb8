package doctor_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nri-supervisor/nri-supervisor/doctor"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

const nriTable = "[plugins.\"io.containerd.nri.v1.nri\"]\n"

func TestEachFindingSaysWhatWhereWhichValueAndHowToMendIt(t *testing.T) {
	t.Parallel()
	strict := manifest("tight", "  sandbox: {profile: strict}\n")
	limited := manifest("gpu-env", "  resources: {limits: {memory: 64Mi}}\n")
	each(t, []finds{
		{
			"containerd with NRI off, in version 3", func(n *node) {
				n.alone()
				n.write("etc/containerd/config.toml", "version = 3\n[plugins.\"io.containerd.cri.v1.images\"]\n  disable = false\n"+nriTable+"  disable = true\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is off in containerd", Where: "/etc/containerd/config.toml:5", Value: "disable = true", Mend: "write disable = false under"},
			1,
		},
		{
			"containerd with NRI off by a file that is imported, in version 2", func(n *node) {
				n.alone()
				n.write("etc/containerd/config.toml", "version = 2\nimports = [\"conf.d/*.toml\"]\n"+nriTable+"disable = false\n")
				n.write("etc/containerd/conf.d/nri.toml", nriTable+"disable = true\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is off in containerd", Where: "/etc/containerd/conf.d/nri.toml:2", Value: "disable = true", Mend: "restart containerd"},
			1,
		},
		{
			"containerd with the plugin disabled", func(n *node) {
				n.alone()
				n.write("etc/containerd/config.toml", "version = 2\ndisabled_plugins = [\"cri\", \"io.containerd.nri.v1.nri\"]\n"+nriTable+"disable = false\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is off in containerd", Where: "/etc/containerd/config.toml:2", Value: "disabled_plugins = ", Mend: "out of disabled_plugins"},
			1,
		},
		{
			"containerd 1, which has NRI off by default", func(n *node) {
				n.alone()
				delete(n.files, socketPath)
				n.write("etc/containerd/config.toml", "version = 2\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is probably off", Where: "/etc/containerd/config.toml", Value: "no table", Mend: "disable = false"},
			1,
		},
		{
			"a containerd elsewhere, found by its command line", func(n *node) {
				n.alone()
				n.process(80, "containerd", "-c", "/var/lib/k/config.toml")
				n.write("var/lib/k/config.toml", nriTable+"disable = true\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is off in containerd", Where: "/var/lib/k/config.toml:2", Value: "disable = true", Mend: "disable = false"},
			1,
		},
		{
			"NRI that will be off after the next restart", func(n *node) { n.write("etc/containerd/config.toml", nriTable+"disable = true\n") },
			doctor.Finding{Check: doctor.NRI, Result: doctor.Warning, What: "from the next restart", Where: "/etc/containerd/config.toml:2", Value: "disable = true", Mend: "disable = false"},
			0,
		},
		{
			"a runtime that only talks to plugins that it started", func(n *node) {
				n.alone()
				n.write("etc/containerd/config.toml", nriTable+"disable_connections = true\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "refuses plugins that it did not start", Where: "/etc/containerd/config.toml:2", Value: "disable_connections = true", Mend: "set it to false"},
			1,
		},
		{
			"a configuration that the runtime cannot read", func(n *node) {
				n.alone()
				n.write("etc/containerd/config.toml", "version = = 2\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "containerd's configuration is not valid", Where: "/etc/containerd/config.toml", Mend: "correct the file"},
			1,
		},
		{
			"CRI-O with NRI off by the last of its files", func(n *node) {
				n.alone()
				n.process(80, "/usr/bin/crio")
				n.write("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
				n.write("etc/crio/crio.conf.d/10-nri.conf", "[crio.runtime]\n[crio.nri]\n# enable_nri = true\nenable_nri = false\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "NRI is off in cri-o", Where: "/etc/crio/crio.conf.d/10-nri.conf:4", Value: "enable_nri = false", Mend: "enable_nri = true under [crio.nri]"},
			1,
		},
		{
			"a runtime that listens elsewhere", func(n *node) {
				n.alone()
				n.process(80, "/usr/bin/crio")
				n.write("etc/crio/crio.conf", "[crio.nri]\nnri_listen = \"/run/other/nri.sock\"\n")
			},
			doctor.Finding{Check: doctor.NRI, Result: doctor.Problem, What: "listens elsewhere", Where: "/etc/crio/crio.conf:2", Value: "nri_listen = /run/other/nri.sock", Mend: "spec.runtime.socket: /run/other/nri.sock"},
			1,
		},
		{
			"a node of which nothing is seen", func(n *node) { n.alone(); delete(n.files, socketPath) },
			doctor.Finding{Check: doctor.NRI, Result: doctor.Unknown, What: "neither a runtime's configuration nor", Where: "/etc/containerd/config.toml", Mend: "on the node itself"},
			1,
		},
		{
			"no socket", func(n *node) { n.alone(); delete(n.files, socketPath) },
			doctor.Finding{Check: doctor.Socket, Result: doctor.Problem, What: "is missing", Where: "/var/run/nri/nri.sock", Mend: "mount the folder /var/run/nri"},
			1,
		},
		{
			"a folder in the place of the socket", func(n *node) { n.files[socketPath] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} },
			doctor.Finding{Check: doctor.Socket, Result: doctor.Problem, What: "there is a folder", Where: "/var/run/nri/nri.sock", Value: "folder", Mend: "mount /var/run/nri instead"},
			1,
		},
		{
			"a file in the place of the socket", func(n *node) { n.write(socketPath, "") },
			doctor.Finding{Check: doctor.Socket, Result: doctor.Problem, What: "is not a socket", Where: "/var/run/nri/nri.sock", Value: "file", Mend: "remove it"},
			1,
		},
		{
			"a socket that is mounted itself", func(n *node) {
				n.write("proc/90/mountinfo", mountinfo+"30 24 8:1 /run/nri/nri.sock /run/nri/nri.sock rw - tmpfs tmpfs rw\n")
			},
			doctor.Finding{Check: doctor.Socket, Result: doctor.Problem, What: "the NRI socket itself is mounted", Where: "/var/run/nri/nri.sock", Value: "mount of /run/nri/nri.sock", Mend: "mount its folder"},
			1,
		},
		{
			"a socket on which nobody listens", func(n *node) { n.live.Connected, n.live.Reason = false, ""; n.write("proc/net/unix", "") },
			doctor.Finding{Check: doctor.Socket, Result: doctor.Unknown, What: "nobody is seen to listen", Where: "/var/run/nri/nri.sock", Mend: "whether the runtime runs"},
			2,
		},
		{
			"a timeout that is longer than the runtime's", func(n *node) {
				n.plugins = manifest("gpu-env", "  timeouts: {default: 1900ms}\n")
			},
			doctor.Finding{Check: doctor.Timeouts, Result: doctor.Problem, What: "plugin gpu-env: the timeout of 1.9s at", Where: "plugins.yaml:2", Value: "runtime: 2s (as the runtime says)", Mend: "write 1.8s or less"},
			1,
		},
		{
			"a timeout of the runtime in its file", func(n *node) {
				n.alone()
				n.write("etc/containerd/config.toml", nriTable+"plugin_request_timeout = \"200ms\"\n")
			},
			doctor.Finding{Check: doctor.Timeouts, Result: doctor.Problem, What: "plugin gpu-env: the timeout of 500ms at", Where: "plugins.yaml:2", Value: "runtime: 200ms (/etc/containerd/config.toml:2)", Mend: "write 180ms or less"},
			1,
		},
		{
			"timeouts that do not fit together", func(n *node) {
				n.plugins = manifest("a", "  timeouts: {default: 1s}\n") + manifest("b", "  timeouts: {default: 1s}\n")
			},
			doctor.Finding{Check: doctor.Timeouts, Result: doctor.Warning, What: "add up to 2s", Value: "runtime: 2s", Mend: "shorten them"},
			0,
		},
		{
			"no cgroup v2", func(n *node) {
				n.write("proc/90/mountinfo", "24 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
			},
			doctor.Finding{Check: doctor.Cgroups, Result: doctor.Problem, What: "no cgroup v2 hierarchy is mounted", Where: "/sys/fs/cgroup", Mend: "mount one"},
			1,
		},
		{
			"cgroups that cannot be written", func(n *node) { n.write("proc/90/mountinfo", strings.Replace(mountinfo, "rw,", "ro,", 1)) },
			doctor.Finding{Check: doctor.Cgroups, Result: doctor.Problem, What: "cannot be changed", Where: "/sys/fs/cgroup", Value: "mounted ro", Mend: "privileged"},
			1,
		},
		{
			"a cgroup that is not delegated, with limits", func(n *node) {
				n.plugins = limited
				n.write(service+"/cgroup.controllers", "cpu pids\n")
			},
			doctor.Finding{Check: doctor.Cgroups, Result: doctor.Problem, What: "no limit of memory can be set, so gpu-env cannot start", Where: "/" + service + "/cgroup.controllers", Value: "cpu pids", Mend: "Delegate=yes"},
			1,
		},
		{
			"a cgroup that is not delegated, without limits", func(n *node) { n.write(service+"/cgroup.controllers", "\n") },
			doctor.Finding{Check: doctor.Cgroups, Result: doctor.Warning, What: "no manifest sets one", Where: "/" + service + "/cgroup.controllers", Value: "none", Mend: "Delegate=yes"},
			0,
		},
		{
			"no Landlock, and a plugin that needs it", func(n *node) { n.landlock, n.plugins = 0, strict },
			doctor.Finding{Check: doctor.Landlock, Result: doctor.Problem, What: "cannot start: tight", Where: "/sys/kernel/security/lsm", Value: "capability,landlock,apparmor", Mend: "lsm="},
			1,
		},
		{
			"no Landlock", func(n *node) { n.landlock = 0 },
			doctor.Finding{Check: doctor.Landlock, Result: doctor.Warning, What: "the kernel has no Landlock", Where: "/sys/kernel/security/lsm", Value: "capability,landlock,apparmor", Mend: "lsm="},
			0,
		},
		{
			"an old Landlock", func(n *node) { n.landlock = 4 },
			doctor.Finding{Check: doctor.Landlock, Result: doctor.Warning, What: "no scopes before version 6", Where: "kernel", Value: "version 4", Mend: "6.12"},
			0,
		},
		{
			"no seccomp, and a manifest that chose a profile", func(n *node) {
				n.plugins = strict
				n.write("proc/sys/kernel/seccomp/actions_avail", "")
			},
			doctor.Finding{Check: doctor.Seccomp, Result: doctor.Problem, What: "of: tight", Where: "/proc/sys/kernel/seccomp/actions_avail", Mend: "CONFIG_SECCOMP_FILTER"},
			1,
		},
		{
			"no seccomp", func(n *node) { n.write("proc/sys/kernel/seccomp/actions_avail", "") },
			doctor.Finding{Check: doctor.Seccomp, Result: doctor.Warning, What: "every system call", Where: "/proc/sys/kernel/seccomp/actions_avail", Mend: "CONFIG_SECCOMP_FILTER"},
			0,
		},
		{
			"a containerd with a known fault", func(n *node) { n.live.Version = "v2.3.0-rc.1" },
			doctor.Finding{Check: doctor.Runtime, Result: doctor.Warning, What: "ignores it in silence", Where: "/var/run/nri/nri.sock", Value: "containerd v2.3.0-rc.1", Mend: "another version"},
			0,
		},
		{
			"a containerd without NRI", func(n *node) { n.live.Version = "1.6.20~ds1" },
			doctor.Finding{Check: doctor.Runtime, Result: doctor.Problem, What: "has no NRI", Where: "/var/run/nri/nri.sock", Value: "containerd 1.6.20~ds1", Mend: "containerd 2"},
			1,
		},
		{
			"CRI-O", func(n *node) { n.live.Runtime, n.live.Version = "cri-o", "1.34.0" },
			doctor.Finding{Check: doctor.Runtime, Result: doctor.Warning, What: "CRI-O fails", Where: "/var/run/nri/nri.sock", Value: "cri-o 1.34.0", Mend: "nothing"},
			0,
		},
		{
			"validation without an NRI that has it", func(n *node) { n.config += "runtime: {validate: true}\n"; n.live.NRIVersion = "v0.9.0" },
			doctor.Finding{Check: doctor.Runtime, Result: doctor.Problem, What: "runtime.validate is on", Where: "/var/run/nri/nri.sock", Value: "containerd v2.4.2, NRI v0.9.0", Mend: "NRI 0.10"},
			1,
		},
		{
			"a runtime that requires a hosted plugin", func(n *node) {
				n.write("etc/containerd/config.toml", nriTable+"[plugins.\"io.containerd.nri.v1.nri\".default_validator]\nenable = true\nrequired_plugins = [\"gpu-env\", \"other\"]\n")
			},
			doctor.Finding{Check: doctor.Required, Result: doctor.Problem, What: "containerd requires plugin gpu-env", Where: "/etc/containerd/config.toml:4", Value: "gpu-env", Mend: "require nri-supervisor there"},
			1,
		},
		{
			"two supervisors", func(n *node) {
				n.sockets = map[string]string{"/etc/other.yaml": "/run/nri/nri.sock"}
				n.supervisor(91, "/opt/nri-supervisor", "run", "--config=/etc/other.yaml")
			},
			doctor.Finding{Check: doctor.Supervisors, Result: doctor.Problem, What: "2 supervisors want this runtime", Where: "/var/run/nri/nri.sock", Value: "91 (/opt/nri-supervisor run --config=/etc/other.yaml)", Mend: "stop all but one"},
			1,
		},
		{
			"a second one that the runtime has started", func(n *node) { n.supervisor(91, "/opt/nri/plugins/50-nri-supervisor") },
			doctor.Finding{Check: doctor.Supervisors, Result: doctor.Problem, What: "2 supervisors want this runtime", Where: "/var/run/nri/nri.sock", Value: "91 (/opt/nri/plugins/50-nri-supervisor)", Mend: "stop all but one"},
			1,
		},
		{
			"one that waits for another", func(n *node) { n.live.Connected, n.live.Reason, n.live.Why = false, "taken", "held" },
			doctor.Finding{Check: doctor.Supervisors, Result: doctor.Problem, What: "another supervisor serves this runtime", Where: "/var/run/nri/nri.sock", Mend: "stop one of them"},
			1,
		},
		{
			"no supervisor", func(n *node) { n.alone(); n.live.Hint = "start it" },
			doctor.Finding{Check: doctor.Service, Result: doctor.Problem, What: "does not answer, so no plugin is hosted", Where: "/run/nri-supervisor/admin.sock", Mend: "start it"},
			1,
		},
		{
			"a supervisor that does not answer this user", func(n *node) {
				n.live = doctor.Live{Denied: true, Silent: "permission denied", Connected: true, Runtime: "containerd", Version: "v2.4.2"}
			},
			doctor.Finding{Check: doctor.Service, Result: doctor.Unknown, What: "does not answer this user", Where: "/run/nri-supervisor/admin.sock", Mend: "as root"},
			2,
		},
		{
			"a supervisor that is not registered", func(n *node) {
				n.live.Connected, n.live.Reason, n.live.Why, n.live.Remedy = false, "refused", "connection refused", "mount its folder"
			},
			doctor.Finding{Check: doctor.Service, Result: doctor.Problem, What: "not registered with the runtime: connection refused", Where: "/var/run/nri/nri.sock", Value: "refused", Mend: "mount its folder"},
			1,
		},
		{
			"a bypass", func(n *node) { n.live.Bypass = true },
			doctor.Finding{Check: doctor.Service, Result: doctor.Warning, What: "a bypass is on", Mend: "bypass --off"},
			0,
		},
		{
			"a manifest that is wrong", func(n *node) { n.plugins = strings.Replace(n.plugins, `"20"`, "20", 1) },
			doctor.Finding{Check: doctor.Configuration, Result: doctor.Problem, What: "20 must be quoted", Where: "plugins.yaml:7", Value: "spec.index", Mend: `index: "20"`},
			1,
		},
		{
			"a configuration that cannot be used", func(n *node) {
				n.err = policy.Problems{{File: "config.yaml", Line: 3, Field: "spec.runDir", Message: "no path", Remedy: "write one"}}
			},
			doctor.Finding{Check: doctor.Configuration, Result: doctor.Problem, What: "no path", Where: "config.yaml:3", Value: "spec.runDir", Mend: "write one"},
			1,
		},
		{
			"a configuration that cannot be read", func(n *node) { n.err = errors.New("input/output error") },
			doctor.Finding{Check: doctor.Configuration, Result: doctor.Problem, What: "input/output error", Where: "/etc/config.yaml", Mend: "nri-supervisor check"},
			1,
		},
	})
}
