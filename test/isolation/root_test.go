//go:build root

package isolation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// twice makes the test binary a supervisor of a host that has its root folder mounted a second time.
const twice = "twice"

// rootTwice is such a host, with a plugin.
type rootTwice struct {
	RunDir string
	// Place is a folder of the test, in which plugins may write. It has the folders host and again, and below them are the places of what is mounted.
	Place string
	Mount string // one of secondRoots
	// Profile is none, or the plugin's is the standard one.
	None     bool
	Writable []string
	Attempts []string
}

// secondRoots are the ways to mount it a second time.
func secondRoots(place string) map[string]func() error {
	bind := func(to string, flags uintptr) func() error {
		return func() error { return unix.Mount("/", to, "", unix.MS_BIND|flags, "") }
	}
	return map[string]func() error{
		"alone":      bind(place+"/host", 0),
		"with all":   bind(place+"/host", unix.MS_REC),
		"over":       bind("/", 0),
		"over twice": func() error { return errors.Join(bind("/", unix.MS_REC)(), bind("/..", unix.MS_REC)()) },
		"two levels": func() error {
			return errors.Join(bind(place+"/host", unix.MS_REC)(), bind(place+"/again", unix.MS_REC)())
		},
		"read only": func() error {
			return errors.Join(bind(place+"/host", 0)(), unix.Mount("", place+"/host", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		},
		"as a part": func() error { return rootInAPart(place) },
	}
}

// rootInAPart makes the root a folder of a file system, as a subvolume is, and mounts the whole of that as well.
func rootInAPart(place string) error {
	whole := place + "/host"
	err := errors.Join(unix.Mount("tmpfs", whole, "tmpfs", 0, ""), os.MkdirAll(whole+"/above/root", 0o755))
	entries, listed := os.ReadDir("/")
	err = errors.Join(err, listed)
	root := place + "/again"
	err = errors.Join(err, unix.Mount(whole+"/above/root", root, "", unix.MS_BIND, ""))
	for _, e := range entries {
		from, to := "/"+e.Name(), root+"/"+e.Name()
		switch {
		case e.IsDir():
			err = errors.Join(err, os.Mkdir(to, 0o755), unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""))
		case e.Type() == fs.ModeSymlink:
			target, failed := os.Readlink(from)
			err = errors.Join(err, failed, os.Symlink(target, to))
		}
	}
	// The one that is the place of the whole is below the root, as seen from there.
	return errors.Join(err, unix.Chroot(root), os.Chdir("/"), unix.Unmount(place+"/again", unix.MNT_DETACH))
}

// mountTwice makes such a host, in a mount namespace that is its own, and says what came of the plugin's attempts, a line each.
func mountTwice(order string) int {
	var o rootTwice
	err := json.Unmarshal([]byte(order), &o)
	if err == nil {
		err = secondRoots(o.Place)[o.Mount]()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: o.RunDir, Helper: []string{helper}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer h.Close()
	c := isolation.Standard([]string{o.RunDir})
	if o.None {
		c = isolation.None()
	}
	c.ReadWrite = o.Writable
	exe, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, err := isolation.Start(ctx, isolation.Spec{
		Name: "test", Index: "42", Path: exe, Args: []string{hostile}, Protocol: isolation.NRI, RunDir: o.RunDir, Host: h, Confine: c,
	})
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	defer i.Kill(isolation.ReasonStopped)
	if _, err := i.Configure(ctx, &api.ConfigureRequest{RuntimeName: "test", RuntimeVersion: "v1", RegistrationTimeout: 60000, RequestTimeout: 60000}); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, words := range o.Attempts {
		fmt.Println(words, "->", told(ctx, i, words))
	}
	return 0
}

// on runs such a host, and returns what it said of each attempt.
func (o *rootTwice) on(t *testing.T) map[string]string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, twice, string(order))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // which is private
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if words, what, ok := strings.Cut(strings.TrimSpace(line), " -> "); ok {
			said[words] = what
		}
	}
	return said
}

