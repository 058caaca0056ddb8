package isolation

import (
	"fmt"
	"slices"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// deniedCall are system calls that no plugin needs, unless it was granted the capability that they are made for.
type deniedCalls struct {
	unless int // the number of a capability; -1: none allows them
	names  []string
}

// denied is the filter. The calls are those with which root changes the whole machine, looks into other processes, leaves
// its namespaces, or reaches rarely used parts of the kernel; compare the default filter of container runtimes.
func denied() []deniedCalls {
	return []deniedCalls{
		{unix.CAP_SYS_ADMIN, []string{
			"mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr",
			"setns", "unshare", "sethostname", "setdomainname", "quotactl", "quotactl_fd", "lookup_dcookie", "fanotify_init",
		}},
		{unix.CAP_SYS_MODULE, []string{"init_module", "finit_module", "delete_module", "create_module"}},
		{unix.CAP_SYS_BOOT, []string{"reboot", "kexec_load", "kexec_file_load"}},
		{unix.CAP_SYS_PTRACE, []string{"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"}},
		{unix.CAP_BPF, []string{"bpf"}},
		{unix.CAP_PERFMON, []string{"perf_event_open"}},
		{unix.CAP_SYS_TIME, []string{"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime"}},
		{unix.CAP_SYS_RAWIO, []string{"iopl", "ioperm"}},
		{unix.CAP_SYS_PACCT, []string{"acct"}},
		{unix.CAP_DAC_READ_SEARCH, []string{"open_by_handle_at"}},
		{unix.CAP_SYSLOG, []string{"syslog"}},
		{unix.CAP_SYS_TTY_CONFIG, []string{"vhangup"}},
		{-1, []string{
			"swapon", "swapoff", "nfsservctl", "add_key", "request_key", "keyctl", "userfaultfd", "modify_ldt", "uselib", "ustat", "sysfs",
			"_sysctl", "io_setup", "io_uring_setup", "io_uring_enter", "io_uring_register", "get_kernel_syms", "query_module", "vm86", "vm86old",
		}},
	}
}

// newNamespaces are the flags of clone(2) that make one: in a user namespace of its own a plugin would hold every capability again.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// families are those of sockets that plugins use, socket(2). Many others are rarely used parts of the kernel, and some, such as that of virtual machines,
// belong to no network: who has none would have them.
func families() []uint64 {
	return []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET}
}

// deniedUses are calls that only some uses of are denied: new namespaces, children of the supervisor's, sockets of rare families, and those with which one process of root throttles another, which needs no capability.
// A process that names itself passes 0.
func deniedUses(granted capSet) []seccomp.NameWithConditions {
	use := func(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: conditions}
	}
	given := func(argument uint32) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: seccomp.NotEqual, Value: 0}
	}
	// A child of the supervisor's that it knows nothing of would stay a zombie for as long as it runs.
	out := []seccomp.NameWithConditions{use("clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_PARENT})}
	if !granted.has(unix.CAP_NET_ADMIN) {
		var others []seccomp.Condition
		for _, family := range families() {
			others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
		}
		out = append(out, use("socket", others...))
	}
	if !granted.has(unix.CAP_SYS_ADMIN) {
		out = append(out, use("clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsSet, Value: newNamespaces}))
	}
	if !granted.has(unix.CAP_SYS_RESOURCE) {
		out = append(out, use("prlimit64", given(0), given(2))) // without a new limit it only reads
	}
	if !granted.has(unix.CAP_SYS_NICE) {
		for _, name := range []string{"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"} {
			out = append(out, use(name, given(0)))
		}
		const process, ioProcess = 0, 1 // PRIO_PROCESS of setpriority(2) and IOPRIO_WHO_PROCESS of ioprio_set(2); others name groups and users
		for name, which := range map[string]uint64{"setpriority": process, "ioprio_set": ioProcess} {
			out = append(out, use(name, given(1)), use(name, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: which}))
		}
	}
	return out
}

// filterCalls installs the filter on this thread. A denied call fails with EPERM.
func filterCalls(granted capSet) error {
	native, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	var names []string
	for _, d := range denied() {
		if d.unless >= 0 && granted.has(d.unless) {
			continue
		}
		for _, name := range d.names {
			if _, ok := native.SyscallNames[name]; ok { // not each architecture has each
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	namespaces := granted.has(unix.CAP_SYS_ADMIN)
	denied := seccomp.SyscallGroup{Names: names, NamesWithCondtions: deniedUses(granted), Action: seccomp.ActionErrno}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{denied}}
	body, err := policy.Assemble()
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	// The library lets calls of other architectures through, and 32 bit ones would be a way around the filter.
	const offsetOfCall, offsetOfArch, word = 0, 4, 4 // in struct seccomp_data, seccomp(2)
	unknown := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	head := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetOfArch, Size: word},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(native.ID), SkipTrue: 1},
		unknown,
	}
	if !namespaces {
		// What clone3 is asked for lies in memory, where no filter can look. Who is told that there is none uses clone.
		head = append(head, bpf.LoadAbsolute{Off: offsetOfCall, Size: word}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE3, SkipFalse: 1}, unknown)
	}
	raw, err := bpf.Assemble(append(head, body...))
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}                                              //nolint:gosec // some hundred
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // seccomp takes a pointer
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
