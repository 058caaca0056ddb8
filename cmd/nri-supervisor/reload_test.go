package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

func TestReloadSaysWhatItDid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		report supervisor.ReloadReport
		code   int
		want   string
	}{
		{"nothing changed", supervisor.ReloadReport{Result: "success", Unchanged: 1}, exitOK, "no plugin changed; 1 plugin as before\n"},
		{"everything changed", supervisor.ReloadReport{Result: "success", Unchanged: 2, Changes: []supervisor.PluginChange{
			{Plugin: "a", Change: "added", How: "started"},
			{Plugin: "b", Change: "changed", How: "rules"},
			{Plugin: "c", Change: "changed", How: "configured"},
			{Plugin: "d", Change: "renamed", How: "replaced", From: "x"},
			{Plugin: "e", Change: "removed", How: "stopped"},
		}}, exitOK, "a: added\nb: changed, its process goes on\nc: changed, configured in place\nd: renamed from x, by a new process\ne: removed\n2 plugins as before\n"},
		{"some of it", supervisor.ReloadReport{
			Result: "partial", Changes: []supervisor.PluginChange{{Plugin: "a", Change: "changed", How: "replaced", Error: "no \x1b[31mlibrary"}},
			Problems: []string{"b.yaml:1: wrong"}, NeedRestart: []string{"spec.runtime"},
		}, exitFailure, "a: changed, by a new process; it failed: no \\x1b[31mlibrary\n0 plugins as before\nproblem: b.yaml:1: wrong\nspec.runtime changed, which needs a restart of the service: pods keep running\n"},
		{"nothing of it", supervisor.ReloadReport{Result: "failure", Unchanged: 2, Problems: []string{"config.yaml:1: wrong"}}, exitFailure, "nothing was changed: the configuration cannot be used\nproblem: config.yaml:1: wrong\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{Report: c.report}})
			code, stdout, stderr := command(t, "reload", "--socket", socket)
			if diff := cmp.Diff(c.want, stdout); diff != "" || code != c.code || stderr != "" {
				t.Errorf("exit code %d, stderr %q, stdout (-want +got):\n%s", code, stderr, diff)
			}
		})
	}
}
