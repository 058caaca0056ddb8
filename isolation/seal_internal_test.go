package isolation

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatWasHashedCannotBeWrittenToAnyMore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plugin")
	const good, evil = "what somebody has looked at\n", "what somebody has written\n"
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0) // so it was opened before the check
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	sealed, err := sealPinned(f, fmt.Sprintf("%X", sha256.Sum256([]byte(good))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sealed.Close() }()
	if _, err := f.WriteAt([]byte(evil), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := sealed.WriteAt([]byte(evil), 0); err == nil {
		t.Error("the copy can be written to")
	}
	if err := sealed.Truncate(0); err == nil {
		t.Error("the copy can be shortened")
	}
	// As its interpreter opens a script: a new description of the same file.
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", sealed.Fd()), os.O_RDWR, 0)
	if err == nil {
		if _, err := again.WriteAt([]byte(evil), 0); err == nil {
			t.Error("the copy can be written to when it is opened again")
		}
		_ = again.Close()
	}
	got, err := io.ReadAll(io.NewSectionReader(sealed, 0, 1000))
	if err != nil || string(got) != good {
		t.Errorf("the copy holds %q, %v", got, err)
	}
	if sealed, err := sealPinned(f, fmt.Sprintf("%x", sha256.Sum256([]byte(good)))); err == nil {
		_ = sealed.Close()
		t.Error("the file that was written to has the hash of the one before")
	}
}

func TestEnvLooksUpWhatItWouldExecute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "python3")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/nowhere", "A=b", "PATH=/nowhere:" + dir}
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{"python3"}, program},
		{[]string{"-S", "A=b", "python3", "-u"}, program},
		{[]string{"/opt/python3"}, "/opt/python3"},
		{[]string{"folder"}, ""},
		{[]string{"none", "python3"}, ""},
	} {
		if got := lookUp(tt.words, env); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.words, got, tt.want)
		}
	}
	if got := lookUp([]string{"python3"}, nil); got == program {
		t.Error("a path that nobody set")
	}
}
