//go:build root

package isolation_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

const nobody = 65534

// programs is a folder outside of the private temporary ones, with folders a/b in it that are root's.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "nris-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.MkdirAll(dir+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install makes a program. Another process writes it: a child that is forked here meanwhile would hold the file open, and it could not be executed.
func install(t *testing.T, path string, content []byte) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `cat >"$0" && chmod 755 "$0"`, path)
	cmd.Stdin = bytes.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v: %s", path, err, out)
	}
}

// copied installs a copy of a program.
func copied(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	install(t, to, data)
}

// script is a program that says as what it was opened, and ends.
func script(t *testing.T, path, interpreter string) {
	t.Helper()
	install(t, path, []byte("#!"+interpreter+"\necho \"$0\" >&2\nexit 7\n"))
}

// startError is why the program was not started, or how it ended.
func startError(t *testing.T, s isolation.Spec) *isolation.StartError {
	t.Helper()
	i, err := isolation.Start(t.Context(), s)
	if err == nil {
		i.Kill(isolation.ReasonStopped)
		t.Fatalf("%s is a plugin", s.Path)
	}
	e, ok := errors.AsType[*isolation.StartError](err)
	if !ok {
		t.Fatal(err)
	}
	return e
}

func TestAProgramThatOthersCanChangeIsRefusedAndRunsWithoutTheCheck(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	for name, tt := range map[string]struct {
		weaken func(t *testing.T, dir string) error
		want   string
	}{
		"the file is writable":         {func(_ *testing.T, dir string) error { return os.Chmod(dir+"/a/b/p", 0o777) }, "the file DIR/a/b/p can be written by others (owner 0, group 0, mode 0777): chmod go-w DIR/a/b/p"},
		"its folder is writable":       {func(_ *testing.T, dir string) error { return os.Chmod(dir+"/a/b", 0o775) }, "the folder DIR/a/b can be written by others (owner 0, group 0, mode 0775)"},
		"a folder above is writable":   {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o777) }, "the folder DIR can be written by others (owner 0, group 0, mode 0777)"},
		"the file is somebody's":       {func(_ *testing.T, dir string) error { return os.Chown(dir+"/a/b/p", nobody, 0) }, "the file DIR/a/b/p belongs to user 65534"},
		"a folder above is somebody's": {func(_ *testing.T, dir string) error { return os.Chown(dir+"/a", nobody, 0) }, "the folder DIR/a belongs to user 65534"},
		"the link is somebody's":       {func(_ *testing.T, dir string) error { return os.Lchown(dir+"/link", nobody, 0) }, "the link DIR/link belongs to user 65534"},
		"a sticky folder is somebody's": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Chown(dir+"/a", nobody, 0), os.Chmod(dir+"/a", 0o777|os.ModeSticky))
		}, "the folder DIR/a belongs to user 65534"},
		"its interpreter is writable": {func(_ *testing.T, dir string) error { return os.Chmod(dir+"/sh", 0o757) }, "check interpreter of \"DIR/link/p\": check \"DIR/sh\": the file DIR/sh can be written by others"},
		"what env finds is writable": {func(t *testing.T, dir string) error {
			script(t, dir+"/a/b/p", "/usr/bin/env sh")
			return os.Chmod(dir+"/sh", 0o757)
		}, "check interpreter of \"DIR/link/p\": check \"DIR/sh\": the file DIR/sh can be written by others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := programs(t)
			copied(t, "/bin/sh", dir+"/sh")
			if err := os.Symlink("a/b", dir+"/link"); err != nil {
				t.Fatal(err)
			}
			script(t, dir+"/a/b/p", dir+"/sh")
			c := isolation.Standard([]string{runDir})
			c.TrustFile = true
			s := spec(t, h, runDir, c)
			s.Path, s.Env = dir+"/link/p", append(s.Env, "PATH="+dir+":/usr/bin:/bin")
			if got := startError(t, s); got.Phase != isolation.PhaseRegister || got.Exit.Code != 7 {
				t.Fatalf("before: %v, %s", got, got.Exit)
			}
			if err := tt.weaken(t, dir); err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(tt.want, "DIR", dir)
			if got := startError(t, s); got.Phase != isolation.PhaseBinary || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "fileTrust: off") {
				t.Errorf("%v, want %q", got, want)
			}
			s.Confine.TrustFile = false
			if got := startError(t, s); got.Phase != isolation.PhaseRegister || got.Exit.Code != 7 {
				t.Errorf("without the check: %v, %s", got, got.Exit)
			}
		})
	}
}

