package main

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func TestOnlyFoldersThatAKilledTrialLeftAreSwept(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	running, err := newTrialFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(parent+"/nri-verify1/r", 0o700), os.Mkdir(parent+"/nri-verify2", 0o700), // left behind
		os.MkdirAll(parent+"/nri-verify3/r", 0o700), os.WriteFile(parent+"/nri-verify3/notes", nil, 0o600),
		os.Mkdir(parent+"/nri-verify4", 0o755), os.Chmod(parent+"/nri-verify4", 0o755),
		os.Mkdir(parent+"/nri-verify-5", 0o700), os.Mkdir(parent+"/nri-verify", 0o700), os.Mkdir(parent+"/else", 0o700),
		os.Symlink("else", parent+"/nri-verify6"), os.WriteFile(parent+"/nri-verify7", nil, 0o700),
		os.Mkdir(parent+"/nri-verify8", 0o700), os.WriteFile(parent+"/nri-verify8/r", nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	next, err := newTrialFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"else", "nri-verify", "nri-verify-5", "nri-verify3", "nri-verify4", "nri-verify6", "nri-verify7", "nri-verify8", filepath.Base(running.path), filepath.Base(next.path)}
	slices.Sort(want)
	if got := namesIn(t, parent); !slices.Equal(got, want) {
		t.Errorf("%q are there, want %q", got, want)
	}
	running.remove()
	next.remove()
	if got := namesIn(t, parent); len(got) != len(want)-2 {
		t.Errorf("%q are left", got)
	}
}

// A plugin that may write to the folder of temporary files can make what looks like a trial that was killed.
func TestAPlantedTrialLeadsToNothingOutsideOfIt(t *testing.T) {
	t.Parallel()
	parent, keep := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(keep+"/data/deep", 0o700), os.WriteFile(keep+"/shadow", []byte("secret"), 0o600), os.MkdirAll(parent+"/nri-verify1/r", 0o700),
		os.Symlink(keep, parent+"/nri-verify1/r/plugins"), os.Symlink(keep+"/shadow", parent+"/nri-verify1/r/cgroups"), os.Symlink(keep+"/made", parent+"/nri-verify1/r/guardian.lock"),
		os.MkdirAll(parent+"/nri-verify2/r", 0o700), os.Symlink(keep, parent+"/nri-verify2/r/plugins"), os.Symlink(keep+"/shadow", parent+"/nri-verify2/r/cgroups"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := newTrialFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer own.remove()
	if got := namesIn(t, parent); len(got) != 1 {
		t.Errorf("%q are there, want the own one", got)
	}
	if got, want := namesIn(t, keep), []string{"data", "shadow"}; !slices.Equal(got, want) {
		t.Errorf("%q are at the end of the links, want %q", got, want)
	}
	if got := namesIn(t, keep+"/data"); len(got) != 1 {
		t.Errorf("of a folder at the end of a link %q is left", got)
	}
	if text, err := os.ReadFile(keep + "/shadow"); err != nil || string(text) != "secret" {
		t.Errorf("a file at the end of a link: %q, %v", text, err)
	}
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestTrialsThatStartAtOnceLeaveEachOthersFolders(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	const trials = 16
	folders := make([]*trialFolder, trials)
	var wg sync.WaitGroup
	for i := range folders {
		wg.Go(func() {
			f, err := newTrialFolder(parent)
			if err != nil {
				t.Error(err)
				return
			}
			folders[i] = f
		})
	}
	wg.Wait()
	for _, f := range folders {
		if f == nil {
			continue
		}
		if info, err := os.Stat(f.runDir()); err != nil || !info.IsDir() {
			t.Errorf("the folder of a trial that runs: %v", err)
		}
	}
}
