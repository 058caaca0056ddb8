package isolation_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

func TestTheFolderStaysAndOnlyTheSocketIsReplaced(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(runDir(t), "attach", "test")
	socket := filepath.Join(folder, "nri.sock")
	d := openDock(t, isolation.DockSpec{Socket: socket})
	before := inode(t, folder)
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	d.Close()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil { // as after a kill
		t.Fatal(err)
	}
	again := openDock(t, isolation.DockSpec{Socket: socket})
	if after := inode(t, folder); after != before {
		t.Errorf("the folder is another: inode %d, before %d", after, before)
	}
	dial(t, socket, "17")
	next(t, again)
	if _, err := isolation.OpenDock(t.Context(), isolation.DockSpec{Socket: socket}); err == nil || !strings.Contains(err.Error(), "somebody else answers") {
		t.Errorf("a second listener: %v", err)
	}
}

func TestASocketThatSomebodyRemovesIsMadeAnewAndTheFolderIsNot(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(runDir(t), "attach", "test")
	socket := filepath.Join(folder, "nri.sock")
	told := make(chan error, 10)
	d := openDock(t, isolation.DockSpec{Socket: socket, WatchEvery: time.Millisecond, OnRemade: func(err error) { told <- err }})
	before := inode(t, folder)
	dial(t, socket, "17")
	serving := next(t, d)
	hear := func(want string) {
		t.Helper()
		select {
		case err := <-told:
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("told %v, want %q", err, want)
			}
		case <-time.After(patience):
			t.Fatalf("told nothing in %s", patience)
		}
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	hear("")
	if after := inode(t, folder); after != before {
		t.Errorf("the folder is another: inode %d, before %d", after, before)
	}
	if info, err := os.Lstat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	select {
	case <-serving.ConnClosed():
		t.Error("the connection that was there has ended")
	default:
	}
	dial(t, socket, "18")
	next(t, d)

	// Something else in its place is not ours to remove, and that is told once.
	moved := filepath.Join(folder, "moved")
	if err := os.WriteFile(moved, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(moved, socket); err != nil { // at once, so that it is not made anew in between
		t.Fatal(err)
	}
	hear("is not a socket: remove it")
	remove()
	hear("")

	// Without the folder nothing is made, until somebody has made it again.
	if err := os.Rename(folder, folder+"-gone"); err != nil {
		t.Fatal(err)
	}
	hear("no such file or directory")
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
	if err := os.Rename(folder+"-gone", folder); err != nil {
		t.Fatal(err)
	}
	dial(t, socket, "19")
	next(t, d)
	d.Close()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestASocketIsMadeOnlyWhereNobodyElseCanReplaceIt(t *testing.T) {
	t.Parallel()
	dir := runDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]string{
		file:                               "is not a socket",
		filepath.Join(open, "s"):           "can be written by others",
		"relative":                         "absolute path",
		"/" + strings.Repeat("x", 200):     "107 bytes",
		filepath.Join(file, "below", "it"): "not a directory",
	} {
		if _, err := isolation.OpenDock(t.Context(), isolation.DockSpec{Socket: socket}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", socket, err, want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}
