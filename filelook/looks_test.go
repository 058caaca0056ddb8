package filelook_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/filelook"
)

func TestALookThatHangsEndsForWhoAskedAndIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var looks filelook.Looks
	var begun atomic.Int32
	release := make(chan struct{})
	hang := func() int {
		begun.Add(1)
		<-release
		return 7
	}
	for range 3 {
		_, err := filelook.Ask(&looks, dir+"/hung", hang)
		silent, ok := errors.AsType[*filelook.SilentError](err)
		if !ok || silent.At != dir+"/hung" || silent.Since.IsZero() {
			t.Fatalf("a look that hangs: %v", err)
		}
	}
	if n := begun.Load(); n != 1 {
		t.Errorf("begun %d times", n)
	}
	if got, err := filelook.Ask(&looks, dir, func() int { return 1 }); got != 1 || err != nil {
		t.Errorf("another path: %d, %v", got, err)
	}
	if got := looks.Silent(); len(got) != 0 {
		t.Errorf("mounts %q do not answer, though their files do", got)
	}
	close(release)
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	select {
	case <-looks.Answered():
	case <-limit.C:
		t.Fatal("nobody is told that it answers again")
	}
	if got, err := filelook.Ask(&looks, dir+"/hung", hang); got != 7 || err != nil {
		t.Errorf("when it answers again: %d, %v", got, err)
	}
}

func TestAPathWithoutLinksIsRememberedWhileThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	var looks filelook.Looks
	want := func(when string) {
		t.Helper()
		if got, ok := looks.Resolved(dir + "/link"); got != dir || !ok {
			t.Errorf("%s: %q, %v", when, got, ok)
		}
	}
	want("at first")
	release := make(chan struct{})
	if err := looks.Try(dir+"/link", func() error { <-release; return nil }); err == nil {
		t.Error("an answer of what does not answer")
	}
	want("without an answer")
	close(release)
	<-looks.Answered()
	if err := os.Remove(dir + "/link"); err != nil {
		t.Fatal(err)
	}
	if got, ok := looks.Resolved(dir + "/link"); ok {
		t.Errorf("what is gone leads to %q", got)
	}
}

func TestNilLooksWithoutALimit(t *testing.T) {
	t.Parallel()
	var looks *filelook.Looks
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := looks.Resolved(dir); got != dir || !ok {
		t.Errorf("%q, %v", got, ok)
	}
	if _, ok := looks.Resolved(dir + "/none"); ok || looks.Silent() != nil {
		t.Error("something is at a path at which nothing is")
	}
	looks.Served([]string{dir}, []string{dir})
}

// The kernel gives a signal to the first thread if it can, which may be the one that waits for a file system.
func TestALookTakesNoSignalFromThoseWhoCouldAct(t *testing.T) {
	t.Parallel()
	var looks filelook.Looks
	status, err := filelook.Ask(&looks, t.TempDir(), func() string {
		data, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			return err.Error()
		}
		return string(data)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, blocked, ok := strings.Cut(status, "SigBlk:")
	mask, err := strconv.ParseUint(strings.Fields(blocked + " none")[0], 16, 64)
	if !ok || err != nil || mask&(1<<(uint(syscall.SIGTERM)-1)) == 0 {
		t.Errorf("the thread of a look takes SIGTERM: mask %x, %v", mask, err)
	}
}

// Which file systems have a server depends on the host, so that only who has a mount of one sees the first look at it: test/isolation.
func TestALookAtTheHostsOwnDiskIsMadeHere(t *testing.T) {
	t.Parallel()
	looks := filelook.Looks{First: func(place string) { t.Errorf("%s is looked at elsewhere", place) }}
	if got, err := filelook.Ask(&looks, "/proc/self/status", func() int { return 1 }); got != 1 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}
