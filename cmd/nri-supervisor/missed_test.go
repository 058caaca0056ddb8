package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
)

func TestMissedNamesTheContainerTheReasonAndTheRemedy(t *testing.T) {
	t.Parallel()
	lost := missing(fakeNow())[2:]
	lost[0].Reason = "state_lost"
	long := missing(fakeNow())
	long[0].Pod = "a-training-job-with-a-name-as-people-give-them-6f7d9c5b8-x2x7q"
	for name, list := range map[string][]supervisor.MissedWork{
		"some": missing(fakeNow()), "one": missing(fakeNow())[:1], "none": {}, "long": long, "lost": lost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := paper{width: usualWidth}
			writeMissed(&b, list, "", false, fakeNow())
			golden(t, "missed/"+name+".txt", b.String())
		})
	}
}

func TestMissedExitsWithZeroAlsoWhenThereAreSome(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now()), Missing: missing(time.Now())}})
	code, stdout, stderr := onScreen(t, "missed", "--socket", socket)
	if code != exitOK || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "plugin broken is not hosted") {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	want := paper{width: usualWidth}
	if writeMissed(&want, missing(fakeNow()), "", false, fakeNow()); sameStamps(stdout) != sameStamps(want.String()) {
		t.Errorf("got:\n%s\nwant:\n%s", stdout, &want)
	}
}

func TestMissedOfOnePluginLeavesOutTheOthers(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now()), Missing: missing(fakeNow())}})
	code, stdout, stderr := command(t, "missed", "--socket", socket, "--plugin", "netpol", "-o", "json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	golden(t, "missed/netpol.json", stdout)

	code, stdout, _ = command(t, "missed", "--socket", socket, "--plugin", "slow")
	if code != exitOK || stdout != "No container runs without the work of plugin slow.\n" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
}

func TestMissedOfAnUnknownPluginIsNoFalseComfort(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: wellBehaved(time.Now())}})
	code, stdout, stderr := command(t, "missed", "--socket", socket, "--plugin", "gpu-evn")
	want := "nri-supervisor: error: no such plugin: \"gpu-evn\"\nnri-supervisor: hint: known are: gpu-env\n"
	if code != exitFailure || stdout != "" || stderr != want {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestMissedOfAPluginWhoseManifestIsInvalidIsNoFalseComfort: nobody knows what it would have selected.
func TestMissedOfAPluginWhoseManifestIsInvalidIsNoFalseComfort(t *testing.T) {
	t.Parallel()
	st := wellBehaved(time.Now())
	st.Plugins = append(st.Plugins, supervisor.PluginStatus{
		Name: "broken", Team: "storage", State: "invalid", Since: fakeNow(), Problems: []string{"broken.yaml:7: spec.index:\n5 is a number"}, LastError: "broken.yaml:7: spec.index: 5 is a number",
	})
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st}})
	note := `nri-supervisor: note: plugin broken is not hosted for .*, since 2026-11-30T03:12:00Z, because its manifest is invalid, so which containers it would have selected is not known: broken.yaml:7: spec.index: 5 is a number`
	for args, want := range map[string]string{
		"--plugin broken": "It is not known which containers run without the work of plugin broken.\n", "--plugin broken -o json": "[]\n", "": "No container runs without a plugin's work.\n",
	} {
		code, stdout, stderr := command(t, append([]string{"missed", "--socket", socket}, strings.Fields(args)...)...)
		if code != exitOK || stdout != want || !regexp.MustCompile("^"+note+"\n$").MatchString(stderr) {
			t.Errorf("missed %s: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := command(t, "missed", "--socket", socket, "--plugin", "gpu-env"); code != exitOK || stderr != "" || stdout != "No container runs without the work of plugin gpu-env.\n" {
		t.Errorf("another plugin: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestMissedSaysWhenTheRuntimeIsOutOfSight(t *testing.T) {
	t.Parallel()
	st := wellBehaved(time.Now())
	st.Runtime.Connected = false
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st}})
	code, _, stderr := command(t, "missed", "--socket", socket)
	if code != exitOK || !strings.Contains(stderr, "not connected to the runtime") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
