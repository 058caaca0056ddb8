package state_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// TestWithoutADiskItWorksInMemoryAndCatchesUp uses a folder that cannot be made,
// because a file is in its place. That holds for root, too.
func TestWithoutADiskItWorksInMemoryAndCatchesUp(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "lib")
	write(t, parent, nil)
	dir := filepath.Join(parent, "state")
	reported := make(chan error, 100)
	db, loaded := open(t, dir, state.Options{OnError: func(err error) { reported <- err }})
	if loaded.FirstRun || !strings.Contains(loaded.Warning, "not a directory: working without a disk for now") {
		t.Errorf("found %+v", loaded)
	}
	db.Put(record(1))
	db.Put(record(2))
	db.Delete("pod", record(2).Container)
	if err := db.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("Flush: %v", err)
	}
	if err := <-reported; err == nil {
		t.Error("no error was reported")
	}
	if s := db.Stats(); s.Errors == 0 || s.Waiting != 1 {
		t.Errorf("stats %+v, want errors and one write that waits", s)
	}
	if err := os.Remove(parent); err != nil {
		t.Fatal(err)
	}
	flush(t, db)
	if s := db.Stats(); s.Waiting != 0 {
		t.Errorf("stats %+v after the disk came back", s)
	}
	_, loaded = reopen(t, db, dir)
	if got := ids(loaded.Records); got != "1" {
		t.Errorf("found %s", got)
	}
}

func TestItCatchesUpByItself(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "lib")
	write(t, parent, nil)
	dir := filepath.Join(parent, "state")
	failed := make(chan struct{}, 100)
	db, _ := open(t, dir, state.Options{OnError: func(error) { failed <- struct{}{} }})
	db.Put(record(1))
	<-failed
	if err := os.Remove(parent); err != nil {
		t.Fatal(err)
	}
	// The next attempt comes after a second. It is seen by the file that it makes.
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for db.Stats().Waiting > 0 {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatal("no attempt in 30 s")
		}
	}
}

func TestCloseTellsWhatIsNotOnDisk(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "lib")
	write(t, parent, nil)
	db, _ := state.Open(filepath.Join(parent, "state"), state.Options{})
	db.Put(record(1))
	for range 2 {
		if err := db.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 writes are not on disk") {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestASlowDiskKeepsNobodyWaiting holds the writer up in its callback.
func TestASlowDiskKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "lib")
	write(t, parent, nil)
	var once atomic.Bool
	stuck, release := make(chan struct{}), make(chan struct{})
	db, _ := state.Open(filepath.Join(parent, "state"), state.Options{MaxRecords: 100, OnError: func(error) {
		if once.CompareAndSwap(false, true) {
			close(stuck)
			<-release
		}
	}})
	db.Put(record(0))
	<-stuck
	for n := range 10_000 {
		db.Put(record(n))
		db.PutManual("gpu-env", "disabled")
		db.Delete("pod", record(n/2).Container)
	}
	if s := db.Stats(); s.Waiting > 101+1 {
		t.Errorf("%d writes wait, want no more than there are records", s.Waiting)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Flush(ctx); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("Flush: %v", err)
	}
	if err := db.Close(ctx); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("Close: %v", err)
	}
	close(release)
	_ = db.Close(t.Context()) // it has an error: there is no disk
}

func TestTheFolderBelongsToOneProcessAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, _ := open(t, dir, state.Options{})
	first.Put(record(1))
	flush(t, first)

	second, loaded := open(t, dir, state.Options{})
	if loaded.FirstRun || len(loaded.Records) != 0 || !strings.Contains(loaded.Warning, "another process uses it") {
		t.Errorf("the second one found %+v", loaded)
	}
	second.Put(record(2))
	if err := second.Flush(t.Context()); err == nil {
		t.Error("the second one wrote beside the first")
	}
	first.Put(record(3))
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	flush(t, second)
	_, loaded = reopen(t, second, dir)
	if got := ids(loaded.Records); got != "1 3 2" && got != "1 2 3" {
		t.Errorf("found %s, want what both put", got)
	}
}

func TestASupervisorThatIsJustEndingIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, _ := open(t, dir, state.Options{})
	first.Put(record(1))
	opened := make(chan state.Loaded, 1)
	go func() {
		db, loaded := state.Open(dir, state.Options{})
		_ = db.Close(context.Background())
		opened <- loaded
	}()
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if loaded := <-opened; loaded.Warning != "" || ids(loaded.Records) != "1" {
		t.Errorf("found %+v", loaded)
	}
}
