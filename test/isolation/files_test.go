//go:build root

package isolation_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// tryFill writes that many MiB into a folder.
func tryFill(arg string) (string, error) {
	dir, size, _ := strings.Cut(arg, "@")
	n, err := strconv.Atoi(size)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "fill")
	if err != nil {
		return "", err
	}
	block := make([]byte, 1<<20)
	for range n {
		if _, err = f.Write(block); err != nil {
			break
		}
	}
	return "", errors.Join(err, f.Close())
}

// tryMany makes that many empty files in a folder.
func tryMany(arg string) (string, error) {
	dir, count, _ := strings.Cut(arg, "@")
	n, err := strconv.Atoi(count)
	if err != nil {
		return "", err
	}
	for i := range n {
		if err := unix.Mknod(fmt.Sprintf("%s/many-%d", dir, i), unix.S_IFREG|0o600, 0); err != nil {
			return "", err
		}
	}
	return "", nil
}

// mounted mounts a file system in memory for the time of the test. What is mounted below it reaches other mount namespaces, as systemd has it.
func mounted(t *testing.T, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,"+options), unix.Mount("", dir, "", unix.MS_SHARED, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsMountedLaterReachesOnlyThePluginsThatListIt(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	place := programs(t)
	mounted(t, place, "size=1m")
	hide := []string{runDir}
	listed := isolation.Standard(hide)
	listed.ReadOnly = []string{place}
	free, lists := start(t, spec(t, h, runDir, isolation.Confinement{})), start(t, spec(t, h, runDir, listed))
	standard := start(t, spec(t, h, runDir, isolation.Standard(hide)))
	strict := start(t, spec(t, h, runDir, isolation.Strict(hide)))

	late := place + "/late"
	mounted(t, late, "size=1m")
	if err := unix.Mknod(late+"/device", unix.S_IFCHR, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", late+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := errors.Join(os.WriteFile(late+"/file", nil, 0o644), os.Chmod(late+"/device", 0o666), os.Chmod(late+"/socket", 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"open:" + late + "/device", "connect:" + late + "/socket", "read:" + late + "/file"} {
		for profile, i := range map[string]*isolation.Instance{"standard": standard, "strict": strict} {
			if got := ask(t, i, words); !strings.HasPrefix(got, "denied: ") {
				t.Errorf("%s with profile %s: %s", words, profile, got)
			}
		}
		for profile, i := range map[string]*isolation.Instance{"none": free, "standard, which lists it": lists} {
			if got := ask(t, i, words); got != "ok" {
				t.Errorf("%s with profile %s: %s", words, profile, got)
			}
		}
	}
}

// mountsOf are the places at which a process sees something mounted.
func mountsOf(t *testing.T, pid int) []string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		out = append(out, strings.Fields(line)[4])
	}
	return out
}

func TestAPluginHoldsNoMountThatItCannotReach(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, place := programs(t), programs(t)
	mounted(t, folder+"/volume", "size=1m")
	mounted(t, place+"/volume", "size=1m")
	hide := []string{runDir, folder}
	for profile, tt := range map[string]struct {
		c     isolation.Confinement
		holds []bool // what is in the hidden folder, what is beside it
	}{
		"none":     {isolation.Confinement{}, []bool{true, true}},
		"standard": {isolation.Standard(hide), []bool{false, true}},
		"strict":   {isolation.Strict(hide), []bool{false, false}},
	} {
		mounts := mountsOf(t, start(t, spec(t, h, runDir, tt.c)).PID())
		for n, dir := range []string{folder, place} {
			if got := slices.Contains(mounts, dir+"/volume"); got != tt.holds[n] {
				t.Errorf("profile %s holds %s/volume: %t", profile, dir, got)
			}
		}
	}
}

