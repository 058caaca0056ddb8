package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// planted is a run directory that somebody made whose links lead to what is not his, and a folder with all that has to stay as it is.
func planted(t *testing.T) (runDir *os.File, keep string) {
	t.Helper()
	base := t.TempDir()
	keep = filepath.Join(base, "keep")
	dir := filepath.Join(base, "r")
	for _, err := range []error{
		os.MkdirAll(keep+"/data/deep", 0o700), os.WriteFile(keep+"/shadow", []byte("secret"), 0o600), os.Mkdir(dir, 0o700),
		os.Symlink(keep, dir+"/plugins"), os.Symlink(keep+"/shadow", dir+"/cgroups"), os.Symlink(keep+"/made", dir+"/guardian.lock"), os.Symlink(keep, dir+"/else"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	runDir, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runDir.Close() })
	return runDir, keep
}

func untouched(t *testing.T, keep string) {
	t.Helper()
	var got []string
	err := filepath.WalkDir(keep, func(path string, _ os.DirEntry, err error) error {
		got = append(got, path[len(keep):])
		return err
	})
	if want := []string{"", "/data", "/data/deep", "/shadow"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("what is there: %q, %v, want %q", got, err, want)
	}
	if text, err := os.ReadFile(keep + "/shadow"); err != nil || string(text) != "secret" {
		t.Errorf("a file at the end of a link: %q, %v", text, err)
	}
}

func TestWhatIsLeftIsRemovedAndNoLinkInThereIsFollowed(t *testing.T) {
	t.Parallel()
	runDir, keep := planted(t)
	if err := EndRest(runDir); err != nil {
		t.Fatal(err)
	}
	untouched(t, keep)
	if left, err := os.ReadDir(runDir.Name()); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestTheRunDirectoryOfASupervisorFollowsNoLink(t *testing.T) {
	t.Parallel()
	runDir, keep := planted(t)
	if err := sweepPlugins(runDir); err == nil {
		t.Error("a link in the place of the folder of plugins is swept")
	}
	if err := awaitGuardians(runDir); err == nil {
		t.Error("a link in the place of the guardians' lock is opened")
	}
	if bases := readRecord(runDir); bases != nil {
		t.Errorf("a link in the place of the record is read: %q", bases)
	}
	want := []string{"/one", "/two"}
	if err := writeRecord(runDir, want); err != nil {
		t.Fatal(err)
	}
	if bases := readRecord(runDir); !slices.Equal(bases, want) {
		t.Errorf("the record is %q, want %q", bases, want)
	}
	untouched(t, keep)
	for _, err := range []error{
		os.Remove(runDir.Name() + "/plugins"), os.MkdirAll(runDir.Name()+"/plugins/a/dead", 0o700), os.Symlink(keep, runDir.Name()+"/plugins/b"), os.Symlink(keep, runDir.Name()+"/plugins/a/c"),
		sweepPlugins(runDir),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	untouched(t, keep)
	if left, err := os.ReadDir(runDir.Name() + "/plugins/a"); err != nil || len(left) != 0 {
		t.Errorf("%v is left of what is dead, %v", left, err)
	}
}

func TestARecordLeadsToNoFolderThatIsNoCgroup(t *testing.T) {
	t.Parallel()
	runDir, keep := planted(t)
	name, err := treeName(runDir)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(filepath.Dir(keep), name)
	if err := errors.Join(os.MkdirAll(own+"/leaf", 0o700), writeRecord(runDir, []string{own})); err != nil {
		t.Fatal(err)
	}
	emptyRecorded(runDir, name)
	if err := emptyCgroup(own); err == nil {
		t.Error("a folder is emptied as a cgroup")
	}
	if _, err := os.Stat(own + "/leaf"); err != nil {
		t.Errorf("a folder that is no cgroup: %v", err)
	}
}
