//go:build root

package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// does lets a plugin do what it has to be able to do for a test to show something.
func does(t *testing.T, i *isolation.Instance, attempts ...string) {
	t.Helper()
	for _, words := range attempts {
		if got := ask(t, i, words); got != "ok" {
			t.Fatalf("%s: %s", words, got)
		}
	}
}

// holds tells whether an incarnation has all of its profile: what is hidden and protected is, and the kernel's files are there.
func holds(t *testing.T, i *isolation.Instance, socket string) {
	t.Helper()
	if r := i.Reduced(); len(r) > 0 {
		t.Errorf("reduced: %q", r)
	}
	for words, want := range map[string]string{
		"connect:" + socket: "denied: ", "write:/etc/nris-test": "denied: ", "write:/run/nris-test": "denied: ", "read:/proc/meminfo": "ok", "list:/sys/kernel": "[",
		"open:/proc/sys/kernel/core_pattern": "denied: ",
	} {
		if got := ask(t, i, words); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}

func TestWhatAPluginPutsInThePlaceOfProtectedAndHiddenPathsWeakensAndKeepsNobody(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, socket := socketIn(t)
	place := programs(t)
	standard := isolation.Standard([]string{runDir, folder})
	first := start(t, spec(t, h, runDir, standard))
	does(t, first,
		"folder:"+place+"/victim", "write:"+place+"/victim/file", "write:"+place+"/docker", "write:"+place+"/lxd",
		"link:rpm@"+place+"/rpm", "link:/@"+place+"/rancher", "link:/@"+place+"/incus", "link:/etc@"+place+"/crio", "link:"+place+"/victim@"+place+"/podman",
	)
	c := isolation.Standard([]string{runDir, folder, place + "/incus", place + "/crio", place + "/podman", place + "/lxd", place + "/lxd/below"})
	c.Protect = append(c.Protect, place+"/rpm", place+"/rancher", place+"/docker", place+"/docker/below")
	unwritten := c
	unwritten.Optional = []isolation.Part{isolation.PartMounts}
	strict := isolation.Strict(c.Hide)
	for profile, c := range map[string]isolation.Confinement{"standard": c, "unwritten": unwritten, "strict": strict} {
		i := start(t, spec(t, h, runDir, c))
		holds(t, i, socket)
		if profile == "strict" {
			continue
		}
		for words, want := range map[string]string{
			"write:" + place + "/victim/file": "ok", "read:/etc/hostname": "ok", "write:" + place + "/docker": "denied: ", "write:" + place + "/beside": "ok",
		} {
			if got := ask(t, i, words); !strings.HasPrefix(got, want) {
				t.Errorf("%s with profile %s: %s, want %s", words, profile, got, want)
			}
		}
	}
}

func TestWhoExchangesProtectedAndHiddenPathsMeanwhileKeepsNobodyFromStarting(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, socket := socketIn(t)
	place := programs(t)
	for _, name := range []string{"/hidden", "/protected"} {
		if err := errors.Join(os.Mkdir(place+name, 0o755), os.WriteFile(place+name+".file", nil, 0o600), os.Symlink("/", place+name+".link")); err != nil {
			t.Fatal(err)
		}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"/hidden", "/protected"} {
				for _, other := range []string{".file", ".link"} {
					_ = unix.Renameat2(unix.AT_FDCWD, place+name, unix.AT_FDCWD, place+name+other, unix.RENAME_EXCHANGE) // it may be the place of a mount
				}
			}
		}
	}()
	defer func() {
		close(stop)
		<-ended
	}()
	c := isolation.Standard([]string{runDir, folder, place + "/hidden"})
	c.Protect, c.Optional = append(c.Protect, place+"/protected"), []isolation.Part{isolation.PartMounts}
	for range 5 {
		i := start(t, spec(t, h, runDir, c))
		holds(t, i, socket)
		i.Kill(isolation.ReasonStopped)
	}
}

