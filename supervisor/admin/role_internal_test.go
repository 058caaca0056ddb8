package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/recording"
)

// roleAPI answers everything that a role may ask for.
type roleAPI struct{ stubAPI }

func (roleAPI) Decisions(journal.Filter) []journal.Decision { return nil }

func (roleAPI) Explain(context.Context, string, string, string) ([]supervisor.Explanation, error) {
	return nil, supervisor.ErrNotExplained
}

func (roleAPI) Record(_ context.Context, _ supervisor.RecordFilter, _ uint32, each func(*recording.Event, uint64) error) error {
	return each(&recording.Event{Name: "Synchronize"}, 0)
}

func TestEachRoleMayDoWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{RoleNone, RoleView, RoleOperate, RoleAdmin} {
		t.Run(role.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, roleAPI{}, defaultLimits(), me())
			r.role(role)
			c, err := Dial(r.socket)
			if err != nil {
				t.Fatal(err)
			}
			_, statusErr := c.Status(t.Context())
			_, missedErr := c.Missed(t.Context())
			_, decisionsErr := c.Decisions(t.Context(), journal.Filter{})
			_, explainErr := c.Explain(t.Context(), "n", "p", "")
			nothing := func(*recording.Event, uint64) error { return nil }
			recordErr := c.Record(t.Context(), supervisor.RecordFilter{}, nothing)
			valuesErr := c.Record(t.Context(), supervisor.RecordFilter{Values: true}, nothing)
			_, actErr := c.Act(t.Context(), "a", "trip")
			_, bypassErr := c.Bypass(t.Context(), time.Minute)
			forgottenErr := c.do(t.Context(), http.MethodGet, "/v1/nothing", nil, nil)
			for what, c := range map[string]struct {
				err       error
				needs     Role
				otherwise int
			}{
				"status": {statusErr, RoleView, 0}, "missed": {missedErr, RoleView, 0}, "decisions": {decisionsErr, RoleView, 0},
				"explain": {explainErr, RoleView, http.StatusNotFound}, "record": {recordErr, RoleOperate, 0}, "record with values": {valuesErr, RoleAdmin, 0},
				"an action": {actErr, RoleOperate, 0},
				"a bypass":  {bypassErr, RoleAdmin, 0}, "an unknown path": {forgottenErr, RoleView, http.StatusNotFound},
			} {
				status := 0
				if req, ok := errors.AsType[*RequestError](c.err); ok {
					status = req.Status
				} else if c.err != nil {
					t.Errorf("%s: %v", what, c.err)
				}
				want := http.StatusForbidden
				if role >= c.needs {
					want = c.otherwise
				}
				if status != want {
					t.Errorf("%s: status %d, want %d: %v", what, status, want, c.err)
				}
			}
		})
	}
}

func TestAPathThatNobodyNamedNeedsAdmin(t *testing.T) {
	t.Parallel()
	if r := roleFor("/v1/new"); r != RoleAdmin {
		t.Errorf("it needs %s", r)
	}
}

func TestTheHighestRoleOfAUserAndItsGroupsCounts(t *testing.T) {
	t.Parallel()
	roles := Roles{View: Members{UIDs: []uint32{71}, GIDs: []uint32{81}}, Operate: Members{GIDs: []uint32{82}}, Admin: Members{UIDs: []uint32{73}}}
	for _, c := range []struct {
		uid  uint32
		gids []uint32
		want Role
	}{
		{0, nil, RoleAdmin},
		{me(), nil, RoleAdmin},
		{70, []uint32{80}, RoleNone},
		{71, nil, RoleView},
		{70, []uint32{80, 81}, RoleView},
		{71, []uint32{82}, RoleOperate},
		{73, []uint32{81, 82}, RoleAdmin},
		{81, nil, RoleNone}, // the number of a group is not that of a user
		{70, []uint32{71}, RoleNone},
	} {
		if got := roles.of(c.uid, c.gids); got != c.want {
			t.Errorf("uid %d with %v: %s, want %s", c.uid, c.gids, got, c.want)
		}
	}
	if r := (Roles{}).of(notMe(), []uint32{0}); r != RoleNone {
		t.Errorf("group 0 has the role %s", r)
	}
}

func TestTheSocketsModeLetsInThoseWhoHaveARole(t *testing.T) {
	t.Parallel()
	gid := uint32(os.Getegid())
	for name, c := range map[string]struct {
		roles  Roles
		mode   os.FileMode
		folder os.FileMode
	}{
		"nobody":      {Roles{}, 0o600, 0o700},
		"root":        {Roles{Admin: Members{UIDs: []uint32{0, me()}}}, 0o600, 0o700},
		"one group":   {Roles{View: Members{GIDs: []uint32{gid}}, Operate: Members{GIDs: []uint32{gid}}}, 0o660, 0o711},
		"two groups":  {Roles{View: Members{GIDs: []uint32{gid}}, Operate: Members{GIDs: []uint32{gid + 1}}}, 0o666, 0o711},
		"other users": {Roles{View: Members{UIDs: []uint32{notMe()}}}, 0o666, 0o711},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "adm")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			s, err := listen(t.Context(), filepath.Join(dir, "f", "admin.sock"), c.roles)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			socket, err1 := os.Stat(s.path)
			folder, err2 := os.Stat(filepath.Dir(s.path))
			if err1 != nil || err2 != nil || socket.Mode().Perm() != c.mode || folder.Mode().Perm() != c.folder {
				t.Errorf("%v, %v: modes %v and %v", err1, err2, socket.Mode(), folder.Mode())
			}
		})
	}
}

// TestThePeersSupplementaryGroupsCount connects from a thread with other groups where it may have some, which is as root.
func TestThePeersSupplementaryGroupsCount(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "adm")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if me() == 0 {
		want = nil
		for g := range 100 { // more than the first try has room for
			want = append(want, 5000+g)
		}
	}
	dialled := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, with its groups, ends with the goroutine
		dialled <- func() error {
			if me() == 0 {
				groups := make([]uint32, len(want))
				for i, g := range want {
					groups[i] = uint32(g)
				}
				if err := setThreadGroups(groups); err != nil {
					return err
				}
			}
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "s")})
		}()
		<-done
	}()
	if err := <-dialled; err != nil {
		t.Fatal(err)
	}
	c, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := peerOf(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range append(want, os.Getegid()) {
		if !slices.Contains(p.gids, uint32(g)) {
			t.Errorf("group %d is missing from %v", g, p.gids)
		}
	}
	if len(p.gids) > len(want)+1 {
		t.Errorf("%d groups, want %d", len(p.gids), len(want)+1)
	}
}

func TestMembersCannotUseUpTheConnectionsOfAdmins(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.ours = 1
	r := start(t, stubAPI{}, l, me())
	r.role(RoleView)
	_ = r.connect(t) // takes the one slot of members
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ctx := deadline; ; {
		if _, err := r.ask(t); err != nil {
			break // it was accepted, and the next one is closed
		}
		if ctx.Err() != nil {
			t.Fatal("members have no limit")
		}
	}
	r.role(RoleAdmin)
	if _, err := r.ask(t); err != nil {
		t.Errorf("an admin is not answered: %v", err)
	}
}
