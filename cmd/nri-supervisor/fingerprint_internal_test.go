package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

func TestTheFingerprintIsThatOfTheExecutedFile(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	var f fingerprints
	for range 2 { // read, then remembered
		if got, want := f.of(t.Context(), os.Getpid()), hex.EncodeToString(sum[:]); got != want {
			t.Errorf("fingerprint %s, want %s", got, want)
		}
	}
	if len(f.known) != 1 {
		t.Errorf("%d files remembered, want 1", len(f.known))
	}
	if got := f.of(t.Context(), 1<<30); got != "" {
		t.Errorf("fingerprint of a process that does not exist is %q", got)
	}
}