func TestAListedPathIsNotLedToWhatTheListDoesNotName(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, socket := socketIn(t)
	hide := []string{runDir, folder}
	place := programs(t)
	first := start(t, spec(t, h, runDir, isolation.Standard(hide)))
	does(t, first, "folder:"+place+"/elsewhere", "link:"+folder+"@"+place+"/runtime", "link:/etc@"+place+"/etc", "link:/@"+place+"/root", "link:/var@"+place+"/var",
		"link:/run@"+place+"/run", "link:"+place+"/elsewhere@"+place+"/fine", "link:/var/run@"+place+"/twice")
	for name, target := range map[string]string{"/runtime": folder, "/etc": "/etc", "/etc/cron.d": "/etc", "/root": "/", "/root/etc": "/etc", "/var": "/var", "/run": "/run", "/twice": "/run"} {
		if _, err := os.Stat(place + name); err != nil {
			continue // this host has no such folder
		}
		for profile, c := range map[string]isolation.Confinement{"standard": isolation.Standard(hide), "strict": isolation.Strict(hide)} {
			for list, c := range map[string]isolation.Confinement{"to read": reading(c, place+name), "to write": writing(c, place+name)} {
				err := startError(t, spec(t, h, runDir, c))
				if text := err.Error(); err.Phase != isolation.PhaseSandbox || !strings.Contains(text, `"`+place+name+`"`) || !strings.Contains(text, target) {
					t.Errorf("%s, %s with profile %s: %v", name, list, profile, err)
				}
			}
		}
	}
	system := filepath.Join("/var/run", filepath.Base(newName(t, "/run"))) // a link that no plugin can change
	if err := os.Mkdir(system, 0o755); err != nil {
		t.Fatal(err)
	}
	c := isolation.Standard(hide)
	c.ReadWrite = []string{place + "/fine", system}
	i := start(t, spec(t, h, runDir, c))
	holds(t, i, socket)
	does(t, i, "write:"+place+"/fine/file", "write:"+system+"/file")
	// A folder in a protected one that another plugin may write to is no better.
	if err := os.Symlink("/etc", system+"/cdi"); err != nil {
		t.Fatal(err)
	}
	c = writing(isolation.Standard(hide), system+"/cdi")
	c.Written = []string{system}
	if err := startError(t, spec(t, h, runDir, c)); !strings.Contains(err.Error(), `leads to "/etc"`) {
		t.Error(err)
	}
}

func reading(c isolation.Confinement, path string) isolation.Confinement {
	c.ReadOnly = []string{path}
	return c
}

func writing(c isolation.Confinement, path string) isolation.Confinement {
	c.ReadWrite = []string{path}
	return c
}

func TestAProtectedFolderIsProtectedWhereverItIsMounted(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	place := programs(t)
	if err := os.Mkdir(place+"/a/b/c", 0o755); err != nil {
		t.Fatal(err)
	}
	mountedAt(t, place+"/a", place+"/whole", "", unix.MS_BIND)
	mountedAt(t, place+"/a/b/c", place+"/part", "", unix.MS_BIND)
	c := isolation.Standard([]string{runDir})
	c.Protect = append(c.Protect, place+"/a/b")
	confined, free := start(t, spec(t, h, runDir, c)), start(t, spec(t, h, runDir, isolation.Confinement{}))
	for _, file := range []string{place + "/a/b/file", place + "/whole/b/file", place + "/part/file"} {
		if got := ask(t, confined, "write:"+file); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s: %s", file, got)
		}
		if got := ask(t, free, "write:"+file); got != "ok" {
			t.Errorf("%s without a profile: %s, so that it shows nothing", file, got)
		}
	}
	does(t, confined, "write:"+place+"/whole/beside")
}

func TestAHiddenLinkToAnotherFolderIsNotThereAndStaysSo(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	link, place := newName(t, "/run"), programs(t)
	socket := place + "/a/isulad.sock"
	listenAt(t, socket)
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	hide := []string{runDir, link}
	listing := isolation.Standard(hide)
	listing.ReadOnly = []string{link}
	free, lists := start(t, spec(t, h, runDir, isolation.Confinement{})), start(t, spec(t, h, runDir, listing))
	confined := map[string]*isolation.Instance{
		"standard": start(t, spec(t, h, runDir, isolation.Standard(hide))), "strict": start(t, spec(t, h, runDir, isolation.Strict(hide))),
	}
	if got := ask(t, lists, "connect:"+link); got != "ok" {
		t.Errorf("who lists it: %s", got)
	}
	for profile, i := range confined {
		if got := ask(t, i, "connect:"+socket); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("what it leads to with profile %s: %s", profile, got)
		}
	}
	listenAt(t, socket) // made anew
	for profile, i := range confined {
		if got := ask(t, i, "connect:"+link); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("with profile %s: %s", profile, got)
		}
	}
	if got := ask(t, free, "connect:"+link); got != "ok" {
		t.Errorf("without a profile: %s, so that it shows nothing", got)
	}
}