func TestWhatLiesOnAReadOnlyMountIsJudgedByItsOwner(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	dir := programs(t)
	if err := unix.Mount("tmpfs", dir+"/a", "tmpfs", 0, "size=1m,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir+"/a", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	script(t, dir+"/a/p", "/bin/sh")
	s := spec(t, h, runDir, isolation.Standard([]string{runDir}))
	s.Path = dir + "/a/p"
	if got := startError(t, s); got.Phase != isolation.PhaseBinary || !strings.Contains(got.Error(), "the folder "+dir+"/a can be written by others") {
		t.Errorf("writable: %v", got)
	}
	if err := unix.Mount("", dir+"/a", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if got := startError(t, s); got.Phase != isolation.PhaseRegister || got.Exit.Code != 7 {
		t.Errorf("read-only: %v, %s", got, got.Exit)
	}
}

func TestAScriptIsReadFromWhatWasChecked(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	for name, tt := range map[string]struct {
		confine         isolation.Confinement
		trust, pin, tmp bool
		want            string // what the script is told to be
	}{
		"trusted":                      {isolation.Standard([]string{runDir}), true, false, false, "PATH"},
		"trusted and strict":           {isolation.Strict([]string{runDir}), true, false, false, "/proc/self/fd/6"}, // its folder is not to be seen
		"trusted in a hidden folder":   {isolation.Standard([]string{runDir}), true, false, true, "/proc/self/fd/6"},
		"not trusted":                  {isolation.Standard([]string{runDir}), false, false, false, "/proc/self/fd/6"},
		"not trusted, no profile":      {isolation.Confinement{}, false, false, false, "/proc/self/fd/6"},
		"pinned":                       {isolation.Standard([]string{runDir}), true, true, false, "/proc/self/fd/6"},
		"pinned and strict":            {isolation.Strict([]string{runDir}), true, true, false, "/proc/self/fd/6"},
		"pinned and without a profile": {isolation.Confinement{}, true, true, false, "/proc/self/fd/6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := programs(t)
			if tt.tmp {
				dir = tempDir(t)
			}
			script(t, dir+"/p", "/bin/sh")
			s := spec(t, h, runDir, tt.confine)
			s.Path, s.Confine.TrustFile = dir+"/p", tt.trust
			if tt.pin {
				data, err := os.ReadFile(s.Path)
				if err != nil {
					t.Fatal(err)
				}
				s.SHA256 = fmt.Sprintf("%x", sha256.Sum256(data))
			}
			got := startError(t, s)
			want := strings.ReplaceAll(tt.want, "PATH", s.Path)
			if got.Phase != isolation.PhaseRegister || got.Exit.Code != 7 || !slices.Contains(got.Exit.LastOutput, want) {
				t.Errorf("%v, %s, %q, want %q", got, got.Exit, got.Exit.LastOutput, want)
			}
		})
	}
}

func TestAPinnedPluginIsASealedCopyOfWhatWasHashed(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	dir := programs(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "plugin")
	install(t, path, data)
	pin := fmt.Sprintf("%x", sha256.Sum256(data))
	for name, c := range map[string]isolation.Confinement{
		"none": {}, "standard": isolation.Standard([]string{runDir}), "strict": isolation.Strict([]string{runDir}),
	} {
		s := spec(t, h, runDir, c)
		s.Path, s.SHA256 = path, pin
		i := start(t, s)
		if got := ask(t, i, "nothing"); got != "ok" {
			t.Errorf("%s: %s", name, got)
		}
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", i.PID())); err != nil || !strings.HasPrefix(target, "/memfd:plugin") {
			t.Errorf("%s: executes %q, %v", name, target, err)
		}
		// Whoever could write to the file that was hashed changes nothing of what runs: it is another one.
		if got := ask(t, i, "write:/proc/self/exe"); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s: writing to the copy: %s", name, got)
		}
	}
	if err := os.WriteFile(path, append(data, 'x'), 0o755); err != nil {
		t.Error("the file cannot be replaced in place although nobody executes it: ", err)
	}
	s := spec(t, h, runDir, isolation.Standard([]string{runDir}))
	s.Path, s.SHA256 = path, pin
	if got := startError(t, s); got.Phase != isolation.PhaseBinary || !strings.Contains(got.Error(), "the manifest pins "+pin) {
		t.Errorf("another content: %v", got)
	}
}