func TestWhatAPluginCanWriteIntoMemoryIsBoundedAndTheHostsRunDirectoryIsUntouched(t *testing.T) {
	t.Parallel()
	place := programs(t)
	mounted(t, place, "size=256m,nr_inodes=64k")
	if err := os.Chmod(place, 0o711); err != nil {
		t.Fatal(err)
	}
	h, err := isolation.OpenHost(isolation.HostOptions{RunDir: place, Helper: []string{helper}, OnProblem: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	left := func() (blocks, files uint64) {
		var st unix.Statfs_t
		if err := unix.Statfs(place, &st); err != nil {
			t.Fatal(err)
		}
		return st.Bfree * uint64(st.Bsize), st.Ffree
	}
	const full, above, more = "denied: write ", 65, 17 << 10 // MiB and files: a little more than the bounds
	for profile, c := range map[string]isolation.Confinement{"standard": isolation.Standard([]string{place}), "strict": isolation.Strict([]string{place})} {
		i := start(t, spec(t, h, place, c))
		blocks, files := left()
		for _, dir := range []string{".", "/tmp", "/var/tmp", "/dev/shm"} {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				continue // this host does not have it, and so nobody can fill it
			}
			if got := ask(t, i, fmt.Sprintf("fill:%s@%d", dir, above)); !strings.HasPrefix(got, full) || !strings.HasSuffix(got, unix.ENOSPC.Error()) {
				t.Errorf("filling %s with profile %s: %s", dir, profile, got)
			}
			if got := ask(t, i, fmt.Sprintf("many:%s@%d", dir, more)); !strings.HasSuffix(got, unix.ENOSPC.Error()) {
				t.Errorf("many files in %s with profile %s: %s", dir, profile, got)
			}
		}
		if b, f := left(); b != blocks || f != files {
			t.Errorf("profile %s took %d bytes and %d files of the host's run directory", profile, blocks-b, files-f)
		}
	}
	free := start(t, spec(t, h, place, isolation.Confinement{}))
	blocks, files := left()
	for _, words := range []string{fmt.Sprintf("fill:.@%d", above), fmt.Sprintf("many:.@%d", more)} {
		if got := ask(t, free, words); got != "ok" {
			t.Errorf("%s without a profile: %s, so that it shows nothing", words, got)
		}
	}
	if b, f := left(); blocks-b < above<<20 || files-f < more {
		t.Errorf("without a profile: %d bytes and %d files", blocks-b, files-f)
	}
}

func TestCoreDumpsAreOffFromTheFirstInstructionWhateverTheProfileIs(t *testing.T) {
	t.Parallel()
	var own unix.Rlimit // soft and hard: none here, so that what is seen is the plugin's
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_CORE, &own), unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: own.Max, Max: own.Max})); err != nil {
		t.Fatal(err)
	}
	h, runDir := openHost(t)
	for profile, c := range map[string]isolation.Confinement{
		"none": {}, "standard": isolation.Standard([]string{runDir}), "strict": isolation.Strict([]string{runDir}),
	} {
		var limits string
		exit := run(t, spec(t, h, runDir, c), "/bin/cat", "/proc/self/limits")
		for _, line := range exit.LastOutput {
			limits += strings.Join(strings.Fields(line), " ") + "\n"
		}
		if want := "Max core file size 0 0 bytes\n"; !strings.Contains(limits, want) {
			t.Errorf("profile %s: no %q in\n%s", profile, want, limits)
		}
		if want := "Max open files 1024 "; !strings.Contains(limits, want) {
			t.Errorf("profile %s: no %q in\n%s", profile, want, limits)
		}
	}
}

func TestAProtectedFileCannotBeWrittenReplacedOrMovedAway(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	dir := programs(t)
	file := dir + "/a/b/p"
	install(t, file, []byte("x"))
	c := isolation.Standard([]string{runDir})
	c.Protect = append(c.Protect, file)
	c.ReadWrite = []string{dir + "/a"} // the nearest decides
	confined, free := start(t, spec(t, h, runDir, c)), start(t, spec(t, h, runDir, isolation.Confinement{}))
	for _, words := range []string{"write:" + file, "swap:" + file, "swap:" + dir + "/a/b", "swap:" + dir + "/a"} {
		if got := ask(t, confined, words); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s: %s", words, got)
		}
		if got := ask(t, free, words); got != "ok" {
			t.Errorf("%s without a profile: %s, so that it shows nothing", words, got)
		}
	}
	if got := ask(t, confined, "write:"+dir+"/a/b/beside"); got != "ok" {
		t.Errorf("beside it: %s", got)
	}
}

func TestTheControlServiceIsReachedWhereverThePluginsOwnFilesAre(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	for profile, c := range map[string]isolation.Confinement{
		"none": isolation.None(), "standard": isolation.Standard([]string{runDir}), "strict": isolation.Strict([]string{runDir}),
	} {
		s := spec(t, h, runDir, c)
		s.Args, s.Protocol = []string{builtWithTheSDK}, isolation.GoPlugin
		i := start(t, s)
		if d, err := i.Describe(t.Context()); err != nil || len(d.Events) == 0 {
			t.Errorf("profile %s: %+v, %v", profile, d, err)
		}
		if got := ask(t, i, "nothing"); got != "ok" {
			t.Errorf("profile %s: %s", profile, got)
		}
		sockets := 0
		err := filepath.WalkDir(runDir+"/plugins/test", func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type() == fs.ModeSocket {
				sockets++
			}
			return err
		})
		if seen := sockets > 0; err != nil || seen != (profile == "none") {
			t.Errorf("profile %s: the host sees %d sockets of its own, %v", profile, sockets, err)
		}
		i.Stop(t.Context())
	}
}
