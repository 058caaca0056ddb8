package filetrust_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

// folder is a folder of the test's own that is trusted: that of temporary files where it is, as usual, root's and sticky, and else one of the user's.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if home, err := os.UserHomeDir(); err == nil {
		if _, weak := filetrust.Check(dir); weak != nil {
			dir, err = os.MkdirTemp(home, ".filetrust-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
		}
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	chmod(t, resolved, 0o755) // whatever the umask
	return resolved
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestEachFolderAndEachLinkOnTheWayCounts(t *testing.T) {
	t.Parallel()
	// All that can be weak: the file is reached through two links, and each of the folders can be the one that others write to.
	for _, weak := range []string{"", "a", "a/b", "a/b/real", "x", "x/y"} {
		t.Run("weak "+weak, func(t *testing.T) {
			t.Parallel()
			root := folder(t)
			for _, dir := range []string{"a", "a/b", "x", "x/y"} {
				if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				chmod(t, filepath.Join(root, dir), 0o755)
			}
			file := filepath.Join(root, "a/b/real")
			if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			for link, target := range map[string]string{"x/y/link": "../hop/real", "x/hop": filepath.Join(root, "a", "b")} {
				if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
					t.Fatal(err)
				}
			}
			if weak != "" {
				mode := fs.FileMode(0o775)
				if weak == "a/b/real" {
					mode = 0o602
				}
				chmod(t, filepath.Join(root, weak), mode)
			}
			resolved, err := filetrust.Check(filepath.Join(root, "x/y/link"))
			if weak == "" {
				if err != nil || resolved != file {
					t.Errorf("%q, %v", resolved, err)
				}
				return
			}
			w, ok := errors.AsType[*filetrust.Weakness](err)
			if !ok || !w.Writable || w.Path != filepath.Join(root, weak) || resolved != file {
				t.Fatalf("%q, %v", resolved, err)
			}
			if !strings.Contains(w.Error(), w.Path+" can be written by others (owner ") || w.Remedy() != "chmod go-w "+w.Path {
				t.Errorf("%s; %s", w, w.Remedy())
			}
			chmod(t, filepath.Join(root, weak), 0o700)
			if _, err := filetrust.Check(filepath.Join(root, "x/y/link")); err != nil {
				t.Errorf("mended: %v", err)
			}
		})
	}
}

func TestInAStickyFolderOnlyTheOwnerReplacesAFile(t *testing.T) {
	t.Parallel()
	root := folder(t)
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, root, 0o777|fs.ModeSticky)
	if _, err := filetrust.Check(file); err != nil {
		t.Errorf("our file in a sticky folder of ours: %v", err)
	}
	chmod(t, root, 0o777)
	if _, err := filetrust.Check(file); err == nil {
		t.Error("a folder that is not sticky is trusted")
	}
}

func TestAPathThatCannotBeFollowedIsNoWeakness(t *testing.T) {
	t.Parallel()
	root := folder(t)
	if err := os.Symlink("loop", filepath.Join(root, "loop")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"relative":                    "not an absolute path",
		filepath.Join(root, "nobody"): "no such file",
		filepath.Join(root, "loop"):   "too many levels",
	} {
		_, err := filetrust.Check(path)
		if _, weak := errors.AsType[*filetrust.Weakness](err); weak || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
