package statuspage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// TestSinceAgreesWithTheTextBesideIt: with "failing since" where that is said, and with what the answer for programs says.
func TestSinceAgreesWithTheTextBesideIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	for _, tt := range []struct {
		name    string
		state   string
		breaker string
		opening supervisor.Opening // Cause and FailingSince are set
		refused int                // minutes ago; 0: never
		reason  string
		missed  bool
		since   int // minutes ago; the breaker changed 2 minutes ago, the first failure was 30 minutes ago
		level   statuspage.Level
		says    string
	}{
		{"open for the first time", "ready", "open", supervisor.Opening{Times: 1}, 0, "", false, 30, statuspage.Broken, ""},
		{"open for the third time", "ready", "open", supervisor.Opening{Times: 3}, 0, "", false, 30, statuspage.Broken, "opened 3 times"},
		{"tried for the third time", "ready", "half_open", supervisor.Opening{Times: 3}, 0, "", false, 30, statuspage.Broken, "opened 3 times"},
		{"closed for the third time", "ready", "closed", supervisor.Opening{Times: 3, Closed: ago(2), GoodSince: ago(2)}, 0, "", false, 30, statuspage.Look, "opened 3 times, and is closed only since 2026-01-02T11:58:00Z"},
		{"closed, nothing failed", "ready", "closed", supervisor.Opening{Times: 1, Closed: ago(2), GoodSince: ago(2), FailedAt: ago(3)}, 0, "", false, 2, statuspage.Fine, ""},
		{"closed, and failed once more", "ready", "closed", supervisor.Opening{Times: 1, Closed: ago(2), FailedAt: ago(1), Unmended: []string{"CreateContainer"}}, 0, "", false, 30, statuspage.Look, "opened once, and is closed only since 2026-01-02T11:58:00Z; not good since it failed: CreateContainer"},
		{"closed, and a container was refused", "ready", "closed", supervisor.Opening{Times: 1, Closed: ago(2), GoodSince: ago(2), FailedAt: ago(3)}, 1, "timeout", false, 30, statuspage.Look, "opened once"},
		{"closed, and refuses on purpose", "ready", "closed", supervisor.Opening{Times: 1, Closed: ago(2), GoodSince: ago(2), FailedAt: ago(3)}, 1, "rejected", false, 2, statuspage.Fine, ""},
		{"closed, and refused before", "ready", "closed", supervisor.Opening{Times: 1, Closed: ago(2), GoodSince: ago(2), FailedAt: ago(3)}, 5, "timeout", false, 30, statuspage.Look, ""},
		{"closed, and containers miss it from before", "ready", "closed", supervisor.Opening{Times: 1, Closed: ago(2), GoodSince: ago(2), FailedAt: ago(3)}, 0, "", true, 30, statuspage.Look, ""},
		{"well for ten minutes", "ready", "closed", supervisor.Opening{Times: 3, Closed: ago(10), GoodSince: ago(10)}, 0, "", true, 2, statuspage.Look, ""},
		{"disabled while it failed", "disabled", "disabled", supervisor.Opening{Times: 1}, 0, "", false, 3, statuspage.Off, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := healthy("p")
			o := tt.opening
			o.At, o.Cause, o.FailingSince = ago(20), "hung", ago(30)
			p.State, p.Since = tt.state, ago(60)
			if tt.state == "disabled" {
				p.Since = ago(3)
			}
			p.Breaker = supervisor.BreakerView{State: tt.breaker, Cause: "hung", Since: ago(2), Opening: &o}
			if tt.refused > 0 {
				p.Refused, p.RefusedBy = 1, []supervisor.ReasonSum{{Reason: tt.reason, Count: 1, At: ago(tt.refused)}}
			}
			if tt.missed {
				p.Missed, p.MissedInService = 1, []supervisor.ReasonSum{{Reason: "timeout", Count: 1}}
			}
			all := connected(p)
			all.Now = now
			j := statuspage.NewView(all, "n1").Judged[0]
			if j.Level != tt.level || j.Since != ago(tt.since).UnixMilli() || !statuspage.Since(p, now).Equal(ago(tt.since)) {
				t.Errorf("the page: %s since %s, the command line: since %s; want %s since %s", j.Level, time.UnixMilli(j.Since).UTC(), statuspage.Since(p, now), tt.level, ago(tt.since))
			}
			text := statuspage.FlapText(p, now)
			if (text != "") != (tt.says != "") || !strings.Contains(text, tt.says) || text != "" && !strings.Contains(text, "failing since 2026-01-02T11:30:00Z") || !strings.Contains(j.Why, strings.TrimPrefix(text, "it")) {
				t.Errorf("it says %q, the page %q; want %q", text, j.Why, tt.says)
			}
		})
	}
}

