package isolation

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// treeRecord is the file in the run directory that says where the cgroups are, for a supervisor that is started elsewhere.
	treeRecord = "cgroups"
	// maxRecord bounds what is read of it: a few paths.
	maxRecord = 64 << 10
)

// EndRest ends what a killed process with a Host has left of its plugins in a run directory, as far as it was in a cgroup, and empties the directory. The directory may be somebody else's work: no link
// in there is followed, nothing is written, and of the cgroups only those are touched that have the name which belongs to this very directory. An error says that it is in use, or that its guardians
// are still about to end what is left; then it stays as it is. The caller closes it.
func EndRest(runDir *os.File) error {
	name, err := treeName(runDir)
	if err != nil {
		return err
	}
	lock, err := lockDirAt(int(runDir.Fd()), ".") // let go with the end of this function
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // read only
	switch guardians, err := lockGuardian(runDir, unix.LOCK_EX, 0); {
	case err == nil:
		defer func() { _ = guardians.Close() }() // nothing was written
	case errors.Is(err, unix.EWOULDBLOCK):
		return err
	default: // there were none yet, or what is there is no file of theirs
	}
	emptyRecorded(runDir, name)
	return emptyFolder(runDir)
}

// sweepPlugins removes the directories of dead incarnations in a run directory. It follows no link.
func sweepPlugins(runDir *os.File) error {
	plugins, err := openFolder(int(runDir.Fd()), "plugins")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep directory %q: %w", filepath.Join(runDir.Name(), "plugins"), err)
	}
	defer func() { _ = plugins.Close() }() // read only
	names, err := plugins.Readdirnames(-1)
	errs := []error{err}
	for _, name := range names {
		plugin, err := openFolder(int(plugins.Fd()), name)
		switch {
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
			continue // none of ours
		case err == nil:
			err = errors.Join(sweep(plugin), plugin.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// writeRecord writes the record anew: what was there, also a link or another name of some file, is replaced.
func writeRecord(runDir *os.File, bases []string) error {
	if err := removeRecord(runDir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("write the record of cgroups: %w", err)
	}
	fd, err := unix.Openat(int(runDir.Fd()), treeRecord, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write the record of cgroups: %w", err)
	}
	f := os.NewFile(uintptr(fd), filepath.Join(runDir.Name(), treeRecord))
	_, err = f.WriteString(strings.Join(bases, "\n"))
	return errors.Join(err, f.Close())
}

func removeRecord(runDir *os.File) error { return unix.Unlinkat(int(runDir.Fd()), treeRecord, 0) }

// readRecord reads what writeRecord wrote; of anything else than a file, nothing.
func readRecord(runDir *os.File) []string {
	fd, err := unix.Openat(int(runDir.Fd()), treeRecord, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), treeRecord)
	defer func() { _ = f.Close() }() // read only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// emptyRecorded empties the cgroups of the last supervisor, which may have been started in another cgroup than this one: those with the name that belongs to the run directory.
func emptyRecorded(runDir *os.File, name string) {
	bases := readRecord(runDir)
	if len(bases) == 0 {
		return
	}
	mounts, err := readFileAndClose("/proc/self/mountinfo", parseCgroupMounts)
	if err != nil {
		return
	}
	for _, base := range bases {
		below := func(m cgroupMount) bool { return within(base, m.point) }
		if filepath.IsAbs(base) && filepath.Clean(base) == base && filepath.Base(base) == name && slices.ContainsFunc(mounts, below) {
			_ = emptyCgroup(base) // the hierarchy may not be mounted any more
		}
	}
}

// emptyCgroup empties what is a cgroup by the kernel's word and at the end of no link.
func emptyCgroup(base string) error {
	above, err := unix.Openat2(unix.AT_FDCWD, filepath.Dir(base), &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(above) }() // a folder
	var st unix.Statfs_t
	if err := unix.Fstatfs(above, &st); err != nil {
		return err
	}
	if kind := uint32(st.Type); kind != unix.CGROUP2_SUPER_MAGIC && kind != unix.CGROUP_SUPER_MAGIC { //nolint:gosec // 32 bits, of which some architectures make a signed number
		return fmt.Errorf("empty %q: no cgroup", base)
	}
	return emptyTree(fmt.Sprintf("/proc/self/fd/%d/%s", above, filepath.Base(base)))
}
