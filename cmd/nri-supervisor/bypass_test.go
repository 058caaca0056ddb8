package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

func TestBypassSaysUntilWhenAndEnds(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{}
	socket := serveFake(t, api)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--for", "10m"}, "bypass until 2026-11-30T03:22:00Z: no plugin is called; end it: nri-supervisor bypass --off\n"},
		{[]string{"--for", "24h"}, "bypass until 2026-12-01T03:12:00Z: no plugin is called; end it: nri-supervisor bypass --off\n"},
		{[]string{"--for", "1h30m", "-o", "json"}, "{\n  \"bypassUntil\": \"2026-11-30T04:42:00Z\"\n}\n"},
		{[]string{"--off"}, "bypass is off: no plugin is loaded\n"},
		{[]string{"--off"}, "no bypass was on: no plugin is loaded\n"},
		{[]string{"--off", "-o", "json"}, "{\n  \"bypassUntil\": null\n}\n"},
	} {
		code, stdout, stderr := command(t, append([]string{"bypass", "--socket", socket}, c.args...)...)
		if code != exitOK || stderr != "" || stdout != c.want {
			t.Errorf("bypass %v: exit code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	var want []string
	for _, d := range []string{"10m0s", "24h0m0s", "1h30m0s", "0s", "0s", "0s"} {
		want = append(want, fmt.Sprintf("bypass %s uid %d", d, os.Geteuid()))
	}
	if diff := cmp.Diff(want, api.Take()); diff != "" {
		t.Errorf("asked of the supervisor (-want +got):\n%s", diff)
	}
}

func TestTheEndOfABypassSaysHowManyPluginsAreNotInService(t *testing.T) {
	t.Parallel()
	for want, st := range map[string]supervisor.Status{
		"bypass is off: plugins are called\n":                                                       wellBehaved(fakeNow()),
		"bypass is off: plugins are called, but 6 of 7 are not in service: nri-supervisor status\n": troubled(fakeNow()),
	} {
		until := fakeNow()
		st.Bypass = &until
		b := paper{width: usualWidth}
		if writeBypass(&b, &st, admin.BypassReply{}); b.String() != want {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	}
}