func TestTheEntriesOfTheRootAreKeptWhereverItIsMounted(t *testing.T) {
	t.Parallel()
	const over = "/.."
	for name, root := range map[string]string{
		// below the test's folder
		"alone": "/host", "with all": "/host", "two levels": "/again", "as a part": "/host/above/root",
		"over": over, "over twice": over,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := programs(t)
			link := "/nris-test-" + filepath.Base(place)
			for _, err := range []error{os.Mkdir(place+"/host", 0o755), os.Mkdir(place+"/again", 0o755), os.Symlink("usr/bin", link)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { _ = errors.Join(os.Remove(link), os.RemoveAll(link+"-new"), os.Remove(link+"-moved")) })
			if root != over {
				root = place + root
			}
			denied := []string{"swap:" + root + link, "folder:" + root + link + "-new"}
			allowed := []string{"write:" + place + "/file"}
			if name == "two levels" {
				denied = append(denied, "swap:"+place+"/again"+place+"/host"+link, "swap:"+place+"/host"+link)
			}
			o := rootTwice{RunDir: tempDir(t), Place: place, Mount: name, Attempts: append(allowed, denied...)}
			got := o.on(t)
			o.RunDir, o.None = tempDir(t), true
			free := o.on(t)
			for _, words := range allowed {
				if got[words] != "ok" {
					t.Errorf("%s with profile standard: %s", words, got[words])
				}
			}
			for _, words := range denied {
				if !strings.HasPrefix(got[words], "denied: ") {
					t.Errorf("%s with profile standard: %s", words, got[words])
				}
				if free[words] != "ok" {
					t.Errorf("%s without a profile: %s, so that the attempt shows nothing", words, free[words])
				}
			}
		})
	}
}

func TestWhatAPluginListsBelowASecondPlaceOfTheRootIsAsListed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mount string
		list  string // below the test's folder
		free  bool   // the root's entries are the plugin's then
		tmp   bool   // the test's folder is one of those that are the plugin's own
	}{
		"below it":                          {"alone", "/host/var/lib", false, false},
		"below it, with what it is made of": {"with all", "/host/var/lib", false, false},
		"above it":                          {"alone", "", false, false},
		"itself":                            {"alone", "/host", true, false},
		"the host has it read only":         {"read only", "", false, false},
		"above it, in a temporary folder":   {"alone", "", false, true},
		"with all, in a temporary folder":   {"with all", "", false, true},
		"itself, in a temporary folder":     {"alone", "/host", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := programs(t)
			if tt.tmp {
				place = t.TempDir()
			}
			for _, err := range []error{os.Mkdir(place+"/host", 0o755), os.Mkdir(place+"/again", 0o755)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			entry := "/nris-test-" + filepath.Base(place)
			t.Cleanup(func() { _ = errors.Join(os.Remove(entry), os.Remove("/etc"+entry)) })
			protected := "folder:" + place + "/host/etc" + entry
			root, own, ordinary := "folder:"+place+"/host"+entry, "write:"+place+"/host"+place+"/again/file", "write:"+place+"/file"
			got := (&rootTwice{RunDir: tempDir(t), Place: place, Mount: tt.mount, Writable: []string{place + tt.list}, Attempts: []string{root, own, ordinary, protected}}).on(t)
			if !strings.HasPrefix(got[protected], "denied: ") {
				t.Errorf("what is protected: %s", got[protected])
			}
			if ok := got[root] == "ok"; ok != tt.free || !ok && !strings.HasPrefix(got[root], "denied: ") {
				t.Errorf("an entry of the root: %s", got[root])
			}
			if listed := tt.list != ""; (got[own] == "ok") != listed {
				t.Errorf("what is below it: %s, want it to be written: %v", got[own], listed)
			}
			if got[ordinary] != "ok" {
				t.Errorf("what any plugin may write: %s", got[ordinary])
			}
		})
	}
}
