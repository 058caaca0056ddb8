package isolation

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Versions of Landlock's interface, landlock(7), that brought what is used here.
const (
	landlockRefer    = 2
	landlockTruncate = 3
	landlockIoctl    = 5
	landlockScopes   = 6
)

const (
	accessReadFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	accessRead     = accessReadFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// accessFile are the rights that a rule on a file, not a folder, may have.
	accessFile = accessReadFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// accessAll is everything that version 1 knows.
	accessAll = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
)

// Landlock is the version of Landlock's interface that the kernel has, 0 if it has none or does not allow it. Safe for concurrent use.
func Landlock() int { return landlockVersion() }

// landlockVersion is the kernel's, 0 if it has no Landlock.
func landlockVersion() int {
	n, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// handled are all rights on files that this version knows.
func handled(version int) uint64 {
	var all uint64 = accessAll
	if version >= landlockRefer {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= landlockTruncate {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= landlockIoctl {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// landlock restricts this thread: to the files of the order, if it confines any; and, if it shields the others, from signals to
// them, their memory and their abstract sockets. What is missing is returned if the kernel cannot shield.
func (o *order) landlock() (missing string, err error) {
	version := landlockVersion()
	if version == 0 {
		if o.ConfineFiles {
			return "", errors.New("confine files: the kernel has no Landlock: it needs Linux 5.13 with landlock among its LSMs")
		}
		return "other processes are not shielded: the kernel has no Landlock", nil
	}
	var attr unix.LandlockRulesetAttr
	rules := o.Rules
	if o.ConfineFiles {
		attr.Handled_access_fs = handled(version)
	}
	switch {
	case !o.Shield:
	case version >= landlockScopes:
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	case o.ConfineFiles:
		missing = noScopes
	case version >= landlockRefer:
		// Whatever the rules are, who is under Landlock cannot look into processes that are not. This rule denies nothing.
		missing = noScopes
		attr.Handled_access_fs = unix.LANDLOCK_ACCESS_FS_REFER
		rules = []fileRule{{Path: "/", Write: true}}
	default:
		return "other processes are not shielded: the kernel's Landlock is older than that of Linux 5.19", nil
	}
	// Older kernels take a shorter structure: what lies behind is zero, and they say so if it is not.
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0) //nolint:gosec // it takes a pointer
	if errno != 0 {
		return "", fmt.Errorf("create Landlock ruleset: %w", errno)
	}
	ruleset := os.NewFile(fd, "landlock")
	defer func() { _ = ruleset.Close() }()
	if attr.Handled_access_fs != 0 {
		if err := addRules(int(fd), attr.Handled_access_fs, rules, o.settled); err != nil {
			return "", err
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return "", fmt.Errorf("restrict with Landlock: %w", errno)
	}
	return missing, nil
}

// noScopes is what a kernel cannot do whose Landlock has no scopes.
const noScopes = "signals to other processes of the same user, and their abstract sockets, are not denied: the kernel's Landlock is older than that of Linux 6.12"

// addRules allows what the rules list. What the system part of them lists need not exist.
func addRules(ruleset int, all uint64, rules []fileRule, settled map[string]string) error {
	allow := func(fd int, rights uint64) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= accessFile
		}
		if rights&all == 0 {
			return nil // a rule that allows nothing is refused
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: rights & all, Parent_fd: int32(fd)} //nolint:gosec // a descriptor
		_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0) //nolint:gosec // it takes a pointer
		if errno != 0 {
			return errno
		}
		return nil
	}
	for _, r := range rules {
		rights := uint64(accessRead)
		if r.Write {
			rights = all
		}
		var fd int
		var err error
		if target, ok := settled[r.Path]; ok { // it is shown there: nothing that leads elsewhere by now
			fd, err = openPlace(target)
		} else {
			fd, err = unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		if err == nil {
			err = errors.Join(allow(fd, rights), unix.Close(fd))
		}
		if err != nil && (!r.System || !errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("allow %q: %w", r.Path, err)
		}
	}
	// A copy in memory is nobody's to deny: Landlock has no rules for it.
	if err := allow(stageBinary, accessReadFile); err != nil && !errors.Is(err, unix.EBADFD) {
		return fmt.Errorf("allow the program itself: %w", err)
	}
	return nil
}
