package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

func TestStatusTellsWhichPluginWhoseAndSinceWhen(t *testing.T) {
	t.Parallel()
	notConnected := wellBehaved(fakeNow())
	notConnected.Runtime = supervisor.RuntimeStatus{
		Since: fakeNow().Add(-95 * time.Second), Reason: "missing", Error: "dial unix /var/run/nri/nri.sock: connect: no such file or directory",
		Hint: "NRI is off, or the socket is elsewhere: enable it in the runtime or set runtime.socket", Socket: "/var/run/nri/nri.sock",
	}
	notConnected.Plugins[0].State = "syncing"
	starting := wellBehaved(fakeNow())
	starting.Runtime = supervisor.RuntimeStatus{Socket: "/var/run/nri/nri.sock"}
	starting.Plugins = nil
	starting.Warnings = []string{"the state directory cannot be read"}
	long := troubled(fakeNow())
	long.Plugins[1].Name = strings.Repeat("long-name-", 6)
	for _, p := range long.Plugins[:2] {
		long.Plugins = append(long.Plugins, longNamed(p))
	}
	unnamed := wellBehaved(fakeNow())
	unnamed.Plugins = append(unnamed.Plugins, supervisor.PluginStatus{State: "invalid", Problems: []string{"x.yaml:1: not valid YAML"}})
	for name, st := range map[string]supervisor.Status{
		"well": wellBehaved(fakeNow()), "troubled": troubled(fakeNow()), "not-connected": notConnected, "starting": starting, "long": long, "unnamed": unnamed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := paper{width: usualWidth}
			writeStatus(&b, st, fakeNow())
			golden(t, "status/"+name+".txt", b.String())
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > usualWidth {
					t.Errorf("line of %d columns: %q", n, line)
				}
			}
		})
	}
}

func TestStatusAsksTheRunningSupervisor(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now())}})
	code, stdout, stderr := onScreen(t, "status", "--socket", socket)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	want := paper{width: usualWidth}
	writeStatus(&want, troubled(fakeNow()), fakeNow())
	if got, want := sameStamps(stdout), sameStamps(want.String()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestStatusAsJSONIsTheObjectOfTheAPI(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(fakeNow())}})
	code, stdout, stderr := command(t, "status", "-o", "json", "--socket", socket)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	golden(t, "status/troubled.json", stdout)
}

func TestStatusOfNothingIsAnEmptyListAndNotNull(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{})
	for _, args := range [][]string{{"plugin", "list"}, {"missed"}} {
		code, stdout, _ := command(t, append(args, "-o", "json", "--socket", socket)...)
		if code != exitOK || stdout != "[]\n" {
			t.Errorf("%v: exit code %d, stdout %q; want an empty list", args, code, stdout)
		}
	}
}

func TestAPluginThatNobodyAttachedIsSaidToBe(t *testing.T) {
	t.Parallel()
	st := wellBehaved(fakeNow())
	p := &st.Plugins[0]
	p.State, p.Awaited, p.PID, p.Since = "starting", "/run/x/nri.sock", 0, fakeNow().Add(-3*time.Minute)
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st}})
	for _, args := range [][]string{{"status"}, {"plugin", "show", "gpu-env"}} {
		_, stdout, _ := command(t, append(args, "--socket", socket)...)
		if want := "nobody is connected to /run/x/nri.sock since 2026-11-30T03:09:00Z"; !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("%v lacks %q:\n%s", args, want, stdout)
		}
	}
}

func TestSinceIsWhenThePluginWentInOrOutOfService(t *testing.T) {
	t.Parallel()
	early, late := fakeNow().Add(-time.Hour), fakeNow()
	for _, c := range []struct {
		name, state, breaker string
		stateAt, breakerAt   time.Time
		want                 time.Time
	}{
		{"in service, ready last", "ready", "closed", late, early, late},
		{"in service, closed last", "ready", "closed", early, late, late},
		{"open", "ready", "open", early, late, late},
		{"down behind a closed breaker", "syncing", "closed", late, early, late},
		{"flapping behind an open breaker", "backoff", "open", late, early, early},
		{"no breaker", "invalid", "", early, time.Time{}, early},
		{"down, then opened", "crash_loop", "open", early, late, early},
	} {
		p := supervisor.PluginStatus{State: c.state, Since: c.stateAt, Breaker: supervisor.BreakerView{State: c.breaker, Since: c.breakerAt}}
		if got := statuspage.Since(p, fakeNow()); !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", c.name, got, c.want)
		}
	}
	tried := supervisor.PluginStatus{State: "ready", Since: early, Breaker: supervisor.BreakerView{State: "half_open", Since: late, Opening: &supervisor.Opening{At: early.Add(-time.Minute)}}}
	if got := statuspage.Since(tried, fakeNow()); !got.Equal(early.Add(-time.Minute)) {
		t.Errorf("tried after it was open: since %s, want since the opening", got)
	}
	tried.Breaker.State, tried.Breaker.Opening.Closed = "closed", early
	if got := statuspage.Since(tried, fakeNow()); !got.Equal(late) {
		t.Errorf("closed again: since %s, want since the closing", got)
	}
}

// flapping is a plugin whose breaker was closed for a moment a while ago.
func flapping(now time.Time) supervisor.Status {
	st := wellBehaved(now)
	st.Plugins[0].Breaker = supervisor.BreakerView{
		State: "open", Cause: "hung", Since: now.Add(-time.Minute), WaitsFor: supervisor.WaitTime,
		Opening: &supervisor.Opening{At: now.Add(-time.Minute), Cause: "hung", FailingSince: now.Add(-time.Hour), Times: 7},
	}
	return st
}

func TestAPluginThatFlapsIsShownSinceItsFirstFailure(t *testing.T) {
	t.Parallel()
	now := time.Now()
	st, closed := flapping(now), flapping(now)
	closed.Plugins[0].Breaker.State, closed.Plugins[0].Breaker.WaitsFor = "closed", ""
	closed.Plugins[0].Breaker.Opening.Closed = now.Add(-30 * time.Second)
	if got := statuspage.Since(st.Plugins[0], now); !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("out of service since %v, want an hour ago", got)
	}
	want := "it has been failing since " + stamp(now.Add(-time.Hour)) + ": its breaker opened 7 times"
	for name, st := range map[string]supervisor.Status{"open": st, "closed for a moment": closed} {
		socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st}})
		for _, args := range [][]string{{"status"}, {"plugin", "show", "gpu-env"}, {"events", "--plugin", "gpu-env"}, {"events", "--team", "ml-infra"}} {
			code, stdout, stderr := command(t, append(args, "--socket", socket)...)
			if code != exitOK || !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: %v: exit code %d, lacks %q\n%s%s", name, args, code, want, stdout, stderr)
			}
		}
		if _, _, stderr := command(t, "events", "--team", "network", "--socket", socket); strings.Contains(stderr, "failing") {
			t.Errorf("%s: another team is told %q", name, stderr)
		}
	}
}

func TestWhatIsRefusedWhileAPluginIsTriedIsSaidEverywhere(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: troubled(time.Now())}})
	for _, args := range [][]string{{"status"}, {"plugin", "show", "tried"}, {"events", "--plugin", "tried"}} {
		code, stdout, stderr := command(t, append(args, "--socket", socket)...)
		if code != exitOK || !strings.Contains(stdout+stderr, "the next event that selects it is the trial: a container is refused if its trial fails") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	if _, _, stderr := command(t, "events", "--plugin", "slow", "--socket", socket); strings.Contains(stderr, "trial") {
		t.Errorf("another plugin: %s", stderr)
	}
}
