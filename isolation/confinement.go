package isolation

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
)

// Part is a part of a Confinement that a host may be unable to apply. It is a closed set.
type Part string

const (
	// PartCgroup is Confinement.Cgroup.
	PartCgroup Part = "cgroup"
	// PartCapabilities is Confinement.CutCapabilities.
	PartCapabilities Part = "capabilities"
	// PartSeccomp is Confinement.Seccomp.
	PartSeccomp Part = "seccomp"
	// PartShield is Confinement.Shield.
	PartShield Part = "shield"
	// PartMounts are Hide, PrivateTmp and Protect.
	PartMounts Part = "mounts"
)

// String returns the name of the part as it appears in logs.
func (p Part) String() string { return string(p) }

// Confinement says what one incarnation may use and do. The zero value adds nothing to what each incarnation gets without a
// Host. Whatever is set is applied before the plugin's first instruction, or the plugin does not start.
type Confinement struct {
	// Optional are the parts without which the incarnation may start if this host cannot apply them; Instance.Reduced names
	// them. They are for a profile that nobody asked for.
	Optional []Part

	// Cgroup puts the process into a cgroup of its own, so that nothing of it survives. Limits imply it.
	Cgroup bool
	// Limits bound memory, CPU and the number of processes.
	Limits Limits
	// NoFile is the number of files that each process may have open, soft and hard limit. 0: a soft limit of 1024, as
	// systemd has it, below the inherited hard one.
	NoFile uint64
	// RLimits are further limits of each process, each resource at most once.
	RLimits []RLimit
	// OOMScore is added to the supervisor's own oom_score_adj, so that the plugin is the first to go. 0 to 1000.
	OOMScore int

	// User is who it runs as; nil: as the supervisor does.
	User *User
	// OwnUser gives it a user and a group of its own, which nothing else on this host has. User must be nil.
	OwnUser bool
	// OwnGroups take the place of the groups that OwnUser gives, and need it; nil: a group of its own and no others.
	OwnGroups *Groups
	// CutCapabilities leaves it the Capabilities and no others, now and after whatever it executes.
	CutCapabilities bool
	// Capabilities are names, with or without CAP_.
	Capabilities []string
	// Required are those of the Capabilities that it must get; of the others it gets what the supervisor has itself.
	Required []string
	// NoNewPrivs keeps setuid programs and file capabilities from having an effect, prctl(2).
	NoNewPrivs bool
	// Seccomp denies the system calls that no plugin needs; see docs/isolation.md for the list. It implies NoNewPrivs.
	Seccomp bool
	// Shield denies signals to processes that are not its own, looking into them, and their abstract sockets. It implies
	// NoNewPrivs. It is no part of it with SYS_ADMIN: Landlock would deny all mounts.
	Shield bool
	// NoNetwork gives it a network without any device but loopback.
	NoNetwork bool

	// Hide are folders and files that it sees empty. Those that do not exist at its start are left out, and stay hidden where FrozenBelow says so. The
	// run directory belongs in here: its own part of it stays visible.
	Hide []string
	// PrivateTmp are temporary folders of which it gets its own, empty and bounded ones.
	PrivateTmp []string
	// Protect are paths that it cannot write to, and neither can it move a folder above them away, or write to the root folder itself.
	Protect []string
	// NoDevices lets it open no device but null, zero, full and random ones, and those of the lists. Their files stay visible.
	NoDevices bool
	// ConfineFiles lets it use the system's files, its own directory and its private temporary ones, and the lists, and
	// nothing else; of what lies outside of these it sees nothing, so that there are no sockets. It implies NoNewPrivs.
	ConfineFiles bool
	// ReadOnly and ReadWrite are paths that it can use although a rule above says otherwise. They must exist. What the host mounts later is seen
	// below them only, if any of Hide, PrivateTmp, Protect and NoDevices is set.
	ReadOnly, ReadWrite []string
	// Written are the paths that other incarnations can use by their ReadWrite lists: links in there are not trusted.
	Written []string

	// TrustFile refuses an executable, and an interpreter of a script, if others than root and the supervisor's user can change what its path leads to.
	TrustFile bool
	// Setuid allows executables with setuid or setgid bit, or file capabilities.
	Setuid bool
}