// TestWhatNeedsALookBeforeABreakerOpensCountsFromTheFirstMissOrRefusal, and not from when the plugin came into service.
func TestWhatNeedsALookBeforeABreakerOpensCountsFromTheFirstMissOrRefusal(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	missed := func(first int) []supervisor.ReasonSum {
		return []supervisor.ReasonSum{{Reason: "timeout", Count: 1, First: ago(first)}}
	}
	refused := func(reason string, first, last int) []supervisor.ReasonSum {
		return []supervisor.ReasonSum{{Reason: reason, Count: 2, First: ago(first), At: ago(last)}}
	}
	for _, tt := range []struct {
		name            string
		missed, refused []supervisor.ReasonSum
		since           int
	}{
		{"fine", nil, nil, 60},
		{"containers miss its work", append(missed(7), missed(20)...), nil, 20},
		{"containers were refused", nil, append(refused("timeout", 9, 1), refused("error", 4, 2)...), 9},
		{"both", missed(20), refused("timeout", 30, 1), 30},
		{"it refused on purpose", missed(20), refused("rejected", 30, 1), 20},
		{"what was refused long ago is no trouble of now", missed(7), refused("timeout", 50, 40), 7},
		{"refused before it came into service", nil, []supervisor.ReasonSum{{Reason: "not_ready", Count: 1, At: ago(5)}}, 60},
	} {
		p := healthy("p")
		p.Since, p.Breaker.Since = ago(60), ago(90)
		p.MissedInService, p.RefusedBy = tt.missed, tt.refused
		if got := statuspage.Since(p, now); !got.Equal(ago(tt.since)) {
			t.Errorf("%s: since %s, want %s", tt.name, got, ago(tt.since))
		}
		p.Breaker.Opening = &supervisor.Opening{At: ago(95), Cause: "hung", FailingSince: ago(100), Times: 1, Closed: ago(90), FailedAt: ago(1)}
		if got := statuspage.Since(p, now); !got.Equal(ago(100)) {
			t.Errorf("%s, after a breaker that opened: since %s, want %s", tt.name, got, ago(100))
		}
	}
}

// TestWhileAPluginThatFailsClosedIsTriedItIsSaidWhichContainersAreRefused: not all of them, as while its breaker is open.
func TestWhileAPluginThatFailsClosedIsTriedItIsSaidWhichContainersAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state, breaker string
		waits          supervisor.Wait
		open           bool // failurePolicy Ignore
		want           string
	}{
		{"ready", "open", supervisor.WaitTime, false, "containers that need it are refused meanwhile"},
		{"ready", "half_open", supervisor.WaitCall, false, "the next event that selects it is the trial: a container is refused if its trial fails"},
		{"ready", "half_open", supervisor.WaitCallOrHealth, false, "the next event that selects it is the trial: a container is refused if its trial fails"},
		{"ready", "half_open", supervisor.WaitVerdict, false, "a trial call is under way: containers that need it are refused until that ends"},
		{"backoff", "half_open", supervisor.WaitStart, false, "containers that need it are refused meanwhile"},
		{"ready", "half_open", supervisor.WaitCall, true, ""},
		{"ready", "closed", "", false, ""},
	} {
		p := healthy("p")
		p.State, p.FailsClosed, p.Breaker = tt.state, !tt.open, supervisor.BreakerView{State: tt.breaker, WaitsFor: tt.waits, Cause: "probe"}
		text := statuspage.MeanwhileText(p)
		j := statuspage.NewView(connected(p), "n1").Judged[0]
		if !strings.HasPrefix(text, tt.want) || (text == "") != (tt.want == "") || text != "" && !strings.Contains(j.Why, text[1:]) || text == "" && strings.Contains(j.Why, "refused") {
			t.Errorf("%s, %s, waits for %q: %q, the page says %q; want %q", tt.state, tt.breaker, tt.waits, text, j.Why, tt.want)
		}
	}
}

// TestATriedPluginIsExplainedByItsOwnErrorAndNotByTheTrial: that it was started anew tells nobody what to mend.
func TestATriedPluginIsExplainedByItsOwnErrorAndNotByTheTrial(t *testing.T) {
	t.Parallel()
	p := healthy("p")
	p.Breaker = supervisor.BreakerView{State: "half_open", Cause: "started", Opening: &supervisor.Opening{Cause: "consecutive_failures", Last: &supervisor.Failure{Reason: "error", Detail: "no such device"}}}
	for state, want := range map[string]string{
		"half_open": "Its circuit breaker tries it with single calls. It was opened because several calls in a row failed. Last error: no such device.",
		"open":      "Its circuit breaker is open: several calls in a row failed. Last error: no such device.",
	} {
		if p.Breaker.State = state; state == "open" {
			p.Breaker.Cause = "consecutive_failures"
		} else {
			p.Breaker.Cause = "started"
		}
		if j := statuspage.NewView(connected(p), "n1").Judged[0]; j.Why != want {
			t.Errorf("%s: %q, want %q", state, j.Why, want)
		}
	}
}
