//go:build root

package isolation_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// TestWhatTheCommandSecurityCallsAWayOutIsOne holds what `nri-supervisor security` says of manifests against what a plugin can do with them: the table
// is that of TestWhoCanUndoHisConfinementIsShownAsThatInEachLine, beside the command. Each plugin makes the attempts one after the other.
func TestWhatTheCommandSecurityCallsAWayOutIsOne(t *testing.T) {
	t.Parallel()
	h, runDir := openHost(t)
	folder, socket := socketIn(t)
	place := programs(t)
	outside := filepath.Join(unifiedTree(t), filepath.Base(place))
	file, forAll := place+"/a/file", place+"/sock"
	l, err := net.Listen("unix", forAll)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, err := range []error{os.Mkdir(outside, 0o755), os.WriteFile(file, nil, 0o600), os.Chmod(forAll, 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Remove("/run/" + filepath.Base(place)) })
	t.Cleanup(func() { eventually(t, "the cgroup is empty", func() bool { return unix.Rmdir(outside) == nil }) })
	const nobody = 65534
	with := func(c isolation.Confinement, names ...string) isolation.Confinement {
		c.Capabilities, c.Required = append(slices.Clone(c.Capabilities), names...), names
		return c
	}
	standard, strict := isolation.Standard([]string{runDir, folder}), isolation.Strict([]string{runDir, folder})
	standard.Protect = append(slices.Clone(standard.Protect), place+"/a")
	lists := func(c isolation.Confinement, path string) isolation.Confinement {
		c.ReadWrite = []string{path}
		return c
	}
	as := func(c isolation.Confinement, names ...string) isolation.Confinement {
		c.User, c.OwnUser, c.Capabilities = &isolation.User{UID: nobody, GID: nobody}, false, nil
		return with(c, names...)
	}
	migrate, byHandle := "migrate:"+outside+"/cgroup.procs", "handle:"+file+"@"+place
	const pattern = "open:/proc/sys/kernel/core_pattern"
	for name, tt := range map[string]struct {
		c        isolation.Confinement
		attempts []string // each has to be denied, or if it begins with + to succeed
	}{
		"standard":                     {standard, []string{"umount:" + folder, "connect:" + socket, migrate, pattern, byHandle, "+connect:" + forAll}},
		"mounts":                       {with(standard, "SYS_ADMIN"), []string{"connect:" + socket, "+umount:/run", "+connect:" + socket}},
		"mounts, confined by Landlock": {with(strict, "SYS_ADMIN"), []string{"umount:" + folder, "mount:/tmp", "connect:" + socket}},
		"files by number":              {with(standard, "DAC_READ_SEARCH"), []string{"open:" + file, "+" + byHandle}},
		"files by number, as nobody":   {as(standard, "DAC_READ_SEARCH"), []string{byHandle}},
		"cgroups":                      {lists(standard, "/sys/fs/cgroup"), []string{pattern, "connect:" + socket, "+" + migrate}},
		"above cgroups":                {lists(standard, "/sys"), []string{pattern, "+" + migrate}},
		"cgroups, as nobody":           {as(lists(standard, "/sys/fs/cgroup")), []string{migrate, "become:0"}},
		"cgroups, as who becomes root": {as(lists(standard, "/sys/fs/cgroup"), "SETUID"), []string{migrate, "+become:0", "+" + migrate}},
		"cgroups, as strict":           {lists(strict, "/sys/fs/cgroup"), []string{migrate}},
		"proc":                         {lists(standard, "/proc"), []string{migrate, "+" + pattern}},
		"the root folder":              {lists(standard, "/"), []string{migrate, pattern, "open:/etc/passwd", "open:" + file}},
		"none":                         {isolation.None(), []string{"+" + pattern, "+connect:" + socket, "+" + migrate}},
		"none, as nobody":              {as(isolation.None()), []string{pattern, migrate, "become:0"}},
		"strict":                       {strict, []string{"tcp:" + tcpListener(t), migrate, pattern, "connect:" + forAll}},
		"strict that lists all":        {lists(strict, "/"), []string{migrate, pattern, "connect:" + socket, "+connect:" + forAll}},
		"the run folder":               {lists(standard, "/run"), []string{migrate, pattern, "connect:" + socket, "+write:/run/" + filepath.Base(place)}},
	} {
		i := start(t, spec(t, h, runDir, tt.c))
		for _, words := range tt.attempts {
			words, can := strings.CutPrefix(words, "+")
			switch got := ask(t, i, words); {
			case words == byHandle && strings.HasSuffix(got, unix.EOPNOTSUPP.Error()):
				t.Logf("%s: %s: this file system has no numbers of files", name, words)
			case can != (got == "ok"), !can && !strings.HasPrefix(got, "denied: "):
				t.Errorf("%s: %s: %s", name, words, got)
			}
		}
	}
}

// tcpListener is the address of somebody who listens in the host's network.
func tcpListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
