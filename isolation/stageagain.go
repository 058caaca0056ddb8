package isolation

import (
	"slices"

	"golang.org/x/sys/unix"
)

// protectShown makes read only what is protected, and its other places, below what is shown in the place of what is hidden, unless a list names it or something below it, and so does the root folder. mounts are those that there were before anything was hidden.
func protectShown(protected []string, list []shown, mounts []mounted) error {
	var todo steps
	if len(protected) == 0 {
		return nil
	}
	inside := func(place string) bool {
		return slices.ContainsFunc(list, func(s shown) bool { return s.writable && place != s.path && within(place, s.path) })
	}
	named := func(place string) bool {
		return slices.ContainsFunc(list, func(s shown) bool { return s.writable && within(s.path, place) })
	}
	itself := slices.DeleteFunc(slices.Clone(protected), named)
	for _, path := range slices.Concat(itself, aliases(protected, list, mounts)) {
		if inside(path) {
			todo = append(todo, step{path, func() error { return protectPath(path, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}) }})
		}
	}
	for _, path := range roots(protected, list, mounts) {
		if inside(path) {
			todo = append(todo, step{path, func() error { return protectFolder(path) }})
		}
	}
	return todo.inDepth()
}
