//go:build root

package isolation_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// listenAt is a service that listens at a path for everybody, with the folders that lead there. What was at the path is gone then.
func listenAt(t *testing.T, socket string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(socket), 0o755), os.RemoveAll(socket)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
}

// newName is a path that does not exist, and is removed at the end.
func newName(t *testing.T, in string) string {
	t.Helper()
	dir, err := os.MkdirTemp(in, "nris-test-")
	if err == nil {
		err = os.Remove(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestWhatIsHiddenStaysSoWhenItAppearsLaterOrIsMadeAnew(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	if err := os.Mkdir("/var/snap", 0o755); err == nil {
		t.Cleanup(func() { _ = os.Remove("/var/snap") }) // not if somebody uses it
	}
	late, direct, above, whole := newName(t, "/run"), newName(t, "/run")+".sock", newName(t, "/run"), newName(t, "/run")
	elsewhere, snap := programs(t)+"/run", newName(t, "/var/snap")
	t.Cleanup(func() { _ = os.Remove(direct) })
	listenAt(t, direct)               // as docker.sock
	listenAt(t, above+"/private")     // as systemd's
	listenAt(t, whole+"/here/socket") // as a runtime
	mountedAt(t, "/run", elsewhere, "", unix.MS_BIND)
	hide := []string{runDir, late, direct, above + "/private", above + "/containerd", whole + "/here", snap + "/common/run"}
	free := start(t, spec(t, h, runDir, isolation.Confinement{}))
	confined := map[string]*isolation.Instance{
		"standard": start(t, spec(t, h, runDir, isolation.Standard(hide))),
		"strict":   start(t, spec(t, h, runDir, isolation.Strict(hide))),
	}
	if err := os.RemoveAll(whole); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{
		late + "/socket", direct, above + "/private", above + "/containerd/socket", whole + "/here/socket", snap + "/common/run/socket",
	} {
		listenAt(t, socket)
		places := []string{socket}
		if rest, ok := strings.CutPrefix(socket, "/run"); ok {
			places = append(places, elsewhere+rest)
		}
		for _, place := range places {
			for profile, i := range confined {
				if got := ask(t, i, "connect:"+place); !strings.HasPrefix(got, "denied: ") {
					t.Errorf("%s with profile %s: %s", place, profile, got)
				}
			}
			if got := ask(t, free, "connect:"+place); got != "ok" {
				t.Errorf("%s without a profile: %s, so that it shows nothing", place, got)
			}
		}
	}
}

func TestWhatIsBesideHiddenPathsStaysAsItIs(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	beside, listed := newName(t, "/run"), newName(t, "/run")
	link, file := newName(t, "/run"), newName(t, "/run")
	mounted(t, listed, "size=1m")
	for _, err := range []error{
		os.Mkdir(beside, 0o755), os.WriteFile(beside+"/early", nil, 0o644), os.Symlink(beside, link), os.WriteFile(file, nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := isolation.Standard([]string{runDir, newName(t, "/run")})
	c.ReadWrite = []string{listed}
	i := start(t, spec(t, h, runDir, c))
	c.ReadWrite = []string{"/run"}
	all := start(t, spec(t, h, runDir, c))
	c.ReadWrite, c.ReadOnly = nil, []string{"/run"}
	reads := start(t, spec(t, h, runDir, c))
	late := newName(t, "/run")
	if err := os.WriteFile(late, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mounted(t, listed+"/late", "size=1m") // which reaches those that list it
	if err := errors.Join(os.WriteFile(listed+"/late/file", nil, 0o644), os.WriteFile(beside+"/fresh", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		plugin *isolation.Instance
		words  string
		want   string
	}{
		{i, "list:" + beside, "[early fresh]"}, // as the addresses of resolvers
		{i, "read:" + link + "/early", "ok"},
		{i, "read:" + file, "ok"},
		{i, "open:" + file, "denied: "},
		{i, "write:" + beside + "/own", "denied: "},
		{i, "write:" + listed + "/own", "ok"},
		{i, "read:" + listed + "/late/file", "ok"},
		{i, "read:" + late, "denied: "},
		{reads, "read:" + late, "denied: "},
		{reads, "read:" + listed + "/late/file", "ok"},
		{all, "read:" + late, "ok"},
		{all, "write:" + late, "ok"},
	} {
		if got := ask(t, tt.plugin, tt.words); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.words, got, tt.want)
		}
	}
}

func TestAStrictPluginConnectsToNobodyOutsideOfTheSystemsFoldersAndItsLists(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, beside, elsewhere := newName(t, "/run"), newName(t, "/run")+".sock", programs(t)
	t.Cleanup(func() { _ = os.Remove(beside) })
	sockets := []string{folder + "/io.example", beside, elsewhere + "/socket"} // as D-Bus's, journald's, a database's
	for _, socket := range sockets {
		listenAt(t, socket)
	}
	hide := []string{runDir}
	lists := isolation.Strict(hide)
	lists.ReadOnly = []string{folder, beside}
	strict, listing, free := start(t, spec(t, h, runDir, isolation.Strict(hide))), start(t, spec(t, h, runDir, lists)), start(t, spec(t, h, runDir, isolation.None()))
	for n, socket := range sockets {
		if got := ask(t, strict, "connect:"+socket); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s with profile strict: %s", socket, got)
		}
		if got := ask(t, listing, "connect:"+socket); (got == "ok") != (n < 2) {
			t.Errorf("%s with profile strict that lists the first two: %s", socket, got)
		}
		if got := ask(t, free, "connect:"+socket); got != "ok" {
			t.Errorf("%s with profile none: %s, so that it shows nothing", socket, got)
		}
	}
}
