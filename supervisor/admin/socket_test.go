package admin_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

// staleSocket leaves a socket behind on which nobody listens.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// refusal is the error with which Serve refuses to listen. The context is over already, so that a Serve that wrongly listens ends.
func refusal(t *testing.T, socket string) error {
	t.Helper()
	return admin.Serve(t.Context(), socket, &admintest.Fake{}, admin.Options{Listening: func() { t.Errorf("it listens on %q", socket) }})
}

func TestServeKeepsTheSocketToItsOwnUser(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(admintest.ShortDir(t), "run", "nri")
	socket := filepath.Join(folder, "admin.sock")
	stop := admintest.Serve(t, socket, &admintest.Fake{}, admin.Options{})
	for path, want := range map[string]fs.FileMode{folder: fs.ModeDir | 0o700, socket: fs.ModeSocket | 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("mode of %q is %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	stop()
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	admintest.Serve(t, socket, &admintest.Fake{}, admin.Options{}) // and it can be used again
}

func TestServeReplacesAStaleSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(admintest.ShortDir(t), "admin.sock")
	staleSocket(t, socket)
	admintest.Serve(t, socket, &admintest.Fake{}, admin.Options{})
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServeLeavesAloneWhatIsNotAStaleSocket(t *testing.T) {
	t.Parallel()
	live := admintest.Served(t, &admintest.Fake{})
	dir := admintest.ShortDir(t)
	file, link, folder, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "folder"), filepath.Join(dir, "pipe")
	stale := filepath.Join(dir, "stale")
	staleSocket(t, stale)
	for _, err := range []error{os.WriteFile(file, []byte("precious"), 0o600), os.Symlink(stale, link), os.Mkdir(folder, 0o700), syscall.Mkfifo(pipe, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		live: "somebody already answers on", file: "is not a socket", link: "is not a socket", folder: "is not a socket", pipe: "is not a socket",
	} {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := refusal(t, path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: error %v", path, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%q was replaced", path)
		}
	}
	if _, err := dial(t, live).Status(t.Context()); err != nil {
		t.Errorf("the first one does not answer any more: %v", err)
	}
}

func TestServeLeavesTheFileOfItsSuccessor(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(admintest.ShortDir(t), "admin.sock")
	stop := admintest.Serve(t, socket, &admintest.Fake{}, admin.Options{})
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	admintest.Serve(t, socket, &admintest.Fake{}, admin.Options{})
	stop()
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Errorf("the successor cannot be reached: %v", err)
	}
}

func TestServeRefusesPathsThatCannotBeSafe(t *testing.T) {
	t.Parallel()
	dir := admintest.ShortDir(t)
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o770); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := "/" + strings.Repeat("x", 107)
	for path, want := range map[string]string{
		"":                                "the path of the admin socket is empty",
		"admin.sock":                      `the path "admin.sock" of the admin socket is not absolute`,
		"@abstract":                       `the path "@abstract" of the admin socket is not absolute`,
		long:                              "has 108 bytes, and unix sockets allow 107: choose a shorter one",
		filepath.Join(open, "admin.sock"): "can be written by others (mode 0770): chmod go-w it, or set spec.admin.socket elsewhere",
		filepath.Join(file, "admin.sock"): "create the folder of the admin socket",
	} {
		if err := refusal(t, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", path, err, want)
		}
	}
	if _, err := admin.Dial(long); err == nil || !strings.Contains(err.Error(), "has 108 bytes") {
		t.Errorf("Dial: error %v", err)
	}
	if _, err := admin.Dial(""); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("Dial: error %v", err)
	}
}

func TestASocketPathOfThe107BytesThatAreAllowedWorks(t *testing.T) {
	t.Parallel()
	dir := admintest.ShortDir(t)
	socket := filepath.Join(dir, strings.Repeat("s", 107-len(dir)-1))
	admintest.Serve(t, socket, &admintest.Fake{}, admin.Options{})
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDialTakesARelativePath(t *testing.T) {
	t.Parallel()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c, err := admin.Dial("x.sock")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(wd, "x.sock"); c.Socket() != want {
		t.Errorf("socket %q, want %q", c.Socket(), want)
	}
}
