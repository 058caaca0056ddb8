package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeLog makes a file of these changes.
func writeLog(t *testing.T, dir string, changes ...change) {
	t.Helper()
	log := []byte(header)
	for _, c := range changes {
		log = appendFrame(log, c)
	}
	if err := os.WriteFile(filePath(dir), log, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesThatCannotBeReadAreLeftOutAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeLog(t, dir,
		change{kind: kindRecord, key: "pod\x00a", value: []byte(`{"pod":"pod","container":"a"}`)},
		change{kind: kindRecord, key: "pod\x00b", value: []byte(`{"pod":"pod","container":"a"}`)},
		change{kind: kindRecord, key: "pod\x00c", value: []byte("{")},
		change{kind: kindRecordDeleted, key: "pod\x00never"},
		change{kind: kindManual, key: "gpu-env", value: []byte{}},
		change{kind: kindManual, key: "other", value: []byte("disabled")},
		change{kind: kindManualDeleted, key: "other"},
	)
	for _, warning := range []string{"holds 2 entries that cannot be read", ""} {
		db, loaded := Open(dir, Options{})
		if err := db.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(loaded.Warning, warning) || warning == "" && loaded.Warning != "" {
			t.Errorf("warning %q, want %q", loaded.Warning, warning)
		}
		if loaded.Lost != (warning != "") {
			t.Errorf("lost %t with warning %q", loaded.Lost, warning)
		}
		loaded.Warning, loaded.Lost = "", false
		want := Loaded{Records: []Record{{Pod: "pod", Container: "a"}}, Manual: map[string]string{"gpu-env": ""}}
		if diff := cmp.Diff(want, loaded); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
	}
}

func TestAChangeReadsAsItWasWritten(t *testing.T) {
	t.Parallel()
	changes := []change{
		{kind: kindRecord, key: "pod\x00ctr", value: []byte("{}")},
		{kind: kindRecord, key: "", value: []byte{}},
		{kind: kindManual, key: strings.Repeat("k", maxKeySize), value: []byte(strings.Repeat("v", MaxRecordSize))},
		{kind: kindManualDeleted, key: "gpu-env"},
	}
	log := []byte(header)
	for _, c := range changes {
		log = appendFrame(log, c)
	}
	got := decode(log)
	if diff := cmp.Diff(changes, got.changes, cmp.AllowUnexported(change{})); diff != "" || got.damaged != "" || got.end != len(log) {
		t.Errorf("end %d of %d, damaged %q (-want +got):\n%s", got.end, len(log), got.damaged, diff)
	}
}

func TestAFileOfMostlyObsoleteChangesIsRewritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, _ := Open(dir, Options{})
	size := func() int64 {
		info, err := os.Stat(filePath(dir))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	largest, now := int64(0), int64(0)
	shrunk := false
	for n := 0; n < 200 && !shrunk; n++ {
		db.Put(Record{Pod: "pod", Container: "ctr", PodName: strings.Repeat(string(rune('a'+n%26)), 20_000)})
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = size()
		shrunk = now < largest
		largest = max(largest, now)
	}
	if !shrunk || largest < rewriteAbove || largest > rewriteAbove+30_000 || now > 30_000 {
		t.Errorf("the file grew to %d bytes and has %d now", largest, now)
	}
	if _, err := os.Stat(filepath.Join(dir, newName)); !os.IsNotExist(err) {
		t.Errorf("%s: %v", newName, err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, loaded := Open(dir, Options{})
	if len(loaded.Records) != 1 || loaded.Warning != "" {
		t.Errorf("found %d records, %q", len(loaded.Records), loaded.Warning)
	}
}

// TestATableForgetsWhatTheDiskNeverSaw keeps a full disk from filling the memory.
func TestATableForgetsWhatTheDiskNeverSaw(t *testing.T) {
	t.Parallel()
	table := newTable(kindRecord, kindRecordDeleted, 10)
	for n := range 1000 {
		table.put(string(rune('a'+n)), []byte("value"), uint64(n))
	}
	if len(table.entries) != 10 || len(table.waiting) != 10 || table.order.Len() != 10 || table.dropped != 990 {
		t.Errorf("%d entries, %d waiting, %d in order, %d dropped", len(table.entries), len(table.waiting), table.order.Len(), table.dropped)
	}
	changes := table.collect()
	for n := 1000; n < 1020; n++ {
		table.put(string(rune('a'+n)), []byte("value"), uint64(n))
	}
	// The ten that may be on disk by now have to be deleted there.
	if len(table.waiting) != 20 || table.order.Len() != 10 {
		t.Errorf("%d waiting, %d in order", len(table.waiting), table.order.Len())
	}
	for _, c := range changes {
		table.written(c)
	}
	if len(table.waiting) != 20 {
		t.Errorf("what changed during the write does not wait any more: %d", len(table.waiting))
	}
	for _, c := range table.collect() {
		table.written(c)
	}
	if len(table.waiting) != 0 || len(table.entries) != 10 || table.bytes != 10*(2+5) {
		t.Errorf("%d waiting, %d entries, %d bytes", len(table.waiting), len(table.entries), table.bytes)
	}
}
