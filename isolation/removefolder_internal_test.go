package isolation

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// deepen makes a chain of folders below path, deeper than any path can be written.
func deepen(t *testing.T, path string, depth int) {
	t.Helper()
	at, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(at, "d", 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = below
	}
	_ = unix.Close(at)
}

func TestAFolderIsRemovedWhateverAPluginPutThere(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	path := filepath.Join(base, "run")
	for _, dir := range []string{outside, path, path + "/empty", path + "/run.removed.1/x/y", path + "/a/b/c"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * removeBatch / 2 {
		for _, dir := range []string{"", "/a", "/a/b"} {
			if err := os.WriteFile(fmt.Sprintf("%s%s/%d", path, dir, i), nil, 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(outside+"/kept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{path + "/link", path + "/a/b/link"} {
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
	}
	deepen(t, path, 2100) // more than a path can have, and than descriptors usually may be open
	deepen(t, path+"/a/b/c", 100)
	if err := removeFolder(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(outside + "/kept"); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := removeFolder(path); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeFolder(file); err == nil {
		t.Error("a file is no folder")
	}
}
