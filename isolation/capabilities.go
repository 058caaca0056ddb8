package isolation

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// capPrefix begins the kernel's names of capabilities; manifests may leave it out.
const capPrefix = "CAP_"

// Capabilities lists the names of all capabilities, without CAP_, in the kernel's order; the index of each is its number in
// capabilities(7).
func Capabilities() []string {
	return []string{
		"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
		"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
		"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
		"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
		"PERFMON", "BPF", "CHECKPOINT_RESTORE",
	}
}

// capSet is a set of capabilities: bit n is number n.
type capSet uint64

// parseCapabilities makes a set of names.
func parseCapabilities(names []string) (capSet, error) {
	var set capSet
	for _, name := range names {
		n := slices.Index(Capabilities(), strings.TrimPrefix(name, capPrefix))
		if n < 0 {
			return 0, fmt.Errorf("check capability %q: no such capability", name)
		}
		set |= 1 << n
	}
	return set, nil
}

func (s capSet) has(n int) bool { return s&(1<<n) != 0 }

// dropBounding takes everything that is not in the set from the bounding set, so that no execution can gain it. A capability
// that the kernel does not know ends the list.
func (s capSet) dropBounding() error {
	for n := range 64 {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if err != nil {
			return nil //nolint:nilerr // n is beyond the last one
		}
		if s.has(n) || held == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d from the bounding set: %w", n, err)
		}
	}
	return nil
}

// holds returns the capabilities that this thread may use at most.
func holds() (capSet, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return capSet(data[0].Permitted) | capSet(data[1].Permitted)<<32, nil
}

// take makes the set this thread's permitted and effective one. keep makes it survive an execution by a user who is not
// root: it becomes inheritable and ambient.
func (s capSet) take(keep bool) error {
	low, high := uint32(s&0xffffffff), uint32(s>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	if keep {
		data[0].Inheritable, data[1].Inheritable = low, high
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	for n := range Capabilities() {
		if !keep || !s.has(n) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(n), 0, 0); err != nil {
			return fmt.Errorf("raise ambient capability %s: %w", Capabilities()[n], err)
		}
	}
	return nil
}

func (s capSet) names() []string {
	var out []string
	for n, name := range Capabilities() {
		if s.has(n) {
			out = append(out, name)
		}
	}
	return out
}
