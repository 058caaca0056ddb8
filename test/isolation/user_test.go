//go:build root

package isolation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// status is a line of the plugin's /proc/self/status, without its name.
func status(t *testing.T, i *isolation.Instance, name string) string {
	t.Helper()
	for line := range strings.Lines(ask(t, i, "status")) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	t.Fatalf("no line %s", name)
	return ""
}

// four is an id as real, effective, saved and file system one.
func four(id int) string { return fmt.Sprintf("%d %d %d %d", id, id, id, id) }

func TestAStrictPluginWithGivenGroupsKeepsAUserOfItsOwn(t *testing.T) {
	t.Parallel()
	const firstOwn, group = 0x70000000, 1000
	h, dir := openHost(t)
	gid := uint32(group)
	for name, tt := range map[string]struct {
		given  *isolation.Groups
		gid    string // empty: the same as the user
		groups string
	}{
		"none":               {nil, "", ""},
		"a group":            {&isolation.Groups{GID: &gid}, four(group), ""},
		"supplementary ones": {&isolation.Groups{Supplementary: []uint32{2000, 3000}}, "", "2000 3000"},
		"both":               {&isolation.Groups{GID: &gid, Supplementary: []uint32{2000}}, four(group), "2000"},
		"neither, but given": {&isolation.Groups{}, "", ""},
	} {
		c := isolation.Strict([]string{dir})
		c.OwnGroups = tt.given
		i := start(t, spec(t, h, dir, c))
		uid := status(t, i, "Uid")
		id := number(t, strings.Fields(uid)[0])
		if id < firstOwn || uid != four(id) {
			t.Errorf("%s: the user is %s", name, uid)
		}
		if tt.gid == "" {
			tt.gid = four(id)
		}
		if got := status(t, i, "Gid"); got != tt.gid {
			t.Errorf("%s: the group is %s, want %s", name, got, tt.gid)
		}
		if got := status(t, i, "Groups"); got != tt.groups {
			t.Errorf("%s: the groups are %q, want %q", name, got, tt.groups)
		}
		if got := status(t, i, "CapPrm"); strings.Trim(got, "0") != "" {
			t.Errorf("%s: it holds the capabilities %s", name, got)
		}
		if got := ask(t, i, "write:own-file"); got != "ok" {
			t.Errorf("%s: its own directory: %s", name, got)
		}
	}
}

func TestGroupsBesideAUserOfItsOwnNeedOne(t *testing.T) {
	t.Parallel()
	h, dir := openHost(t)
	c := isolation.Standard([]string{dir})
	c.OwnGroups = &isolation.Groups{}
	if _, err := isolation.Start(t.Context(), spec(t, h, dir, c)); err == nil || !strings.Contains(err.Error(), "check groups") {
		t.Errorf("%v", err)
	}
}