func TestProgramsThatGainPrivilegesAreRefusedUnlessThereIsNoProfile(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	for name, tt := range map[string]struct {
		raise func(path string) error
		want  string
	}{
		"setuid": {func(path string) error { return os.Chmod(path, 0o755|os.ModeSetuid) }, "setuid or setgid programs are refused"},
		"setgid": {func(path string) error { return os.Chmod(path, 0o755|os.ModeSetgid) }, "setuid or setgid programs are refused"},
		"file capabilities": {func(path string) error {
			// VFS_CAP_REVISION_2, CAP_CHOWN permitted: capabilities(7).
			value := []byte{1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			return unix.Setxattr(path, "security.capability", value, 0)
		}, "programs with file capabilities are refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(programs(t), "p")
			copied(t, "/bin/false", path)
			if err := tt.raise(path); err != nil {
				t.Fatal(err)
			}
			for profile, c := range map[string]isolation.Confinement{"standard": isolation.Standard([]string{runDir}), "strict": isolation.Strict([]string{runDir})} {
				s := spec(t, h, runDir, c)
				s.Path, s.Args = path, nil
				if got := startError(t, s); got.Phase != isolation.PhaseBinary || !strings.Contains(got.Error(), tt.want) {
					t.Errorf("%s: %v", profile, got)
				}
			}
			s := spec(t, h, runDir, isolation.Confinement{Setuid: true})
			s.Path, s.Args = path, nil
			if got := startError(t, s); got.Phase != isolation.PhaseRegister || got.Exit.Code != 1 {
				t.Errorf("without a profile: %v, %s", got, got.Exit)
			}
		})
	}
}

func TestWhatTheEnvironmentMakesAProgramLoadAndWhereALinkLeadsAreCheckedAtEachStart(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	dir := programs(t)
	script(t, dir+"/a/b/p", "/bin/sh")
	if err := errors.Join(os.Symlink("b/p", dir+"/a/link"), os.WriteFile(dir+"/lib.so", nil, 0o600), os.Chmod(dir+"/lib.so", 0o666)); err != nil {
		t.Fatal(err)
	}
	s := spec(t, h, runDir, isolation.Strict([]string{runDir}))
	s.Path = dir + "/a/link"
	within := s
	within.CheckPath = func(path string) error {
		if path != dir+"/a/b/p" {
			return fmt.Errorf("it leads to %q", path)
		}
		return nil
	}
	if got := startError(t, within); got.Phase != isolation.PhaseRegister || got.Exit.Code != 7 {
		t.Errorf("where it may: %v", got)
	}
	outside := s
	outside.CheckPath = func(string) error { return errors.New("not here") }
	if got := startError(t, outside); got.Phase != isolation.PhaseBinary || !strings.HasSuffix(got.Error(), "check \""+s.Path+"\": not here") {
		t.Errorf("where it may not: %v", got)
	}
	loads := s
	loads.Env = append(slices.Clone(s.Env), "LD_PRELOAD="+dir+"/lib.so")
	if got := startError(t, loads); got.Phase != isolation.PhaseBinary || !strings.Contains(got.Error(), "variable LD_PRELOAD: the file "+dir+"/lib.so can be written by others") {
		t.Errorf("a library that others can write: %v", got)
	}
	loads.Confine.TrustFile = false
	if got := startError(t, loads); got.Phase != isolation.PhaseRegister || got.Exit.Code != 7 {
		t.Errorf("the same without the check: %v", got)
	}
}
