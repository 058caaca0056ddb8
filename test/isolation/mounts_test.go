//go:build root

package isolation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// mountedAt mounts for the time of the test.
func mountedAt(t *testing.T, source, place, kind string, flags uintptr) {
	t.Helper()
	info, err := os.Stat(source)
	if err != nil || info.IsDir() {
		err = os.MkdirAll(place, 0o755)
	} else {
		err = os.WriteFile(place, nil, 0o600)
	}
	if err == nil {
		err = unix.Mount(source, place, kind, flags, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(place, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestAHiddenFolderIsHiddenWhereverItIsMounted(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, socket := socketIn(t)
	place := programs(t)
	mountedAt(t, "/run", place+"/run", "", unix.MS_BIND)
	mountedAt(t, folder, place+"/folder", "", unix.MS_BIND)
	mountedAt(t, socket, place+"/socket", "", unix.MS_BIND)
	sharply(t, runDir, h, []string{runDir, folder}, []string{
		"connect:" + socket,
		"connect:" + filepath.Join(place, "run", filepath.Base(folder), filepath.Base(socket)),
		"connect:" + filepath.Join(place, "folder", filepath.Base(socket)),
		"connect:" + place + "/socket",
	})
}

func TestTheKernelsFilesAreReadOnlyWhereverTheyAreMounted(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	place := programs(t)
	mountedAt(t, "proc", place+"/proc", "proc", 0)
	mountedAt(t, "cgroup2", place+"/cgroup", "cgroup2", 0)
	mountedAt(t, "mqueue", place+"/queues", "mqueue", 0)
	queue, err := os.Create(place + "/queues/one")
	if err != nil {
		t.Fatal(err)
	}
	_ = queue.Close() // a queue is one by being there
	t.Cleanup(func() { _ = os.Remove(place + "/queues/one") })
	sharply(t, runDir, h, []string{runDir}, []string{
		"open:" + place + "/proc/sys/kernel/core_pattern",
		"open:" + place + "/cgroup/cgroup.procs",
		"read:" + place + "/queues/one",
	})
}

func TestAHiddenFolderBelowAListedOneStaysHidden(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	parent := tempDir(t) // in a folder of which plugins have their own
	folder, file := parent+"/runtime", parent+"/file"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder+"/socket", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := isolation.Standard([]string{runDir, folder})
	c.ReadOnly = []string{parent}
	i := start(t, spec(t, h, runDir, c))
	for words, want := range map[string]string{"read:" + file: "ok", "list:" + folder: "[]"} {
		if got := ask(t, i, words); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}

func TestWhatIsMountedBelowAProtectedFolderIsReadOnlyWhereItCameFromToo(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	place := programs(t)
	opt := "/opt/nris-below-" + filepath.Base(place)
	if err := os.Mkdir(place+"/tools", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(opt) })
	mountedAt(t, place+"/tools", opt, "", unix.MS_BIND)
	own := isolation.Standard([]string{runDir})
	own.ReadWrite = []string{place + "/tools"}
	for _, tt := range []struct {
		name    string
		confine isolation.Confinement
		denied  bool
	}{
		{"standard", isolation.Standard([]string{runDir}), true},
		{"standard that lists it", own, false},
		{"none", isolation.None(), false},
	} {
		i := start(t, spec(t, h, runDir, tt.confine))
		if got := ask(t, i, "write:"+place+"/tools/file"); strings.HasPrefix(got, "denied: ") != tt.denied || !tt.denied && got != "ok" {
			t.Errorf("%s, where it came from: %s", tt.name, got)
		}
		if got := ask(t, i, "write:"+place+"/file"); got != "ok" {
			t.Errorf("%s, beside it: %s", tt.name, got)
		}
	}
}
