package statuspage_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/plugin"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

// fixed is a source that says always the same, and counts how often.
type fixed struct {
	overview supervisor.Overview
	asked    atomic.Int64
}

func (f *fixed) Overview() supervisor.Overview {
	f.asked.Add(1)
	return f.overview
}

func healthy(name string) supervisor.PluginStatus {
	return supervisor.PluginStatus{Name: name, Team: "t", State: "ready", Breaker: supervisor.BreakerView{State: "closed"}}
}

func connected(plugins ...supervisor.PluginStatus) supervisor.Overview {
	return supervisor.Overview{Status: supervisor.Status{Runtime: supervisor.RuntimeStatus{Connected: true}, Plugins: plugins}}
}

func get(t *testing.T, h http.Handler, method, path string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Result()
}

func TestThePageAllowsNothingButItsOwnFiles(t *testing.T) {
	t.Parallel()
	h := statuspage.Handler(&fixed{overview: connected(healthy("a"))}, "n1")
	for _, path := range []string{"/", "/page.css", "/page.js", "/status.json"} {
		r := get(t, h, http.MethodGet, path)
		body, err := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusOK || err != nil || len(body) == 0 {
			t.Errorf("%s: status %d, %d bytes, %v", path, r.StatusCode, len(body), err)
		}
		csp := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s has the content security policy %q", path, csp)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s has the headers %v", path, r.Header)
		}
		if strings.Contains(string(body), "innerHTML =") || strings.Contains(string(body), "//cdn") || strings.Contains(string(body), "style=") {
			t.Errorf("%s makes markup from text, or loads from elsewhere", path)
		}
	}
	if r := get(t, h, http.MethodGet, "/elsewhere"); r.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown path answers %d", r.StatusCode)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if r := get(t, h, method, "/status.json"); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s answers %d: the page is read-only", method, r.StatusCode)
		}
	}
}

func TestManyBrowsersCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	s := &fixed{overview: connected()}
	h := statuspage.Handler(s, "n1")
	begin := time.Now()
	const browsers = 1000
	for range browsers {
		get(t, h, http.MethodGet, "/status.json")
	}
	if most := int64(time.Since(begin)/(250*time.Millisecond)) + 1; s.asked.Load() > most {
		t.Errorf("%d requests made %d overviews, more than %d", browsers, s.asked.Load(), most)
	}
}

