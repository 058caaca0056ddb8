package isolation

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Resource is what one limit of setrlimit(2) bounds. It is a closed set; open files have Confinement.NoFile, since they have a
// default, and core dumps are always off.
type Resource string

// The resources, by their names in setrlimit(2) in lower case.
const (
	AddressSpace   Resource = "as"
	DataSegment    Resource = "data"
	FileSize       Resource = "fsize"
	LockedMemory   Resource = "memlock"
	MessageQueues  Resource = "msgqueue"
	UserProcesses  Resource = "nproc"
	PendingSignals Resource = "sigpending"
	StackSize      Resource = "stack"
)

// String returns the name.
func (r Resource) String() string { return string(r) }

// number is the kernel's; ok is false for what is not in the set.
func (r Resource) number() (n int, ok bool) {
	switch r {
	case AddressSpace:
		return unix.RLIMIT_AS, true
	case DataSegment:
		return unix.RLIMIT_DATA, true
	case FileSize:
		return unix.RLIMIT_FSIZE, true
	case LockedMemory:
		return unix.RLIMIT_MEMLOCK, true
	case MessageQueues:
		return unix.RLIMIT_MSGQUEUE, true
	case UserProcesses:
		return unix.RLIMIT_NPROC, true
	case PendingSignals:
		return unix.RLIMIT_SIGPENDING, true
	case StackSize:
		return unix.RLIMIT_STACK, true
	default:
		return 0, false
	}
}

// RLimit bounds a resource, as soft and hard limit, in the unit of setrlimit(2): bytes, processes or signals.
type RLimit struct {
	Resource Resource
	Value    uint64
}

// checkRLimits refuses resources that do not exist, those that are named twice, and a limit that would not hold: who names it is told, and
// the plugin never runs without it.
func (c *Confinement) checkRLimits() error {
	var seen []Resource
	for _, l := range c.RLimits {
		if _, ok := l.Resource.number(); !ok || slices.Contains(seen, l.Resource) {
			return fmt.Errorf("check limit %q: not a resource, or named twice", l.Resource)
		}
		if l.Resource == UserProcesses && (c.rootUser() || c.holds("SYS_ADMIN") || c.holds("SYS_RESOURCE")) {
			return fmt.Errorf("check limit %q: the kernel does not bound the processes of root, SYS_ADMIN and SYS_RESOURCE: limit pids, or set a user", l.Resource)
		}
		if l.Resource == LockedMemory && c.holds("IPC_LOCK") {
			return fmt.Errorf("check limit %q: the kernel does not bound what IPC_LOCK locks: drop that capability", l.Resource)
		}
		seen = append(seen, l.Resource)
	}
	return nil
}

// rootUser tells whether the plugin runs as root, if this process does.
func (c *Confinement) rootUser() bool { return !c.OwnUser && (c.User == nil || c.User.UID == 0) }

// holds tells whether the plugin may hold a capability, given by its name without CAP_.
func (c *Confinement) holds(name string) bool {
	if !c.CutCapabilities {
		return c.rootUser() // another user loses all
	}
	return slices.Contains(c.Capabilities, name) || slices.Contains(c.Capabilities, "CAP_"+name)
}

// raiseLimits lets the hard limits reach what the order says, which only a privileged process can. The soft ones stay: this process, which
// is larger than the plugin may be, has work to do.
func (o *order) raiseLimits() error {
	for _, l := range o.RLimits {
		n, _ := l.Resource.number()
		var now unix.Rlimit
		if err := unix.Getrlimit(n, &now); err != nil {
			return fmt.Errorf("read limit %s: %w", l.Resource, err)
		}
		if now.Max >= l.Value {
			continue
		}
		now.Max = l.Value
		if err := unix.Setrlimit(n, &now); err != nil {
			return fmt.Errorf("set limit %s to %d: %w: the supervisor's own is lower", l.Resource, l.Value, err)
		}
	}
	return nil
}

// lowerLimits sets the limits. It is the last thing before the execution: memory may be short from here on.
func (o *order) lowerLimits() error {
	for _, l := range o.RLimits {
		n, _ := l.Resource.number()
		if err := unix.Setrlimit(n, &unix.Rlimit{Cur: l.Value, Max: l.Value}); err != nil {
			return fmt.Errorf("set limit %s to %d: %w", l.Resource, l.Value, err)
		}
	}
	return nil
}
