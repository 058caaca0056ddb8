package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// newMounts gives this thread a mount namespace of its own, and sees whether this kernel has what is needed in there.
func newMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	_, openat2 := unix.Openat2(-1, "", &unix.OpenHow{})
	_, openTree := unix.OpenTree(-1, "", 0)
	_, fsopen := unix.Fsopen("", 0)
	for name, err := range map[string]error{
		"openat2": openat2, "open_tree": openTree, "fsopen": fsopen, "move_mount": unix.MoveMount(-1, "", -1, "", 0), "mount_setattr": unix.MountSetattr(-1, "", 0, &unix.MountAttr{}),
	} {
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			return fmt.Errorf("make a mount namespace: %s: %w", name, err)
		}
	}
	return nil
}

// lacking tells whether an error of what comes first says that this host does not have it, or does not let us.
func lacking(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL)
}

// remount arranges this thread's mount namespace, in which files are hidden and protected as the order says. What the host mounts later
// arrives below what the manifest lists and nowhere else: it would come with its devices and its sockets. The names of System V's and POSIX's
// objects for communication are the plugin's own as well: they would survive it.
func (o *order) remount() error {
	if err := o.leaveSilent(); err != nil {
		return err
	}
	o.findShared()
	own, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return fmt.Errorf("look at own directory: %w", pathCause(err))
	}
	list, err := o.openShown(own)
	if err != nil {
		return err
	}
	defer closeShown(list)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := uncover(); err != nil {
		return err
	}
	mounts, err := listMounts()
	if err != nil {
		return err
	}
	masks, err := o.masks(mounts)
	if err != nil {
		return err
	}
	frozen := o.levels(mounts, list, masks)
	if err := o.checkShown(list, masks, frozen); err != nil {
		return err
	}
	stay := o.detach(masks, mounts)
	if err := closeKernel(stay); err != nil {
		return err
	}
	below, others := split(list, masks)
	protected, err := o.protect(others, masks, stay)
	if err != nil {
		return err
	}
	if err := o.closeDevices(); err != nil {
		return err
	}
	defer unix.Umask(unix.Umask(0)) // what is made here has the mode that is written here
	if err := cover(masks, below, frozen); err != nil {
		return err
	}
	if err := protectShown(protected, below, mounts); err != nil {
		return err
	}
	for _, m := range masks {
		if slices.ContainsFunc(below, func(s shown) bool { return s.path == m.path }) {
			continue // it is shown after all
		}
		if err := m.seal(); err != nil {
			return err
		}
	}
	// The working directory is still the one below the hidden folder: from there .. leads to what is hidden.
	if err := atPlace(own, enter); err != nil {
		return fmt.Errorf("enter own directory: %w", err)
	}
	return nil
}

// enter makes a place the working directory.
func enter(place int) error { return unix.Fchdir(place) }

// protect makes paths read only, wherever they are mounted, and puts those of the lists into their places, the ones above before those below: the nearest decides.
//
// A folder above a protected or hidden path could be moved away, and another one made in its place, for the host as well: what is a place of a
// mount cannot, so each of these folders becomes one, and so does each folder in the root, which is read only itself, wherever it is mounted.
//
// It returns the paths at which that is so, but for their other places.
func (o *order) protect(list []shown, masks []mask, mounts []mounted) (protected []string, err error) {
	var todo steps
	var kept []string
	for _, path := range o.Protect {
		target, strange, err := o.settle(path)
		if err != nil && !absent(err) {
			if target, err = o.protectNearest(path, err); err != nil {
				return nil, err
			}
		}
		if err == nil && !strange && !slices.Contains(kept, target) { // else nothing is there, or what is no program's own
			kept = append(kept, target)
		}
	}
	named := len(kept)
	kept = append(kept, aliases(kept, list, mounts)...)
	for _, path := range kept {
		todo = append(todo, step{path, func() error { return protectPath(path, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}) }})
	}
	closed := len(kept)
	if len(o.Protect) > 0 {
		for _, path := range roots(kept, list, mounts) {
			kept = append(kept, path)
			todo = append(todo, step{path, func() error { return protectFolder(path) }})
		}
	}
	for _, m := range masks {
		kept = append(kept, m.path)
	}
	if len(o.Protect) > 0 {
		top, err := topFolders()
		if err != nil {
			return nil, err
		}
		for path := range foldersAbove(kept, top) {
			// One that is the place of a mount already may be that of a server that does not answer.
			if !slices.ContainsFunc(mounts, func(m mounted) bool { return m.point == path }) && !slices.ContainsFunc(kept[:closed], func(p string) bool { return within(path, p) }) {
				todo = append(todo, step{path, func() error { return protectPath(path, unix.MountAttr{}) }})
			}
		}
	}
	for _, s := range list {
		todo = append(todo, step{s.path, s.place})
	}
	if err := todo.inDepth(); err != nil {
		return nil, err
	}
	if len(o.Protect) == 0 {
		return nil, nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return nil, fmt.Errorf("protect the root folder: %w", err)
	}
	return kept[:named], nil
}