func TestWhatIsWrongWithAPluginIsSaidInOneSentence(t *testing.T) {
	t.Parallel()
	now := time.Now()
	with := func(change func(*supervisor.PluginStatus)) supervisor.PluginStatus {
		p := healthy("p")
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name  string
		in    supervisor.PluginStatus
		level statuspage.Level
		why   string
	}{
		{"in service", healthy("p"), statuspage.Fine, ""},
		{"hung", with(func(p *supervisor.PluginStatus) { p.Breaker = supervisor.BreakerView{State: "open", Cause: "hung"} }), statuspage.Broken, "Its circuit breaker is open: a call hung, so the process was killed."},
		{"half open", with(func(p *supervisor.PluginStatus) {
			p.Breaker = supervisor.BreakerView{State: "half_open", Cause: "timer"}
		}), statuspage.Broken, "Its circuit breaker tries it with single calls: the open time is over."},
		{"crash loop", with(func(p *supervisor.PluginStatus) {
			p.State, p.Breaker = "crash_loop", supervisor.BreakerView{State: "open", Cause: "exit"}
		}), statuspage.Broken, "It ends again and again, so it is started rarely."},
		{"backoff", with(func(p *supervisor.PluginStatus) { p.State = "backoff" }), statuspage.Broken, "It ended and is about to be started again."},
		{"invalid", with(func(p *supervisor.PluginStatus) { p.State, p.Breaker.State = "invalid", "" }), statuspage.Broken, "Its manifest cannot be used."},
		{"disabled", with(func(p *supervisor.PluginStatus) { p.State, p.Breaker.State = "disabled", "disabled" }), statuspage.Off, "An operator disabled it."},
		{"tripped", with(func(p *supervisor.PluginStatus) { p.Breaker.State = "forced_open" }), statuspage.Off, "An operator tripped its breaker."},
		{"disabled and required", with(func(p *supervisor.PluginStatus) { p.State, p.FailsClosed = "disabled", true }), statuspage.Broken, "An operator disabled it. Containers that need it are refused meanwhile."},
		{"in service and required", with(func(p *supervisor.PluginStatus) { p.FailsClosed = true }), statuspage.Fine, ""},
		{"in service and in conflict", with(func(p *supervisor.PluginStatus) {
			p.Missed, p.MissedInService = 12, []supervisor.ReasonSum{{Reason: "conflict", Count: 12}}
			p.Conflicts = []supervisor.Rival{{Plugin: "q", Team: "t", Count: 12}}
		}), statuspage.Look, "12 containers run without its work although it is in service: conflict 12 (another plugin had set the same: q)."},
		{"in service, and missed before as well", with(func(p *supervisor.PluginStatus) {
			p.Missed, p.MissedInService = 3, []supervisor.ReasonSum{{Reason: "conflict", Count: 1}}
		}), statuspage.Look, "3 containers run without its work, 1 of them although it was in service: conflict 1 (another plugin had set the same)."},
		{"in service and refusing", with(func(p *supervisor.PluginStatus) {
			p.Refused, p.RefusedBy = 1, []supervisor.ReasonSum{{Reason: "timeout", Count: 1, At: now.Add(-time.Minute)}, {Reason: "error", Count: 1, At: now.Add(-time.Hour)}}
		}), statuspage.Look, "Containers were refused for its sake in the last ten minutes: timeout."},
		{"in service and refusing on purpose", with(func(p *supervisor.PluginStatus) {
			p.Refused, p.RefusedBy = 1, []supervisor.ReasonSum{{Reason: "rejected", Count: 1, At: now}}
		}), statuspage.Fine, ""},
		{"nobody came yet", with(func(p *supervisor.PluginStatus) {
			p.State, p.Awaited, p.Since = "starting", "/run/p.sock", now.Add(-time.Second)
		}), statuspage.Waiting, "Nobody is connected to /run/p.sock."},
		{"nobody came for long", with(func(p *supervisor.PluginStatus) {
			p.State, p.Awaited, p.Since = "starting", "/run/p.sock", now.Add(-time.Hour)
		}), statuspage.Broken, "Nobody is connected to /run/p.sock."},
		{"nobody came, and containers miss it", with(func(p *supervisor.PluginStatus) {
			p.State, p.Awaited, p.Since, p.Missed = "starting", "/run/p.sock", now, 1
		}), statuspage.Broken, "Nobody is connected to /run/p.sock."},
		{"open, with misses from before", with(func(p *supervisor.PluginStatus) {
			p.Breaker, p.Missed = supervisor.BreakerView{State: "open", Cause: "hung"}, 12
		}), statuspage.Broken, "Its circuit breaker is open: a call hung, so the process was killed."},
		{"starting", with(func(p *supervisor.PluginStatus) { p.State = "starting" }), statuspage.Waiting, "It is starting."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := connected(healthy("a"), tt.in)
			o.Now = now
			v := statuspage.NewView(o, "n1")
			for _, j := range v.Judged {
				if j.Plugin == "p" && (j.Level != tt.level || j.Why != tt.why) {
					t.Errorf("it is %s: %q; want %s: %q", j.Level, j.Why, tt.level, tt.why)
				}
			}
			if v.Level != tt.level {
				t.Errorf("all of it is %s (%s), want %s", v.Level, v.Verdict, tt.level)
			}
			if tt.level == statuspage.Broken && (v.Verdict != "1 of 2 plugins is broken: p." || v.Judged[0].Plugin != "p") {
				t.Errorf("verdict %q, first %q", v.Verdict, v.Judged[0].Plugin)
			}
		})
	}
}

// TestAPluginThatIsTriedIsBrokenSinceItsBreakerOpened, and the page says what opened it and what it waits for.
func TestAPluginThatIsTriedIsBrokenSinceItsBreakerOpened(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := healthy("p")
	p.Breaker = supervisor.BreakerView{
		State: "half_open", Cause: "started", Since: now, WaitsFor: supervisor.WaitCall, Opening: &supervisor.Opening{At: now.Add(-time.Hour), Cause: "hung"},
	}
	j := statuspage.NewView(connected(p), "n1").Judged[0]
	if j.Since != now.Add(-time.Hour).UnixMilli() || j.Opened != "a call hung, so the process was killed" || j.Waits != "the next event that selects it is the trial" {
		t.Errorf("it says %+v", j)
	}
	p.Breaker.State, p.Breaker.WaitsFor, p.Breaker.Opening.Closed = "closed", "", now
	if j := statuspage.NewView(connected(p), "n1").Judged[0]; j.Level != statuspage.Fine || j.Waits != "" {
		t.Errorf("closed again: %+v", j)
	}
}

