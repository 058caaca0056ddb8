package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOneSupervisorHoldsARuntimeAndFollowsItsFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "nri")
	socket := filepath.Join(folder, "nri.sock")
	warn := func(err error) { t.Error(err) }
	first, second := newRuntimeLock(socket, warn), newRuntimeLock(socket, warn)
	for _, l := range []*runtimeLock{first, second} {
		if err := l.take(); err != nil {
			t.Errorf("without a folder there is nothing to hold: %v", err)
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first.take(); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := second.take(); !errors.Is(err, errHeld) {
			t.Errorf("the second: %v", err)
		}
	}
	if err := os.Rename(folder, folder+".old"); err != nil { // as a runtime that makes it anew
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := first.take(); err != nil {
		t.Errorf("the new folder: %v", err)
	}
	if err := second.take(); !errors.Is(err, errHeld) {
		t.Errorf("the second at the new folder: %v", err)
	}
	first.release()
	if err := second.take(); err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
	own, err := lockOwnFolder(folder+".old", "runDir", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer own.unlock()
	if err := newRuntimeLock(filepath.Join(folder+".old", "nri.sock"), warn, own.info).take(); err != nil {
		t.Errorf("a folder that is ours already: %v", err)
	}
	if _, err := lockOwnFolder(folder+".old", "runDir", 0o700); !errors.Is(err, errHeld) {
		t.Errorf("our folder for somebody else: %v", err)
	}
}
