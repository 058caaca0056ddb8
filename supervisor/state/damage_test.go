package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// filled makes a state with some records and gives the bytes of its file.
func filled(tb testing.TB, dir string, records int) []byte {
	tb.Helper()
	db, _ := state.Open(dir, state.Options{})
	for n := range records {
		db.Put(record(n))
	}
	db.PutManual("gpu-env", "disabled")
	if err := db.Close(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	bytes, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err != nil {
		tb.Fatal(err)
	}
	return bytes
}

func write(tb testing.TB, path string, bytes []byte) {
	tb.Helper()
	if err := os.WriteFile(path, bytes, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// works checks that a state can be used after it was opened.
func works(t *testing.T, db *state.DB, dir string) {
	t.Helper()
	db.Put(record(77777))
	_, loaded := reopen(t, db, dir)
	if !strings.Contains(ids(loaded.Records), "77777") || loaded.Warning != "" {
		t.Errorf("the state does not work: %+v", loaded)
	}
}

func TestAFileThatCannotBeUsedIsSetAside(t *testing.T) {
	t.Parallel()
	good := filled(t, t.TempDir(), 50)
	for name, tc := range map[string]struct {
		make    func(path string) error
		records int
		warning string
	}{
		"garbage":                 {content([]byte(strings.Repeat("garbage ", 5000))), 0, "it does not begin as a state does; 0 changes could be read"},
		"a few bytes":             {content([]byte("x")), 0, "it does not begin as a state does"},
		"zeroes":                  {content(make([]byte, 5000)), 0, "it does not begin as a state does"},
		"another layout":          {content(append([]byte("nri-supervisor state 2\n"), good[23:]...)), 0, `its layout is "2", this program knows "1"`},
		"a broken first line":     {content(append([]byte("N"), good[1:]...)), 50, "it does not begin as a state does; 51 changes could be read"},
		"a broken first entry":    {content(flipped(good, 40)), 49, "1 places in it are damaged; 50 changes could be read"},
		"a broken length":         {content(flipped(good, 23+4+3)), 49, "1 places in it are damaged; 50 changes could be read"},
		"a huge length":           {content(flipped(good, 23+4)), 49, "1 places in it are damaged; 50 changes could be read"},
		"a length beyond the end": {content(flipped(good, 23+4+2)), 49, "1 places in it are damaged; 50 changes could be read"},
		"a huge last length":      {content(flipped(good, bytes.LastIndex(good, []byte("\xfenr\xff"))+4)), 50, "1 places in it are damaged; 50 changes could be read"},
		"a broken mark":           {content(flipped(good, 23)), 49, "1 places in it are damaged; 50 changes could be read"},
		"junk at the end":         {content(append(slices.Clip(good), "junk"...)), 50, "1 places in it are damaged; 51 changes could be read"},
		"nothing":                 {content(nil), 0, "it ends after 0 bytes"},
		"half of the first line":  {content(good[:10]), 0, "it ends after 10 bytes"},
		"a folder":                {func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }, 0, "it is not a regular file but has mode drwx"},
		"a link to nowhere":       {func(path string) error { return os.Symlink("/proc/self/nothing", path) }, 0, "it is not a regular file but has mode L"},
		"a pipe":                  {func(path string) error { return syscall.Mkfifo(path, 0o600) }, 0, "it is not a regular file but has mode p"},
		"far too much": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}, 0, "it has 1099511627776 bytes, the limit is 268435456"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := tc.make(filepath.Join(dir, "state.db")); err != nil {
				t.Fatal(err)
			}
			db, loaded := open(t, dir, state.Options{})
			if len(loaded.Records) != tc.records || loaded.FirstRun || !loaded.Lost {
				t.Errorf("found %d records, first run %t, lost %t; want %d", len(loaded.Records), loaded.FirstRun, loaded.Lost, tc.records)
			}
			if want := "was set aside as " + filepath.Join(dir, "state.db.bad-1") + ": " + tc.warning; !strings.Contains(loaded.Warning, want) {
				t.Errorf("warning %q, want %q", loaded.Warning, want)
			}
			if _, err := os.Lstat(filepath.Join(dir, "state.db.bad-1")); err != nil {
				t.Error(err)
			}
			works(t, db, dir)
		})
	}
}

// content makes a file with these bytes.
func content(bytes []byte) func(path string) error {
	return func(path string) error { return os.WriteFile(path, bytes, 0o600) }
}

// flipped gives a copy with another byte at one place.
func flipped(bytes []byte, at int) []byte {
	bytes = append([]byte{}, bytes...)
	bytes[at] ^= 0x55
	return bytes
}

