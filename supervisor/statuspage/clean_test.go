package statuspage_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
	"github.com/nri-supervisor/nri-supervisor/supervisor/statuspage"
)

func TestCleanShowsWhatCannotBePrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain, größer 漢字", "plain, größer 漢字"},
		{"a\tb", "a b"},
		{"a\nb\r", `a\nb\r`},
		{"\x1b[2J", `\x1b[2J`},
		{"\u009b2J", `\u009b2J`},
		{"\xff", `\xff`},
		{"x\x80y", `x\x80y`},
		{"\ufffd", "\ufffd"},
		{"\u202edrawkcab", `\u202edrawkcab`},
		{"\x7f", `\x7f`},
		{`C:\dir`, `C:\dir`},
	} {
		if got := statuspage.Clean(c.in); got != c.want {
			t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// page is what the page reads.
func page(t *testing.T, o supervisor.Overview) (statuspage.View, string) {
	t.Helper()
	body, err := io.ReadAll(get(t, statuspage.Handler(&fixed{overview: o}, "n1"), http.MethodGet, "/status.json").Body)
	if err != nil {
		t.Fatal(err)
	}
	var v statuspage.View
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return v, string(body)
}

// TestThePageShowsNoTextThatActs, wherever a plugin, a manifest or a pod has it.
func TestThePageShowsNoTextThatActs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"},
		{`C:\dir "quoted" <b>&`, `C:\dir "quoted" <b>&`},
		{"\u202edrawkcab", `\u202edrawkcab`},
		{"\x1b[31mred", `\x1b[31mred`},
		{"a\u0085b\x7f", `a\u0085b\x7f`},
		{"two\nlines\tof it", "two lines of it"},
		{"zero\u200bwidth", `zero\u200bwidth`},
	} {
		p := healthy("p")
		p.State, p.LastError, p.Contact, p.Problems = "crash_loop", c.in, c.in, []string{c.in}
		p.Exits = []supervisor.ExitRecord{{Reason: "exit_code", Detail: c.in, InFlight: c.in}}
		p.Breaker = supervisor.BreakerView{State: "open", Cause: "exit", Opening: &supervisor.Opening{
			Cause: "exit", First: &supervisor.Failure{Pod: c.in, Detail: c.in}, Last: &supervisor.Failure{Detail: c.in},
		}}
		o := connected(p)
		o.Now = time.Unix(0, 1234567890123456789).UTC()
		o.MissedContainers, o.Decisions = []supervisor.MissedWork{{Pod: c.in}}, []journal.Decision{{Detail: c.in}}
		v, body := page(t, o)
		q := v.Plugins[0]
		for what, got := range map[string]string{
			"last error": q.LastError, "contact": q.Contact, "problem": q.Problems[0], "exit": q.Exits[0].Detail, "in flight": q.Exits[0].InFlight,
			"first": q.Breaker.Opening.First.Detail, "pod": q.Breaker.Opening.First.Pod, "last": q.Breaker.Opening.Last.Detail,
			"missed": v.MissedContainers[0].Pod, "decision": v.Decisions[0].Detail,
		} {
			if got != c.want {
				t.Errorf("%q: the %s is %q, want %q", c.in, what, got, c.want)
			}
		}
		if strings.ContainsAny(body, "\u202e\u0085\x7f\x1b\u200b") {
			t.Errorf("%q: the answer has it raw:\n%s", c.in, body)
		}
		if !v.Now.Equal(o.Now) || p.LastError != c.in || o.Plugins[0].Breaker.Opening.Last.Detail != c.in {
			t.Errorf("%q: something else changed: %s, %+v", c.in, v.Now, o.Plugins[0])
		}
	}
}

// TestALongErrorDoesNotFillTheCard, nor the page, and where it began and what it was can be read.
func TestALongErrorDoesNotFillTheCard(t *testing.T) {
	t.Parallel()
	long := "create pod " + strings.Repeat("ö", 1000) + " no volume"
	p := healthy("p")
	p.LastError = long
	p.Breaker = supervisor.BreakerView{State: "half_open", Cause: "started", Opening: &supervisor.Opening{
		Cause: "hung", First: &supervisor.Failure{Detail: long}, Last: &supervisor.Failure{Detail: long},
	}}
	o := connected(p)
	v, _ := page(t, o)
	q := v.Plugins[0]
	for what, text := range map[string]string{"last error": q.LastError, "first": q.Breaker.Opening.First.Detail, "last": q.Breaker.Opening.Last.Detail, "why": v.Judged[0].Why} {
		if n := len([]rune(text)); n > 260 || !strings.Contains(text, "create pod ö") || !strings.HasSuffix(strings.TrimSuffix(text, "."), "ö no volume") {
			t.Errorf("%s has %d characters: %s", what, n, text)
		}
	}
	if kept := o.Plugins[0].Breaker.Opening; o.Plugins[0].LastError != long || kept.First.Detail != long || kept.Last.Detail != long {
		t.Error("it is cut for others too")
	}
}
