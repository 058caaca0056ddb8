package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// shown is what security says of a manifest with limits on a kernel that has all of Landlock.
func shown(t *testing.T, s policy.SandboxSpec) map[string]freedom {
	t.Helper()
	if s.Profile == "" {
		s.Profile = policy.ProfileStandard
	}
	c, err := confinementOf(false, s)
	if err != nil {
		t.Fatal(err)
	}
	c.Limits = isolation.Limits{Memory: 1 << 30, CPU: 1000, PIDs: 100}
	out := map[string]freedom{}
	for _, f := range freedoms(&c, landlockScopes) {
		out[f.What] = f
	}
	return out
}

func adds(names ...string) policy.CapabilitiesSpec { return policy.CapabilitiesSpec{Add: names} }

func TestWhoCanUndoHisConfinementIsShownAsThatInEachLine(t *testing.T) {
	t.Parallel()
	cgroup := []string{"cgroup", "memory", "processes", "processor", "survivors"}
	all := append([]string{"devices", "disk", "files", "other processes", "other sockets", "runtimes' sockets", "system calls"}, cgroup...)
	slices.Sort(all)
	seen := slices.DeleteFunc(slices.Clone(all), func(what string) bool { return what == "runtimes' sockets" }) // its line tells more
	told := slices.DeleteFunc(slices.Clone(all), func(what string) bool { return what == "files" })             // its line tells of the kernel's settings
	strict := append(slices.Clone(seen), "network")
	for name, tt := range map[string]struct {
		sandbox policy.SandboxSpec
		way     string
		lines   []string
	}{
		"standard":                                {policy.SandboxSpec{}, "", nil},
		"strict":                                  {policy.SandboxSpec{Profile: policy.ProfileStrict}, "", nil},
		"none as root":                            {policy.SandboxSpec{Profile: policy.ProfileNone}, "root without a profile", cgroup},
		"none as nobody":                          {policy.SandboxSpec{Profile: policy.ProfileNone, User: "65534"}, "", nil},
		"mounts":                                  {policy.SandboxSpec{Capabilities: adds("SYS_ADMIN")}, "SYS_ADMIN", nil},
		"modules":                                 {policy.SandboxSpec{Capabilities: adds("SYS_MODULE")}, "SYS_MODULE", all},
		"hardware, as nobody":                     {policy.SandboxSpec{User: "65534", Capabilities: adds("SYS_RAWIO")}, "SYS_RAWIO", all},
		"mounts, which strict's Landlock denies":  {policy.SandboxSpec{Profile: policy.ProfileStrict, Capabilities: adds("SYS_ADMIN")}, "", nil},
		"tracing, which Landlock denies":          {policy.SandboxSpec{Capabilities: adds("SYS_PTRACE")}, "", nil},
		"files by number":                         {policy.SandboxSpec{Capabilities: adds("DAC_READ_SEARCH")}, "DAC_READ_SEARCH", all},
		"files by number, as nobody":              {policy.SandboxSpec{User: "65534", Capabilities: adds("DAC_READ_SEARCH")}, "", nil},
		"network settings":                        {policy.SandboxSpec{Capabilities: adds("NET_ADMIN", "SYS_TIME", "SYS_BOOT", "SYS_NICE")}, "", nil},
		"another place of the root":               {policy.SandboxSpec{ReadWritePaths: []string{"/proc/self/root"}}, "/proc/self/root", all},
		"cgroups":                                 {policy.SandboxSpec{ReadWritePaths: []string{"/sys/fs/cgroup"}}, "/sys/fs/cgroup", cgroup},
		"some cgroups":                            {policy.SandboxSpec{ReadWritePaths: []string{"/sys/fs/cgroup/unified/x"}}, "/sys/fs/cgroup/unified/x", cgroup},
		"cgroups, as nobody":                      {policy.SandboxSpec{User: "65534", ReadWritePaths: []string{"/sys/fs/cgroup"}}, "", nil},
		"cgroups, as who becomes root":            {policy.SandboxSpec{User: "65534", Capabilities: adds("SETUID"), ReadWritePaths: []string{"/sys/fs/cgroup"}}, "/sys/fs/cgroup", cgroup},
		"cgroups, as strict":                      {policy.SandboxSpec{Profile: policy.ProfileStrict, ReadWritePaths: []string{"/sys/fs/cgroup"}}, "", nil},
		"above cgroups":                           {policy.SandboxSpec{ReadWritePaths: []string{"/sys/fs"}}, "/sys/fs", cgroup},
		"monitoring of caches":                    {policy.SandboxSpec{ReadWritePaths: []string{"/sys/fs/resctrl"}}, "", nil},
		"all of sys":                              {policy.SandboxSpec{ReadWritePaths: []string{"/sys"}}, "/sys", all},
		"proc":                                    {policy.SandboxSpec{ReadWritePaths: []string{"/proc"}}, "/proc", all},
		"core_pattern":                            {policy.SandboxSpec{ReadWritePaths: []string{"/proc/sys/kernel/core_pattern"}}, "/proc/sys/kernel/core_pattern", all},
		"settings of the network":                 {policy.SandboxSpec{ReadWritePaths: []string{"/proc/sys/net"}}, "", nil},
		"the root folder, which adds nothing":     {policy.SandboxSpec{ReadWritePaths: []string{"/"}}, "", nil},
		"the root folder, for root as strict":     {policy.SandboxSpec{Profile: policy.ProfileStrict, User: "0", ReadWritePaths: []string{"/"}}, "/", append(slices.Clone(strict), "runtimes' sockets")},
		"settings of the host":                    {policy.SandboxSpec{ReadWritePaths: []string{"/etc"}}, "/etc", all},
		"cron":                                    {policy.SandboxSpec{ReadWritePaths: []string{"/etc/cron.d/x"}}, "/etc/cron.d/x", all},
		"something of its own":                    {policy.SandboxSpec{ReadWritePaths: []string{"/etc/cdi", "/run/cdi", "/opt/x", "/srv"}}, "", nil},
		"programs":                                {policy.SandboxSpec{ReadWritePaths: []string{"/usr/local/bin"}}, "/usr/local/bin", all},
		"programs that it may only read":          {policy.SandboxSpec{ReadOnlyPaths: []string{"/usr"}, ReadWritePaths: []string{"/usr/bin"}}, "/usr/bin", all},
		"a part of what it may only read":         {policy.SandboxSpec{ReadOnlyPaths: []string{"/data"}, ReadWritePaths: []string{"/data/x"}}, "", nil},
		"all devices":                             {policy.SandboxSpec{ReadWritePaths: []string{"/dev"}}, "/dev", all},
		"what appears later in /run":              {policy.SandboxSpec{ReadWritePaths: []string{"/run"}}, "/run", seen},
		"a runtime's socket":                      {policy.SandboxSpec{ReadOnlyPaths: []string{"/run/containerd"}}, "/run/containerd", seen},
		"a runtime's socket, as nobody's":         {policy.SandboxSpec{Profile: policy.ProfileStrict, ReadOnlyPaths: []string{"/run/docker.sock"}}, "", nil},
		"a runtime's socket, as one of its group": {policy.SandboxSpec{Profile: policy.ProfileStrict, SupplementalGroups: []string{"4000"}, ReadOnlyPaths: []string{"/run/docker.sock"}}, "/run/docker.sock", strict},
		"cgroups and proc, of which the worse is": {policy.SandboxSpec{ReadWritePaths: []string{"/sys/fs/cgroup", "/proc"}}, "/proc", told},
		"limits and files":                        {policy.SandboxSpec{Capabilities: adds("SYS_RESOURCE", "MKNOD", "SETUID", "SETGID")}, "", nil},
	} {
		list := shown(t, tt.sandbox)
		var lines []string
		for what, f := range list {
			if tt.way != "" && strings.HasSuffix(f.May, "("+tt.way+")") && what != "user" {
				lines = append(lines, what)
			}
			if tt.way == "" && strings.Contains(f.May, "but it can") {
				t.Errorf("%s: %s", name, f.May)
			}
			if f.Exposure != exposed && slices.Contains(tt.lines, what) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		slices.Sort(lines)
		slices.Sort(tt.lines)
		if tt.way == "SYS_ADMIN" { // its line on other processes tells more
			tt.lines = slices.DeleteFunc(slices.Clone(all), func(what string) bool { return what == "other processes" })
		}
		if diff := cmp.Diff(tt.lines, lines); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if f := shown(t, policy.SandboxSpec{Profile: policy.ProfileNone, Network: policy.NetworkNone})["network"]; f.Exposure == sealed {
		t.Errorf("an empty network that root can leave is shown as %+v", f)
	}
}

func TestWhatAManifestGivesIsShown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sandbox  policy.SandboxSpec
		line     string
		exposure exposure
		words    []string
	}{
		"the supervisor's user":       {policy.SandboxSpec{}, "user", exposed, []string{"the supervisor's"}},
		"a user and groups":           {policy.SandboxSpec{User: "65534", Group: "0", SupplementalGroups: []string{"4006", "4042"}}, "user", exposed, []string{"65534, group 0 (root)", "groups 4006 4042"}},
		"a user that is nobody":       {policy.SandboxSpec{User: "65534"}, "user", limited, []string{"65534"}},
		"groups without a user":       {policy.SandboxSpec{SupplementalGroups: []string{"4006"}}, "user", exposed, []string{"root, ", "groups 4006"}},
		"a user that becomes another": {policy.SandboxSpec{User: "65534", Capabilities: adds("SETUID")}, "user", exposed, []string{"any other, root too (SETUID)"}},
		"a user that enters groups":   {policy.SandboxSpec{Profile: policy.ProfileStrict, Capabilities: adds("SETGID")}, "user", exposed, []string{"any other group, root's too (SETGID)"}},
		"none":                        {policy.SandboxSpec{Profile: policy.ProfileNone}, "capabilities", exposed, []string{"all of the supervisor's"}},
		"none as nobody":              {policy.SandboxSpec{Profile: policy.ProfileNone, User: "65534"}, "capabilities", limited, []string{"none, but for", "setuid"}},
		"none as nobody survives":     {policy.SandboxSpec{Profile: policy.ProfileNone, User: "65534"}, "survivors", limited, []string{"but for what setuid programs"}},
		"the usual capabilities":      {policy.SandboxSpec{}, "capabilities", limited, []string{"CHOWN, DAC_OVERRIDE, FOWNER, FSETID"}},
		"a harmless one":              {policy.SandboxSpec{Profile: policy.ProfileStrict, Capabilities: adds("NET_BIND_SERVICE")}, "capabilities", limited, []string{"NET_BIND_SERVICE"}},
		"those of an empty network":   {policy.SandboxSpec{Profile: policy.ProfileStrict, Network: policy.NetworkNone, Capabilities: adds("NET_RAW")}, "capabilities", limited, []string{"NET_RAW"}},
		"rlimits":                     {policy.SandboxSpec{Capabilities: adds("SYS_RESOURCE")}, "limits of each process", limited, []string{"SYS_RESOURCE"}},
		"proc":                        {policy.SandboxSpec{ReadWritePaths: []string{"/proc"}}, "files", exposed, []string{"may write to /proc, but it can undo that"}},
		"network settings":            {policy.SandboxSpec{ReadWritePaths: []string{"/proc/sys/net"}}, "files", exposed, []string{"the kernel's settings"}},
		"monitoring of caches":        {policy.SandboxSpec{ReadWritePaths: []string{"/sys/fs/resctrl"}}, "files", limited, []string{"may write to /sys/fs/resctrl"}},
		"strict without a network":    {policy.SandboxSpec{Profile: policy.ProfileStrict, Network: policy.NetworkNone}, "other sockets", limited, []string{"in /dev, /etc, /usr that", "to no others"}},
		"strict with a list":          {policy.SandboxSpec{Profile: policy.ProfileStrict, ReadOnlyPaths: []string{"/srv/x"}}, "other sockets", limited, []string{"/usr, /srv/x that"}},
		"what appears later in /run":  {policy.SandboxSpec{User: "65534", ReadWritePaths: []string{"/run"}}, "runtimes' sockets", exposed, []string{"hidden, but for /run"}},
		"what appears, to be read":    {policy.SandboxSpec{Profile: policy.ProfileStrict, ReadOnlyPaths: []string{"/run"}}, "runtimes' sockets", sealed, []string{"hidden"}},
	} {
		f := shown(t, tt.sandbox)[tt.line]
		if f.Exposure != tt.exposure {
			t.Errorf("%s is shown as %+v", name, f)
		}
		for _, word := range tt.words {
			if !strings.Contains(f.May, word) {
				t.Errorf("%s: %q without %q", name, f.May, word)
			}
		}
	}
	if f := shown(t, policy.SandboxSpec{ReadWritePaths: []string{"/"}})["files"]; strings.Contains(f.May, "may write") {
		t.Errorf("the root folder, which adds nothing: %s", f.May)
	}
}

func TestEachCapabilityIsAMasterKeyWithAWordOrKnownToBeNone(t *testing.T) {
	t.Parallel()
	bounded := []string{
		"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", // files, which the profile's mounts and rules bound
		"NET_BIND_SERVICE", "NET_BROADCAST", "IPC_LOCK", "IPC_OWNER", "SYS_CHROOT", "LEASE", "AUDIT_WRITE", "AUDIT_READ", "WAKE_ALARM", "BLOCK_SUSPEND",
	}
	for _, name := range isolation.Capabilities() {
		gives, isKey := masterKeys()[name]
		if isKey == slices.Contains(bounded, name) || isKey && gives == "" {
			t.Errorf("%s: is a key %v, gives %q", name, isKey, gives)
		}
		f := shown(t, policy.SandboxSpec{Capabilities: adds(name)})["capabilities"]
		if (f.Exposure == exposed) != isKey {
			t.Errorf("%s is shown as %+v", name, f)
		}
	}
}
