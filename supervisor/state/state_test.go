package state_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// open opens the state and closes it at the end of the test.
func open(t *testing.T, dir string, o state.Options) (*state.DB, state.Loaded) {
	t.Helper()
	db, loaded := state.Open(dir, o)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db, loaded
}

// reopen closes the state and tells what a new process would find.
func reopen(t *testing.T, db *state.DB, dir string) (*state.DB, state.Loaded) {
	t.Helper()
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, state.Options{})
}

func flush(t *testing.T, db *state.DB) {
	t.Helper()
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func record(n int) state.Record {
	return state.Record{
		Pod: "pod", Container: fmt.Sprintf("ctr%05d", n), Namespace: "shop", PodName: "web", ContainerName: "main", PodUID: "uid",
		Plugins: map[string]state.PluginRecord{"gpu-env": {Outcome: "timeout", Reason: "timeout", At: time.Unix(int64(n), 0).UTC()}},
	}
}

func ids(records []state.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, strings.TrimPrefix(r.Container, "ctr0000"))
	}
	return strings.Join(all, " ")
}

func TestWhatWasPutIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "state")
	db, loaded := open(t, dir, state.Options{})
	if !loaded.FirstRun || loaded.Warning != "" || len(loaded.Records) != 0 {
		t.Errorf("a first run found %+v", loaded)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v; want mode 0700", info, err)
	}
	db.Put(record(1))
	db.Put(record(2))
	db.Put(state.Record{Pod: "other", Container: record(2).Container})
	db.Delete("pod", record(1).Container)
	db.PutManual("gpu-env", "disabled")
	db.PutManual("old", "tripped")
	db.DeleteManual("old")

	_, loaded = reopen(t, db, dir)
	want := state.Loaded{
		Records: []state.Record{record(2), {Pod: "other", Container: record(2).Container}},
		Manual:  map[string]string{"gpu-env": "disabled"},
	}
	if diff := cmp.Diff(want, loaded); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestRecordsComeBackInTheOrderOfTheLastPut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, _ := open(t, dir, state.Options{})
	for _, n := range []int{5, 3, 9, 1} {
		db.Put(record(n))
	}
	flush(t, db)
	changed := record(3)
	changed.PodName = "changed"
	db.Put(changed)
	db.Put(record(5)) // as it is: no change
	db, loaded := reopen(t, db, dir)
	if got := ids(loaded.Records); got != "5 9 1 3" {
		t.Errorf("order %s", got)
	}
	db.Put(record(7))
	_, loaded = reopen(t, db, dir)
	if got := ids(loaded.Records); got != "5 9 1 3 7" {
		t.Errorf("order after one more %s", got)
	}
}

func TestBeyondTheLimitTheOldestGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, _ := open(t, dir, state.Options{MaxRecords: 3})
	for n := range 5 {
		db.Put(record(n))
	}
	flush(t, db)
	for n := 5; n < 7; n++ {
		db.Put(record(n))
	}
	if got := db.Stats().Dropped; got != 4 {
		t.Errorf("dropped %d, want 4", got)
	}
	db, loaded := reopen(t, db, dir)
	if got := ids(loaded.Records); got != "4 5 6" {
		t.Errorf("found %s, want the newest three", got)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, loaded = open(t, dir, state.Options{MaxRecords: 2})
	if got := ids(loaded.Records); got != "5 6" {
		t.Errorf("with a lower limit found %s, want the newest two", got)
	}
	_, loaded = reopen(t, db, dir)
	if got := ids(loaded.Records); got != "5 6" {
		t.Errorf("the lower limit did not reach the disk: %s", got)
	}
}

func TestWhatIsTooLargeIsRefusedAndReported(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var errs []string
	dir := t.TempDir()
	db, _ := open(t, dir, state.Options{OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err.Error())
	}})
	big := record(1)
	big.PodName = strings.Repeat("x", state.MaxRecordSize)
	db.Put(big)
	db.Put(state.Record{Pod: strings.Repeat("x", 2000), Container: "c"})
	db.PutManual(strings.Repeat("x", 2000), "disabled")
	db.PutManual("", "disabled")
	late := record(2)
	late.Plugins = map[string]state.PluginRecord{"a": {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}
	db.Put(late)
	db.Put(record(3))
	if got := db.Stats().Dropped; got != 3 {
		t.Errorf("dropped %d, want 3", got)
	}
	_, loaded := reopen(t, db, dir)
	if got := ids(loaded.Records); got != "3" || len(loaded.Manual) != 0 {
		t.Errorf("found %s and %v", got, loaded.Manual)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(errs) != 5 || !strings.Contains(errs[0], "the limit is 65536") {
		t.Errorf("errors %q", errs)
	}
}

func TestAfterCloseNothingIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, _ := open(t, dir, state.Options{})
	db.Put(record(1))
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Put(record(2))
	db.Delete("pod", record(1).Container)
	if err := db.Flush(t.Context()); err == nil {
		t.Error("Flush after Close says that all is well")
	}
	_, loaded := reopen(t, db, dir)
	if got := ids(loaded.Records); got != "1" {
		t.Errorf("found %s, want 1", got)
	}
}

func TestManyWritersMayPutAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, _ := open(t, dir, state.Options{})
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for n := range 200 {
				db.Put(record(w*200 + n))
				if n%3 == 0 {
					db.Delete("pod", record(w*200+n).Container)
				}
				if n%50 == 0 {
					flush(t, db)
				}
			}
		})
	}
	all.Wait()
	_, loaded := reopen(t, db, dir)
	if got, want := len(loaded.Records), 8*(200-67); got != want {
		t.Errorf("found %d records, want %d", got, want)
	}
}

func BenchmarkPut(b *testing.B) {
	db, _ := state.Open(b.TempDir(), state.Options{})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		db.Put(record(n % 400))
		n++
	}
	if err := db.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func TestOtherValuesAreKeptAndForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, _ := state.Open(dir, state.Options{})
	long := bytes.Repeat([]byte("x"), 5<<20)
	db.PutValue("a", []byte("1"))
	db.PutValue("b", long)
	db.PutValue("c", []byte("gone"))
	db.DeleteValue("c")
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, loaded := state.Open(dir, state.Options{})
	if diff := cmp.Diff(map[string][]byte{"a": []byte("1"), "b": long}, loaded.Values); diff != "" {
		t.Errorf("found (-want +got):\n%.200s", diff)
	}
	if loaded.Warning != "" {
		t.Error(loaded.Warning)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