// check says what is wrong with a Confinement.
func (c *Confinement) check(h *Host) error {
	for _, names := range [][]string{c.Capabilities, c.Required} {
		if _, err := parseCapabilities(names); err != nil {
			return err
		}
	}
	if err := c.checkRLimits(); err != nil {
		return err
	}
	for _, path := range slices.Concat(c.Hide, c.PrivateTmp, c.Protect, c.ReadOnly, c.ReadWrite, c.Written) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return fmt.Errorf("check path %q: not a clean absolute path", path)
		}
	}
	switch {
	case c.Limits.Memory < 0 || c.Limits.CPU < 0 || c.Limits.PIDs < 0:
		return errors.New("check limits: below zero")
	case c.NoFile > math.MaxInt32:
		return fmt.Errorf("check limit of open files %d: above %d", c.NoFile, math.MaxInt32)
	case c.OOMScore < 0 || c.OOMScore > maxOOMScore:
		return fmt.Errorf("check OOM score %d: use 0 to %d", c.OOMScore, maxOOMScore)
	case c.User != nil && c.OwnUser:
		return errors.New("check user: a given one and one of its own exclude each other")
	case c.OwnGroups != nil && !c.OwnUser:
		return errors.New("check groups: those beside a user of its own need one: set OwnUser, or the groups of User")
	case h == nil && c.staged():
		return errors.New("check confinement: it needs a Host")
	}
	return nil
}

// staged tells whether the process is executed by the stage: whether there is anything to apply.
func (c *Confinement) staged() bool {
	rest := *c
	rest.Optional, rest.Written, rest.TrustFile, rest.Setuid = nil, nil, false, false
	return !reflect.ValueOf(rest).IsZero()
}

func (c *Confinement) optional(p Part) bool { return slices.Contains(c.Optional, p) }

// limited tells whether a cgroup has to bound something.
func (c *Confinement) limited() bool { return c.Limits != (Limits{}) }

// mounts tells whether the process needs a mount namespace of its own.
func (c *Confinement) mounts() bool {
	return c.NoDevices || len(c.Hide)+len(c.PrivateTmp)+len(c.Protect) > 0
}

// systemPaths are the files that a confined plugin may read and execute: programs, libraries and settings, what the kernel tells.
func systemPaths() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc", "/proc", "/sys", "/dev"}
}

// systemDevices are the devices that it may write to, too.
func systemDevices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}

// rules are what a plugin with confined files may use.
func (c *Confinement) rules(dir string) []fileRule {
	if !c.ConfineFiles {
		return nil
	}
	var out []fileRule
	for _, path := range systemPaths() {
		out = append(out, fileRule{Path: path, System: true})
	}
	for _, path := range slices.Concat(systemDevices(), c.PrivateTmp) {
		out = append(out, fileRule{Path: path, System: true, Write: true})
	}
	for _, path := range c.ReadOnly {
		out = append(out, fileRule{Path: path})
	}
	for _, path := range append([]string{dir}, c.ReadWrite...) {
		out = append(out, fileRule{Path: path, Write: true})
	}
	return out
}

// newLeaf makes the incarnation's cgroup, if it is to have one. reduced says why there is none although the profile has it.
func (h *Host) newLeaf(name string, c *Confinement) (leaf *cgroupLeaf, reduced string, err error) {
	if h == nil || !c.Cgroup && !c.limited() {
		return nil, "", nil
	}
	err = h.treeErr
	if err == nil {
		leaf, err = h.tree.newLeaf(name, c.Limits)
	}
	switch {
	case err == nil:
		return leaf, "", nil
	case c.optional(PartCgroup) && !c.limited():
		return nil, fmt.Sprintf("a cgroup of its own: %v", err), nil
	default:
		return nil, "", fmt.Errorf("a cgroup of its own: %w", err)
	}
}
