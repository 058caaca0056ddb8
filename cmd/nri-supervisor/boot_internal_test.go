package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestARunDirectoryThatKeepsNoBootIDIsNoReasonNotToRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, want := range []bool{true, false} { // it is kept
		if first, unknown, err := prepareRunDir(dir); first != want || unknown != nil || err != nil {
			t.Errorf("run %d: first since the boot %v, %v, %v", i+1, first, unknown, err)
		}
	}
	marker := filepath.Join(dir, "boot-id")
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "none", "boot-id"), marker); err != nil { // it cannot be written to
		t.Fatal(err)
	}
	first, unknown, err := prepareRunDir(dir)
	if !first || unknown == nil || err != nil {
		t.Errorf("it cannot be kept: first since the boot %v, %v, %v", first, unknown, err)
	}
	if _, err := os.Lstat(marker); !os.IsNotExist(err) {
		t.Errorf("something is left: %v", err)
	}
}
