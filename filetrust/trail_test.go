package filetrust_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/filetrust"
)

func TestATrailNamesEachLinkOnTheWay(t *testing.T) {
	t.Parallel()
	root := folder(t)
	for _, err := range []error{
		os.MkdirAll(root+"/v2/bin", 0o755), os.WriteFile(root+"/v2/bin/real", nil, 0o755), os.Symlink("v2", root+"/current"), os.Symlink("real", root+"/v2/bin/program"),
		os.Symlink("gone", root+"/dangling"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	links, target, err := filetrust.Trail(root + "/current/bin/program")
	if want := []string{root + "/current", root + "/v2/bin/program"}; err != nil || !slices.Equal(links, want) || target != filepath.Join(root, "v2/bin/real") {
		t.Errorf("%q, %q, %v", links, target, err)
	}
	if links, target, err := filetrust.Trail(root + "/dangling"); !os.IsNotExist(err) || !slices.Equal(links, []string{root + "/dangling"}) || target != root {
		t.Errorf("a link to nothing: %q, %q, %v", links, target, err)
	}
	if _, _, err := filetrust.Trail("relative"); err == nil {
		t.Error("a relative path has a trail")
	}
}

func TestWhatAnEnvironmentLoadsAreItsAbsolutePaths(t *testing.T) {
	t.Parallel()
	got := filetrust.Loaded([]string{"LD_PRELOAD=/a/b.so libc.so", "LD_PRELOAD=/c/d.so:/e/f.so libc.so", "PATH=/bin", "PYTHONPATH=rel/ative:/g"})
	slices.Sort(got)
	if want := []string{"/c/d.so", "/e/f.so", "/g"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
