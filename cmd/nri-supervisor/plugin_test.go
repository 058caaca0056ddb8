package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

func TestPluginListShowsEachPlugin(t *testing.T) {
	t.Parallel()
	b := paper{width: usualWidth}
	writePlugins(&b, troubled(fakeNow()), fakeNow())
	golden(t, "plugin/list.txt", b.String())

	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now())}})
	code, stdout, stderr := onScreen(t, "plugin", "list", "--socket", socket)
	if code != exitOK || stderr != "" || sameStamps(stdout) != sameStamps(b.String()) {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
}

func TestPluginShowHasTheLastExitsWithTheirOutput(t *testing.T) {
	t.Parallel()
	for _, p := range troubled(fakeNow()).Plugins {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			b := paper{width: usualWidth}
			writePlugin(&b, troubled(fakeNow()), p, fakeNow())
			golden(t, "plugin/show-"+p.Name+".txt", b.String())
		})
	}
}

func TestPluginShowAsJSONCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(fakeNow())}})
	code, stdout, stderr := command(t, "plugin", "show", "netpol", "--socket", socket, "-o", "json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	golden(t, "plugin/show-netpol.json", stdout)
}

func TestPluginActionsConfirmInOneLineAndCarryTheUser(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}}
	socket := serveFake(t, api)
	var all bytes.Buffer
	var want []string
	for _, action := range admin.Actions() {
		code, stdout, stderr := command(t, "plugin", action, "gpu-env", "--socket", socket)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", action, code, stderr)
		}
		fmt.Fprintf(&all, "%s: %s", action, stdout)
		want = append(want, fmt.Sprintf("%s gpu-env uid %d", action, os.Geteuid()))
	}
	golden(t, "plugin/actions.txt", all.String())
	if diff := cmp.Diff(want, api.Take()); diff != "" {
		t.Errorf("asked of the supervisor (-want +got):\n%s", diff)
	}
}

func TestAConfirmationSaysWhatKeepsThePluginFromBeingCalled(t *testing.T) {
	t.Parallel()
	until := fakeNow().Add(time.Hour)
	for _, c := range []struct {
		name   string
		bypass *time.Time
		acts   []string // the last one is looked at
		want   string
	}{
		{"enable of a plugin that runs", nil, []string{"enable"}, "plugin gpu-env was not disabled: nothing changes\n"},
		{"enable", nil, []string{"disable", "enable"}, "plugin gpu-env is enabled and starts\n"},
		{
			"enable of a tripped one", nil,
			[]string{"trip", "disable", "enable"},
			"plugin gpu-env is enabled and starts; it is tripped and is not called, until: nri-supervisor plugin reset gpu-env\n",
		},
		{"restart of a tripped one", nil, []string{"trip", "restart"}, "plugin gpu-env restarts; it is tripped and is not called, until: nri-supervisor plugin reset gpu-env\n"},
		{
			"reset of a disabled one", nil,
			[]string{"disable", "reset"},
			"the breaker of plugin gpu-env is closed and its failures are forgotten; it is disabled and does not run, until: nri-supervisor plugin enable gpu-env\n",
		},
		{"unquarantine of nothing", nil, []string{"unquarantine"}, "no pod was quarantined for plugin gpu-env: nothing changes\n"},
		{"under a bypass", &until, []string{"restart"}, "plugin gpu-env restarts; the bypass keeps every plugin from being called until 2026-11-30T04:12:00Z\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now()), Until: c.bypass}})
			var stdout, stderr string
			for _, action := range c.acts {
				_, stdout, stderr = command(t, "plugin", action, "gpu-env", "--socket", socket)
			}
			if stdout != c.want || stderr != "" {
				t.Errorf("stdout %q, want %q; stderr %q", stdout, c.want, stderr)
			}
		})
	}
}

func TestAPluginThatOnlyTheRuntimeKeepsWaitingSaysSo(t *testing.T) {
	t.Parallel()
	st := wellBehaved(fakeNow())
	st.Runtime.Connected, st.Plugins[0].State = false, "syncing"
	b := paper{width: usualWidth}
	writePlugin(&b, st, st.Plugins[0], fakeNow())
	if !strings.Contains(b.String(), "waits for the runtime: nri-supervisor status\n") {
		t.Errorf("got:\n%s", &b)
	}
}

func TestPluginHasACommandForEachActionOfTheAPI(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range pluginActions() {
		names = append(names, a.name)
	}
	if !slices.Equal(names, admin.Actions()) {
		t.Errorf("commands %v, actions of the API %v", names, admin.Actions())
	}
}

func TestPluginActionAsJSONIsTheReply(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}})
	code, stdout, _ := command(t, "plugin", "trip", "gpu-env", "--socket", socket, "--output=json")
	if want := "{\n  \"plugin\": \"gpu-env\",\n  \"action\": \"trip\"\n}\n"; code != exitOK || stdout != want {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
}

func TestPluginActionsOnWhatDoesNotRunSayWhy(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now())}}
	socket := serveFake(t, api)
	none := serveFake(t, &fakeAPI{})
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"an unknown name", "nri-supervisor: error: no such plugin: \"gpu\"\nnri-supervisor: hint: known are: gpu-env, netpol, slow, tried, held, old\n", []string{"trip", "gpu", "--socket", socket}},
		{
			"an unknown name to show", "nri-supervisor: error: no such plugin: \"gpu\"\nnri-supervisor: hint: known are: gpu-env, netpol, slow, tried, held, old, broken\n",
			[]string{"show", "gpu", "--socket", socket},
		},
		{"no plugin at all", "nri-supervisor: error: no such plugin: \"gpu\"\nnri-supervisor: hint: no plugin is loaded\n", []string{"show", "gpu", "--socket", none}},
		{"no plugin at all to trip", "nri-supervisor: error: no such plugin: \"gpu\"\nnri-supervisor: hint: no plugin is loaded\n", []string{"trip", "gpu", "--socket", none}},
		{"a path for a name", "nri-supervisor: error: no such plugin: \"..\"\n", []string{"trip", "..", "--socket", none}},
		{"a slash in a name", "nri-supervisor: error: no such plugin: \"../bypass\"\nnri-supervisor: hint: no plugin is loaded\n", []string{"trip", "../bypass", "--socket", none}},
		{"a disabled one", "nri-supervisor: error: restart plugin \"old\": it is disabled; enable it instead\n", []string{"restart", "old", "--socket", socket}},
		{
			"an invalid one", "nri-supervisor: error: plugin \"broken\" does not run: its manifest is invalid\nnri-supervisor: hint: " + troubled(time.Now()).Config.Problems[0] +
				"\nnri-supervisor: hint: mend the manifest: nri-supervisor check\nnri-supervisor: hint: then: nri-supervisor reload\n",
			[]string{"enable", "broken", "--socket", socket},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, append([]string{"plugin"}, c.args...)...)
			if code != exitFailure || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if diff := cmp.Diff(c.want, stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
			if did := api.Take(); len(did) > 0 {
				t.Errorf("the supervisor was asked for %v", did)
			}
		})
	}
}