// TestAnEndThatACrashLeavesIsCutOff: that is no damage. Zeroes are what a file
// system may put there.
func TestAnEndThatACrashLeavesIsCutOff(t *testing.T) {
	t.Parallel()
	const records = 6
	good := filled(t, t.TempDir(), records)
	frames := bytes.SplitAfter(good, []byte("\xfenr\xff")) // each but the first ends with the mark of the next one
	for cut := 23; cut <= len(good); cut += 5 {
		whole, ends, end := -1, 0, -4 // the first is the line before the frames
		for i, f := range frames {
			if end += len(f); i == len(frames)-1 {
				end += 4
			}
			if end <= cut {
				whole, ends = whole+1, end
			}
		}
		for _, filler := range []int{0, 5000} {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "state.db"), append(good[:cut:cut], make([]byte, filler)...))
			db, loaded := open(t, dir, state.Options{})
			if got, want := len(loaded.Records), min(max(whole, 0), records); got != want {
				t.Fatalf("cut at %d with %d zeroes: %d records, want %d", cut, filler, got, want)
			}
			if atEnd := len(good[:cut]) == ends; (filler == 0 || atEnd) && loaded.Warning != "" {
				t.Fatalf("cut at %d with %d zeroes: %q", cut, filler, loaded.Warning)
			}
			if cut%2 == 0 {
				works(t, db, dir)
			}
		}
	}
}

// TestAFileThatIsGoneIsSaid: not so when there never was one.
func TestAFileThatIsGoneIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	filled(t, dir, 5)
	if err := os.Remove(filepath.Join(dir, "state.db")); err != nil {
		t.Fatal(err)
	}
	db, loaded := open(t, dir, state.Options{})
	if !loaded.Lost || loaded.FirstRun || !strings.Contains(loaded.Warning, "state.db is gone") {
		t.Errorf("found %+v", loaded)
	}
	works(t, db, dir)
	if _, loaded = open(t, t.TempDir(), state.Options{}); loaded.Lost || !loaded.FirstRun || loaded.Warning != "" {
		t.Errorf("in an empty folder: %+v", loaded)
	}
}

// TestANewFileIsNeverSeenInPart: a crash at its birth must not look like damage.
func TestANewFileIsNeverSeenInPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, state.Options{})
	content, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err != nil || !strings.HasPrefix(string(content), "nri-supervisor state 1\n") {
		t.Errorf("right after Open the file has %q, %v", content, err)
	}
}

// TestWhatCouldBeReadIsOnDiskAgainAtOnce: nobody has to put anything for it.
func TestWhatCouldBeReadIsOnDiskAgainAtOnce(t *testing.T) {
	t.Parallel()
	good := filled(t, t.TempDir(), 50)
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	write(t, path, flipped(good, 40))
	open(t, dir, state.Options{})
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if now, err := os.ReadFile(path); err == nil && bytes.Count(now, []byte("\xfenr\xff")) == 50 {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatal("nothing was written in 30 s")
		}
	}
}

func TestAFileSetAsideIsAFormerRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "state.db.bad-3"), nil)
	if _, loaded := open(t, dir, state.Options{}); loaded.FirstRun {
		t.Error("taken for a first run")
	}
}

func TestOnlyTheLastFilesSetAsideAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 7 {
		write(t, filepath.Join(dir, "state.db"), []byte("x"))
		db, _ := open(t, dir, state.Options{})
		if err := db.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir, "state.db.bad-*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range kept {
		kept[i] = strings.TrimPrefix(filepath.Base(kept[i]), "state.db.bad-")
	}
	if got := strings.Join(kept, " "); got != "4 5 6 7" {
		t.Errorf("kept %s", got)
	}
}

// TestDamageWhileRunningLosesNothing: everything is in memory as well.
func TestDamageWhileRunningLosesNothing(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"cut to nothing":    func(path string) error { return os.Truncate(path, 0) },
		"cut in the middle": func(path string) error { return os.Truncate(path, 8192) },
		"filled with junk":  func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("junk", 1<<15)), 0o600) },
		"deleted":           os.Remove,
		"taken away with its folder": func(path string) error {
			return os.RemoveAll(filepath.Dir(path))
		},
		"in a new folder": func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
		},
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db, _ := open(t, dir, state.Options{})
			for n := range 300 {
				db.Put(record(n))
			}
			flush(t, db)
			if err := damage(filepath.Join(dir, "state.db")); err != nil {
				t.Fatal(err)
			}
			db.Put(record(300))
			db.Delete("pod", record(0).Container)
			flush(t, db)
			_, loaded := reopen(t, db, dir)
			if got := len(loaded.Records); got != 300 || loaded.Warning != "" {
				t.Errorf("found %d records of 300, %q", got, loaded.Warning)
			}
		})
	}
}

// FuzzOpen opens files with damage in them. Whatever is in there: a state that
// works comes out.
func FuzzOpen(f *testing.F) {
	good := filled(f, f.TempDir(), 60)
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		f.Add(r.Uint32(), r.Uint32(), byte(r.Uint32()), uint16(r.IntN(64)))
	}
	f.Fuzz(func(t *testing.T, at, cut uint32, with byte, length uint16) {
		dir := t.TempDir()
		bytes := append([]byte{}, good...)
		start := int(at) % len(bytes)
		for i := start; i < min(start+int(length), len(bytes)); i++ {
			bytes[i] ^= with
		}
		if cut%4 == 0 {
			bytes = bytes[:int(cut/4)%len(bytes)]
		}
		write(t, filepath.Join(dir, "state.db"), bytes)
		db, _ := state.Open(dir, state.Options{})
		db.Put(record(77777))
		for n := range 20 {
			db.Delete("pod", record(n).Container)
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
		db, loaded := state.Open(dir, state.Options{})
		if !strings.Contains(ids(loaded.Records), "77777") {
			t.Errorf("the record is not there: %s", fmt.Sprint(loaded))
		}
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