// aliases are the other places at which protected paths, or what is mounted below them, are mounted, but for those that hold /var/lib: where the whole system is mounted from below a protected folder, as from /sysroot, what
// plugins may write is a part of it. What lies below a protected path is read only with it, unless a list makes a folder in between writable.
func aliases(protected []string, list []shown, mounts []mounted) []string {
	var out []string
	for _, path := range slices.Concat(protected, mountedBelow(protected, mounts)) {
		same, parts := mask{path: path}.elsewhere(mounts)
		for _, place := range slices.Concat(same, parts) {
			if !covered(place, protected, list) && !within("/var/lib", place) && !slices.Contains(protected, place) && !slices.Contains(out, place) {
				out = append(out, place)
			}
		}
	}
	return out
}

// mountedBelow are the places of mounts below protected paths, but for those below /var/lib and /run: runtimes and the kubelet mount there what they have from elsewhere, such as the volumes of pods.
func mountedBelow(protected []string, mounts []mounted) []string {
	var out []string
	for _, m := range mounts {
		if !within(m.point, "/var/lib") && !within(m.point, "/run") && slices.ContainsFunc(protected, func(p string) bool { return p != m.point && within(m.point, p) }) {
			out = append(out, m.point)
		}
	}
	return out
}

// covered tells whether a place is below a protected path, and no list makes it, or a folder above it, writable.
func covered(place string, protected []string, list []shown) bool {
	return slices.ContainsFunc(protected, func(p string) bool { return within(place, p) }) &&
		!slices.ContainsFunc(list, func(s shown) bool { return s.writable && within(place, s.path) })
}

// steps are changes of paths.
type steps []step

type step struct {
	path string
	do   func() error
}

// inDepth does what concerns a path before what concerns a path below it.
func (l steps) inDepth() error {
	slices.SortStableFunc(l, func(a, b step) int { return strings.Count(a.path, "/") - strings.Count(b.path, "/") })
	for _, s := range l {
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// cover hides, shows what lies below what is hidden, and freezes: the nearest decides, and where more is said of a path it is shown, and then frozen.
func cover(masks []mask, below []shown, frozen []level) error {
	var todo steps
	for _, m := range masks {
		shows := slices.ContainsFunc(below, func(s shown) bool { return within(s.path, m.path) }) || slices.ContainsFunc(masks, func(in mask) bool { return in.tmp && in.path != m.path && within(in.path, m.path) })
		todo = append(todo, step{m.path, func() error { return m.apply(shows) }})
	}
	for _, s := range below {
		todo = append(todo, step{s.path, s.place})
	}
	for _, l := range frozen {
		todo = append(todo, step{l.path, func() error { return l.freeze(masks) }})
	}
	return todo.inDepth()
}

// topFolders are the folders in the root.
func topFolders() ([]string, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil, fmt.Errorf("list the root folder: %w", pathCause(err))
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, "/"+e.Name())
		}
	}
	return out, nil
}

// foldersAbove are the folders that lead to paths, but for the root, and others.
func foldersAbove(paths, others []string) map[string]bool {
	out := map[string]bool{}
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			out[dir] = true
		}
	}
	for _, path := range others {
		out[path] = true
	}
	return out
}

// bindOnItself makes an open place a place of a mount, of itself with what is mounted below it, and changes the attributes of that, if any are given; below is AT_RECURSIVE for all of it, 0 for
// the place alone.
func bindOnItself(place int, change unix.MountAttr, below uint) error {
	tree, err := unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	if change != (unix.MountAttr{}) {
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|below, &change)
	}
	if err == nil {
		err = attach(tree, place)
	}
	return errors.Join(err, unix.Close(tree))
}

// protectPath binds a path on itself. One that does not exist, by now, needs no protection.
func protectPath(path string, change unix.MountAttr) error {
	err := atPlace(path, func(place int) error { return bindOnItself(place, change, unix.AT_RECURSIVE) })
	if err != nil && !absent(err) {
		return fmt.Errorf("protect %q: %w", path, err)
	}
	return nil
}

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// closeDevices makes devices mere files, on every mount, but for those of the order.
func (o *order) closeDevices() error {
	if o.Devices == nil {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV}); err != nil {
		return fmt.Errorf("close devices: %w", err)
	}
	for _, path := range o.Devices {
		if !within(path, "/dev") { // the lists have other paths as well
			continue
		}
		target, err := filepath.EvalSymlinks(path)
		if err == nil && within(target, "/dev") {
			err = atPlace(target, func(place int) error {
				return bindOnItself(place, unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NODEV}, unix.AT_RECURSIVE)
			})
		}
		if err != nil && (!errors.Is(err, unix.ENOENT) || !slices.Contains(systemDevices(), path)) {
			return fmt.Errorf("open device %q: %w", path, err)
		}
	}
	return nil
}

// leaveNetwork gives this thread an empty network with nothing but a loopback device, which is switched on.
func leaveNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make an empty network: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switch the loopback device on: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("lo")
	if err == nil {
		ifr.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
	}
	if err != nil {
		return fmt.Errorf("switch the loopback device on: %w", err)
	}
	return nil
}
