package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheLogFileIsBegunAnewWhenItIsLarge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", logFileName)
	l, err := openLogFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.size = logFileLimit + 1 // as if it were
	for _, line := range []string{"a\n", "b\n"} {
		if _, err := l.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "a\nb\n" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if info, err := os.Stat(path + logFileOld); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what was before: %v, %v", info, err)
	}
}