func TestEveryWaitOfABreakerIsSaidInWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"": true}
	for _, w := range supervisor.Waits() {
		text := statuspage.WaitText(w)
		if seen[text] || strings.Contains(text, "_") {
			t.Errorf("%s is %q", w, text)
		}
		seen[text] = true
	}
	if text := statuspage.WaitText(""); text != "" {
		t.Errorf("nothing is %q", text)
	}
}

func TestEveryStateAndCauseHasASentence(t *testing.T) {
	t.Parallel()
	for _, phase := range plugin.Phases() {
		for _, st := range breaker.States() {
			for _, c := range breaker.Causes() {
				p := supervisor.PluginStatus{Name: "p", State: phase.String(), Breaker: supervisor.BreakerView{State: st.String(), Cause: c.String()}}
				j := statuspage.NewView(connected(p), "n1").Judged[0]
				if serves := phase == plugin.Ready && st == breaker.StateClosed; serves != (j.Level == statuspage.Fine) || !serves && !strings.HasSuffix(j.Why, ".") || strings.Contains(j.Why, "_") {
					t.Errorf("%s, breaker %s by %s: %s, %q", phase, st, c, j.Level, j.Why)
				}
			}
		}
	}
}

func TestTheVerdictSaysWhatElseNeedsALook(t *testing.T) {
	t.Parallel()
	lost := healthy("lost")
	lost.MissedInService = []supervisor.ReasonSum{{Reason: "conflict", Count: 1}}
	down, off := healthy("down"), healthy("off")
	down.State, off.State = "crash_loop", "disabled"
	const unhosted = "Containers are refused that require a plugin which is not hosted: nri-supervisor events --action failed names it."
	for _, tt := range []struct {
		name    string
		plugins []supervisor.PluginStatus
		refused time.Duration // ago; 0: never
		level   statuspage.Level
		want    string
	}{
		{"one that loses", []supervisor.PluginStatus{healthy("a"), lost}, 0, statuspage.Look, "Needs a look: lost."},
		{"beside one that is down", []supervisor.PluginStatus{lost, down}, 0, statuspage.Broken, "1 of 2 plugins is broken: down. Needs a look: lost."},
		{"beside one that is off", []supervisor.PluginStatus{lost, off}, 0, statuspage.Look, "Needs a look: lost. Switched off by an operator: off."},
		{"refused lately", []supervisor.PluginStatus{healthy("a")}, time.Minute, statuspage.Look, unhosted},
		{"refused long ago", []supervisor.PluginStatus{healthy("a")}, time.Hour, statuspage.Fine, "The plugin is in service."},
	} {
		o := connected(tt.plugins...)
		if o.Now = time.Now(); tt.refused > 0 {
			o.RefusedUnhosted, o.RefusedUnhostedAt = 1, o.Now.Add(-tt.refused)
		}
		if v := statuspage.NewView(o, "n1"); v.Level != tt.level || v.Verdict != tt.want {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, v.Level, v.Verdict, tt.level, tt.want)
		}
	}
}

func TestALostRuntimeComesBeforeEverything(t *testing.T) {
	t.Parallel()
	o := connected(healthy("a"))
	o.Runtime = supervisor.RuntimeStatus{Reason: "refused"}
	h := statuspage.Handler(&fixed{overview: o}, "n1")
	var v struct{ Level, Verdict, Node string }
	if err := json.NewDecoder(get(t, h, http.MethodGet, "/status.json").Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	if v.Level != "broken" || v.Verdict != "Not connected to the container runtime: refused." || v.Node != "n1" {
		t.Errorf("it says %+v", v)
	}
}

func TestEveryReasonForMissingWorkIsSaidInWords(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"supervisor_down": true, "before_install": true, "state_lost": true}
	for _, r := range breaker.Reasons() {
		want[r.String()] = true
	}
	for _, o := range breaker.Outcomes() {
		want[o.String()] = o != breaker.OutcomeSuccess
	}
	texts := statuspage.NewView(connected(), "n1").Reasons
	for reason, missing := range want {
		if text := texts[reason]; missing != (text != "") || strings.Contains(text, "_") {
			t.Errorf("%s is %q", reason, text)
		}
	}
	for reason := range texts {
		if !want[reason] {
			t.Errorf("%s is no reason", reason)
		}
	}
}
