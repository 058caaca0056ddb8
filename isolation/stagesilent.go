package isolation

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// leaveSilent takes the mounts of file systems out of this namespace that do not answer, or answer with nothing but an error, if something of other plugins lies there: their servers are gone, and
// to look at what is to be protected or hidden there would keep this plugin from being started. What was mounted over is protected in its place, so that nothing can be put there for the time when the
// host has unmounted it.
func (o *order) leaveSilent() error {
	mounts, err := listMounts()
	if err != nil {
		return err
	}
	silent := o.Silent
	for _, path := range silent {
		mounts = o.leave(path, mounts)
	}
	o.findShared()
	for _, path := range slices.Concat(o.Protect, o.Hide, o.Written) {
		for { // what lies on a mount below another one is seen when that is gone
			_, at, err := o.settleTo(path)
			if err == nil || absent(err) || !slices.ContainsFunc(mounts, func(m mounted) bool { return m.point == at }) {
				break
			}
			mounts = o.leave(at, mounts)
			silent = append(silent, at)
		}
	}
	for _, path := range silent {
		for _, listed := range slices.Concat(o.Readable, o.Writable) {
			if within(listed, path) {
				return fmt.Errorf("show %q: %q does not answer: see to its file system, or unmount it", listed, path)
			}
		}
		o.Protect = append(o.Protect, path)
	}
	return nil
}

// leave takes a mount, and all others of the same file system, out of this namespace, without a look at them. It returns those that stay.
func (o *order) leave(point string, mounts []mounted) []mounted {
	var devices []string
	for _, m := range mounts {
		if m.point == point {
			devices = append(devices, m.device)
		}
	}
	if point == "/" || within(o.Dir, point) || len(devices) == 0 {
		return mounts // it is gone meanwhile, or nothing goes without it
	}
	top := devices[len(devices)-1]
	return slices.DeleteFunc(slices.Clone(mounts), func(m mounted) bool {
		gone := m.device == top && m.point != "/" && !within(o.Dir, m.point)
		if gone {
			_ = unmount(m.point) // it may be gone with the one above it
		}
		return gone
	})
}

// protectNearest is what to protect in the place of a path at which a look ends with an error: the folder above that answers.
func (o *order) protectNearest(path string, err error) (string, error) {
	_, at, _ := o.settleTo(path)
	folder := filepath.Dir(at)
	if at == "" || folder == "/" || errors.Is(err, unix.EINTR) {
		return "", fmt.Errorf("protect %q: %w", path, err)
	}
	return folder, nil
}
