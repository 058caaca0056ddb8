package isolation

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// uncover takes out of this namespace what is mounted over its root, which the host's own programs do not see either: ".." of the root leads there, and what is done to the paths below the root
// does not hold for it.
func uncover() error {
	const over = "/.."
	for {
		var root, top unix.Statx_t
		for path, st := range map[string]*unix.Statx_t{"/": &root, over: &top} {
			if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, st); err != nil {
				return fmt.Errorf("look for mounts over the root folder: %w", err)
			}
		}
		if root.Mnt_id == top.Mnt_id {
			return nil
		}
		if err := unix.Unmount(over, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount what lies over the root folder: %w", err)
		}
	}
}

// roots are the other places of the root folder, for who lists none of them itself: there, its entries can be replaced as well.
func roots(protected []string, list []shown, mounts []mounted) []string {
	same, _ := mask{path: "/"}.elsewhere(mounts)
	same = slices.DeleteFunc(same, func(place string) bool {
		return covered(place, protected, list) || slices.ContainsFunc(list, func(s shown) bool { return s.writable && s.path == place })
	})
	slices.Sort(same)
	return slices.Compact(same)
}

// protectFolder makes a folder itself read only, but not what is mounted below it.
func protectFolder(path string) error {
	change := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err := atPlace(path, func(place int) error {
		err := unix.MountSetattr(place, "", unix.AT_EMPTY_PATH, &change)
		if errors.Is(err, unix.EINVAL) { // it is not a place of a mount yet
			err = bindOnItself(place, change, 0)
		}
		return err
	})
	if err != nil && !absent(err) {
		return fmt.Errorf("protect %q: %w", path, err)
	}
	return nil
}
