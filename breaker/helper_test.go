package breaker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// bench is a guard under test with the transitions that it handed out.
type bench struct {
	*breaker.Guard
	t    *testing.T
	log  []breaker.Transition
	pods int // how many names of pods have been made up
}

// fair is the jitter that changes nothing.
func fair() float64 { return 0.5 }

// onFakeTime runs f as a subtest in a bubble with a guard made of cfg.
func onFakeTime(t *testing.T, name string, cfg breaker.Config, f func(b *bench)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &bench{t: t}
			b.Guard = breaker.New(cfg, fair, func(tr breaker.Transition) { b.log = append(b.log, tr) })
			f(b)
		})
	})
}

// admit admits a call or ends the test.
func (b *bench) admit(pod string) *breaker.Ticket {
	b.t.Helper()
	return b.admitCall(breaker.Call{Pod: pod})
}

func (b *bench) admitCall(c breaker.Call) *breaker.Ticket {
	b.t.Helper()
	ticket, reason := b.AdmitCall(c)
	if reason != breaker.ReasonNone {
		b.t.Fatalf("admit %+v in state %v: refused: %v", c, b.State(), reason)
	}
	return ticket
}

// call admits a call and ends and returns it at once.
func (b *bench) call(pod string, o breaker.Outcome) {
	b.t.Helper()
	b.callAt(pod, "", o, 0)
}

// callAt is call for a piece of work that takes d.
func (b *bench) callAt(pod, work string, o breaker.Outcome, d time.Duration) {
	b.t.Helper()
	ticket := b.admitCall(breaker.Call{Pod: pod, Work: work})
	ticket.Sent()
	time.Sleep(d)
	ticket.End(o)
	ticket.Returned()
}

// calls makes n calls, each of a pod that has never been met.
func (b *bench) calls(n int, o breaker.Outcome) {
	b.t.Helper()
	for range n {
		b.pods++
		b.call(fmt.Sprintf("pod-%d", b.pods), o)
	}
}

func (b *bench) wantState(want breaker.State) {
	b.t.Helper()
	if got := b.State(); got != want {
		b.t.Errorf("state = %v, want %v", got, want)
	}
}

func (b *bench) wantRefused(pod string, want breaker.Reason) {
	b.t.Helper()
	ticket, got := b.Admit(pod)
	if got != want {
		b.t.Errorf("admit %q in state %v: %v, want %v", pod, b.State(), got, want)
	}
	if ticket != nil && want != breaker.ReasonNone {
		b.t.Errorf("admit %q: a ticket came with the refusal %v", pod, got)
	}
}

// wantLog compares the transitions so far, written "from>to cause".
func (b *bench) wantLog(want ...string) {
	b.t.Helper()
	var got []string
	for _, tr := range b.log {
		got = append(got, fmt.Sprintf("%v>%v %v", tr.From, tr.To, tr.Cause))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

func (b *bench) quarantined() []string {
	var pods []string
	for _, q := range b.Snapshot().Quarantined {
		pods = append(pods, q.Pod)
	}
	slices.Sort(pods)
	return pods
}
