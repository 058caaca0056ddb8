package audit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/audit"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

func change(n int) journal.Decision {
	return journal.Decision{
		Seq: uint64(n), Kind: journal.KindEvent, Event: "CreateContainer", Plugin: "a", Action: journal.ActionAllowed,
		Object: journal.Object{Namespace: "ns", Pod: "pod-" + strconv.Itoa(n)}, Changed: []journal.Field{{Field: "Env", Key: "A"}},
	}
}

// closed ends the log; everything is then on disk.
func closed(t *testing.T, l *audit.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never happens")
		}
	}
}

func read(t *testing.T, path string, containing ...string) []journal.Decision {
	t.Helper()
	var out []journal.Decision
	if err := audit.Read(t.Context(), path, containing, func(d journal.Decision) { out = append(out, d) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheFileHasTheNotableDecisionsAndWhoWasNotSelected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "audit.jsonl")
	l := audit.Open(audit.Options{Path: path})
	uninteresting := change(2)
	uninteresting.Changed = nil
	selection := journal.Decision{Seq: 3, Kind: journal.KindSelection, NotMatched: []journal.NotMatched{{Plugin: "b", Part: "namespaces"}}}
	l.Put([]journal.Decision{change(1), uninteresting, selection})
	l.Put([]journal.Decision{uninteresting, selection})
	closed(t, l)
	got := read(t, path)
	if len(got) != 2 || got[0].Seq != 1 || got[1].Seq != 3 || got[1].NotMatched[0].Part != "namespaces" {
		t.Errorf("%+v", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	if s := l.Stats(); s != (audit.Stats{Written: 2}) {
		t.Errorf("%+v", s)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if !json.Valid(sc.Bytes()) {
			t.Errorf("a line is not JSON: %s", sc.Text())
		}
	}
}

func TestTheFileIsRotatedAndItsSuccessorsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	line, err := json.Marshal(change(10))
	if err != nil {
		t.Fatal(err)
	}
	l := audit.Open(audit.Options{Path: path, MaxSize: int64(len(line)+1) * 3, MaxFiles: 2})
	for n := 10; n < 30; n++ {
		l.Put([]journal.Decision{change(n)})
		eventually(t, func() bool { return l.Stats().Written >= uint64(n-9) }) // one line a write
	}
	closed(t, l)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 3 {
		t.Errorf("%v, %v", err, names)
	}
	for _, n := range names {
		if info, err := os.Stat(n); err != nil || info.Size() > int64(len(line)+1)*3 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %d bytes, mode %v", n, err, info.Size(), info.Mode())
		}
	}
	got := read(t, path)
	for i, d := range got {
		if d.Seq != got[0].Seq+uint64(i) {
			t.Errorf("decision %d comes after %d", d.Seq, got[0].Seq+uint64(i)-1)
		}
	}
	if len(got) < 7 || got[len(got)-1].Seq != 29 {
		t.Errorf("%d decisions are left", len(got))
	}
	if one := read(t, path, `"pod-28"`, `"ns"`); len(one) != 1 || one[0].Seq != 28 {
		t.Errorf("%+v", one)
	}
}

func TestADiskThatDoesNotTakeItCostsLinesAndIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "folder", "audit.jsonl")
	if err := os.WriteFile(filepath.Dir(path), nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	problems := make(chan error, 10)
	l := audit.Open(audit.Options{Path: path, OnProblem: func(err error, _ uint64) { problems <- err }})
	l.Put([]journal.Decision{change(1)})
	if err := <-problems; !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("problem %v", err)
	}
	for n := 2; n <= 9000; n++ { // more than may wait
		l.Put([]journal.Decision{change(n)})
	}
	eventually(t, func() bool { return l.Stats().Lost > 0 })
	if err := os.Remove(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := <-problems; err != nil {
		t.Errorf("problem %v", err)
	}
	closed(t, l)
	got := read(t, path)
	var told uint64
	for _, d := range got {
		if d.Kind == journal.KindLost {
			told += d.Count
		}
	}
	s := l.Stats()
	if told != s.Lost || s.Failing || s.Written+s.Lost != 9000 {
		t.Errorf("the file tells of %d, %+v", told, s)
	}
}

func TestWhatCannotBeWrittenInTheEndIsCounted(t *testing.T) {
	t.Parallel()
	l := audit.Open(audit.Options{Path: "/dev/null/x"})
	l.Put([]journal.Decision{change(1), change(2)})
	closed(t, l)
	l.Put([]journal.Decision{change(3)})
	if s := l.Stats(); s.Written != 0 || s.Lost != 3 || !s.Failing {
		t.Errorf("%+v", s)
	}
}

func TestALineThatWasCutIsEndedAndLeftOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"seq":1,"kind":"event"}`+"\n"+`{"seq":2,"ki`), 0o644); err != nil {
		t.Fatal(err)
	}
	l := audit.Open(audit.Options{Path: path})
	l.Put([]journal.Decision{change(3)})
	closed(t, l)
	got := read(t, path)
	if len(got) != 2 || got[0].Seq != 1 || got[1].Seq != 3 {
		t.Errorf("%+v", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
}

func TestALinkOrAPipeIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe} {
		l := audit.Open(audit.Options{Path: path})
		l.Put([]journal.Decision{change(1)})
		closed(t, l)
		if l.Stats().Written > 0 {
			t.Errorf("%s is written to", path)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("the target of the link is made")
	}
}

func TestAFileThatIsTakenAwayIsMadeAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := audit.Open(audit.Options{Path: path})
	l.Put([]journal.Decision{change(1)})
	eventually(t, func() bool { return l.Stats().Written == 1 })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.Put([]journal.Decision{change(2)})
	closed(t, l)
	if got := read(t, path); len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("%+v", got)
	}
}

func TestReadingWithoutAFileSaysSo(t *testing.T) {
	t.Parallel()
	if err := audit.Read(t.Context(), filepath.Join(t.TempDir(), "none"), nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 3<<20)+"\n{\"seq\":7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); len(got) != 1 || got[0].Seq != 7 {
		t.Errorf("%+v", got)
	}
}
