package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/admin/admintest"
	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

func someDecisions() []journal.Decision {
	uid := uint32(0)
	bert := journal.Object{Namespace: "ml-training", Pod: "bert-0", Container: "trainer"}
	return []journal.Decision{
		{Seq: 1, Time: fakeNow(), Kind: journal.KindEvent, Event: "CreateContainer", Object: bert, Plugin: "netpol", Team: "network", Outcome: "success", Action: journal.ActionAllowed, TookSeconds: 0.0012, Changed: []journal.Field{{Field: "Env", Key: "A"}, {Field: "Mounts", Key: "/x", Removed: true}}},
		{Seq: 2, Time: fakeNow(), Kind: journal.KindEvent, Event: "CreateContainer", Object: bert, Plugin: "gpu-env", Team: "ml-infra", Outcome: "timeout", Reason: "timeout", Action: journal.ActionIgnored, TookSeconds: 0.5, Detail: "no answer in 500ms\x1b[31m"},
		{Seq: 3, Time: fakeNow(), Kind: journal.KindEvent, Event: "CreateContainer", Object: bert, Plugin: "gpu-env", Team: "ml-infra", Reason: "breaker_open", Action: journal.ActionFailed},
		{Seq: 4, Time: fakeNow(), Kind: journal.KindManual, Plugin: "gpu-env", Team: "ml-infra", Manual: "disable", ActorUID: &uid, Action: journal.ActionDone},
		{Seq: 5, Time: fakeNow(), Kind: journal.KindManual, Manual: "bypass", ActorUID: &uid, ForSeconds: 600, Action: journal.ActionDone},
		{Seq: 6, Time: fakeNow(), Kind: journal.KindSelection, Event: "CreateContainer", Object: bert, NotMatched: []journal.NotMatched{{Plugin: "volume", Part: "podSelector"}}},
		{Time: fakeNow(), Kind: journal.KindLost, Count: 3},
	}
}

// Decisions makes the fake a source of decisions.
func (f *fakeAPI) Decisions(want journal.Filter) []journal.Decision {
	return f.journal().Decisions(want)
}

// FollowDecisions as above.
func (f *fakeAPI) FollowDecisions(want journal.Filter) *journal.Subscription {
	return f.journal().Subscribe(want)
}

func (*fakeAPI) journal() *journal.Journal {
	j := journal.New(0)
	j.Publish(someDecisions()[:6]...)
	return j
}

func TestEachDecisionIsOneHarmlessLine(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, d := range someDecisions() {
		if err := printDecision(&b, d, formatTable); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "events/lines.txt", b.String())
}

func TestEventsArePickedByTheirFlags(t *testing.T) {
	t.Parallel()
	st := troubled(time.Now())
	for i := range st.Plugins {
		st.Plugins[i].FailsClosed = false // nothing is noted beside the decisions
	}
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: st}})
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 6},
		{[]string{"--last", "2"}, 2},
		{[]string{"--plugin", "gpu-env"}, 3},
		{[]string{"--team", "network"}, 1},
		{[]string{"--pod", "ml-training/bert-0"}, 4},
		{[]string{"--pod", "bert-0", "--outcome", "timeout"}, 1},
		{[]string{"--pod", "bert-0", "--outcome", "busy"}, 0},
		{[]string{"--outcome", "breaker_open"}, 1},
		{[]string{"--outcome", "success", "--last", "1"}, 1},
		{[]string{"--action", "failed", "-o", "json"}, 1},
	} {
		code, stdout, stderr := command(t, append([]string{"events", "--socket", socket}, tt.args...)...)
		if got := strings.Count(stdout, "\n"); code != exitOK || stderr != "" || got != tt.want {
			t.Errorf("events %v: exit code %d, %d lines, want %d: %s%s", tt.args, code, got, tt.want, stdout, stderr)
		}
	}
	for flag, hint := range map[string]string{"--action": "ignored", "--outcome": "breaker_open", "--event": "CreateContainer", "--plugin": "gpu-env", "--team": "ml-infra"} {
		if code, _, stderr := command(t, "events", "--socket", socket, flag, "sideways"); code != exitFailure || !strings.Contains(stderr, hint) {
			t.Errorf("an unknown value of %s: exit code %d, %s", flag, code, stderr)
		}
	}
}

func TestAPodThatCannotBeIsRefusedAndOneThatMayBeIsNoted(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeAPI{Fake: admintest.Fake{State: flapping(time.Now())}})
	for _, tt := range []struct {
		args []string
		code int
		want string // on standard error
	}{
		{[]string{"--pod", "a/b/c"}, exitUsage, `error: --pod "a/b/c" is neither NAME nor NAMESPACE/NAME`},
		{[]string{"--pod", "/b"}, exitUsage, `error: --pod "/b" is neither`},
		{[]string{"--pod", "a/"}, exitUsage, `error: --pod "a/" is neither`},
		{[]string{"--pod", "Bert_0"}, exitFailure, `error: no pod can have the name "Bert_0"`},
		{[]string{"--pod", "ml training/bert-0"}, exitFailure, `error: no pod can have the name`},
		{[]string{"--pod", "other/bert-0", "-o", "json"}, exitOK, "note: nothing is remembered of a pod other/bert-0 on this node"},
		{[]string{"--outcome", "nosuch"}, exitFailure, `error: unknown outcome "nosuch"`},
		{[]string{"--outcome", "nosuch", "--follow"}, exitFailure, `error: unknown outcome "nosuch"`},
	} {
		code, stdout, stderr := command(t, append([]string{"events", "--socket", socket}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.HasPrefix(stderr, "nri-supervisor: "+tt.want) {
			t.Errorf("events %v: exit code %d, stdout %q, stderr %q", tt.args, code, stdout, stderr)
		}
		if code != exitOK && !strings.Contains(stderr, "nri-supervisor: hint: ") {
			t.Errorf("events %v has no hint: %q", tt.args, stderr)
		}
	}
}
