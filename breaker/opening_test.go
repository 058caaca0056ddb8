package breaker_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	consecutive := breaker.Config{ConsecutiveFailures: 3}

	for _, o := range breaker.Outcomes() {
		name := o.String() + " three times in a row leaves it closed"
		want := breaker.StateClosed
		if o.Verdict() == breaker.VerdictBad {
			name = o.String() + " three times in a row opens it"
			want = breaker.StateOpen
		}
		onFakeTime(t, name, consecutive, func(b *bench) {
			b.calls(2, o)
			b.wantState(breaker.StateClosed)
			b.calls(3, breaker.OutcomeSuccess)
			b.calls(2, o)
			b.wantState(breaker.StateClosed) // a good call ended the series
			b.call("third", o)
			b.wantState(want)
			if want == breaker.StateOpen {
				b.wantLog("closed>open consecutive_failures")
				b.wantRefused("x", breaker.ReasonBreakerOpen)
			}
		})
	}

	onFakeTime(t, "a series is counted for each event: answers to another one do not end it", consecutive, func(b *bench) {
		for i := range 3 {
			b.wantState(breaker.StateClosed)
			good := b.admitCall(breaker.Call{Pod: "p", Work: "RunPodSandbox/"})
			good.End(breaker.OutcomeSuccess)
			good.Returned()
			bad := b.admitCall(breaker.Call{Pod: "p", Work: "CreateContainer/" + strconv.Itoa(i)})
			bad.End(breaker.OutcomeTimeout)
			bad.Returned()
		}
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "rare failures in a row open it however far apart", consecutive, func(b *bench) {
		for range 3 {
			b.call("", breaker.OutcomeTimeout)
			time.Sleep(time.Hour)
		}
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "excluded outcomes neither end nor lengthen a series", consecutive, func(b *bench) {
		b.calls(2, breaker.OutcomeTimeout)
		b.calls(20, breaker.OutcomeCanceled)
		b.calls(20, breaker.OutcomeBudget)
		b.wantState(breaker.StateClosed)
		b.call("", breaker.OutcomeTimeout)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "an outcome outside the set counts for nothing", consecutive, func(b *bench) {
		b.calls(9, breaker.Outcome(200))
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "no rule means that no call opens it", breaker.Config{}, func(b *bench) {
		b.calls(100, breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "a second verdict on one call is ignored", consecutive, func(b *bench) {
		ticket := b.admit("a")
		for range 5 {
			ticket.End(breaker.OutcomeTimeout)
		}
		b.wantState(breaker.StateClosed)
	})
}

func TestFailureRatio(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{FailureRatio: 0.5, RatioMinimumCalls: 10, RatioWindow: 30 * time.Second}

	onFakeTime(t, "half of ten calls opens it", cfg, func(b *bench) {
		b.calls(5, breaker.OutcomeSuccess)
		b.calls(4, breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed)
		b.call("", breaker.OutcomeTimeout)
		b.wantState(breaker.StateOpen)
		b.wantLog("closed>open failure_ratio")
	})
	onFakeTime(t, "nine failures of nine calls are too few calls", cfg, func(b *bench) {
		b.calls(9, breaker.OutcomeTimeout)
		b.calls(5, breaker.OutcomeCanceled) // not counted as calls
		b.wantState(breaker.StateClosed)
		b.call("", breaker.OutcomeTimeout)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "less than half keeps it closed", cfg, func(b *bench) {
		b.calls(11, breaker.OutcomeSuccess)
		b.calls(10, breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "failures older than the window are forgotten", cfg, func(b *bench) {
		b.calls(9, breaker.OutcomeTimeout)
		time.Sleep(30 * time.Second)
		if s := b.Snapshot(); s.Bad != 0 {
			b.t.Errorf("window holds %d bad calls before the next call, want 0", s.Bad)
		}
		b.call("", breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed)
		if s := b.Snapshot(); s.Bad != 1 || s.Good != 0 {
			b.t.Errorf("window holds %d good and %d bad calls, want 0 and 1", s.Good, s.Bad)
		}
	})
	onFakeTime(t, "failures inside the window are kept", cfg, func(b *bench) {
		b.calls(9, breaker.OutcomeTimeout)
		time.Sleep(26 * time.Second)
		b.call("", breaker.OutcomeTimeout)
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "the window forgets step by step and not all at once", cfg, func(b *bench) {
		for range 30 {
			b.call("", breaker.OutcomeSuccess)
			time.Sleep(time.Second)
		}
		for i := range 60 {
			if s := b.Snapshot(); s.Good < 27 || s.Good > 30 {
				b.t.Fatalf("after %d s the window holds %d calls, want 27 to 30", i, s.Good)
			}
			b.call("", breaker.OutcomeSuccess)
			time.Sleep(time.Second)
		}
	})
}

func TestSlowCalls(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{SlowCall: 100 * time.Millisecond, SlowRatio: 0.5, SlowMinimumCalls: 4}
	const slow, fast = 100 * time.Millisecond, 99 * time.Millisecond

	onFakeTime(t, "half of the calls slow opens it although all succeed", cfg, func(b *bench) {
		b.callAt("", "", breaker.OutcomeSuccess, fast)
		b.callAt("", "", breaker.OutcomeSuccess, fast)
		b.callAt("", "", breaker.OutcomeSuccess, slow)
		b.wantState(breaker.StateClosed)
		b.callAt("", "", breaker.OutcomeSuccess, slow)
		b.wantState(breaker.StateOpen)
		b.wantLog("closed>open slow_call")
	})
	onFakeTime(t, "too few calls keep it closed", cfg, func(b *bench) {
		for range 3 {
			b.callAt("", "", breaker.OutcomeSuccess, slow)
		}
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "a slow budget cut is not a slow call", cfg, func(b *bench) {
		for range 9 {
			b.callAt("", "", breaker.OutcomeBudget, slow)
		}
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "waiting before the request goes out is not the plugin's time", cfg, func(b *bench) {
		for range 4 {
			ticket := b.admit("")
			time.Sleep(time.Second)
			ticket.Sent()
			time.Sleep(fast)
			ticket.End(breaker.OutcomeSuccess)
			ticket.Returned()
		}
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "without Sent the time counts from Admit", cfg, func(b *bench) {
		for range 4 {
			ticket := b.admit("")
			time.Sleep(slow)
			ticket.End(breaker.OutcomeSuccess)
			ticket.Returned()
		}
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "a second Sent does not shorten the call", cfg, func(b *bench) {
		for range 4 {
			ticket := b.admit("")
			ticket.Sent()
			time.Sleep(slow)
			ticket.Sent()
			ticket.End(breaker.OutcomeSuccess)
			ticket.Returned()
		}
		b.wantState(breaker.StateOpen)
	})
	onFakeTime(t, "a verdict that takes long after the return is not the plugin's time", cfg, func(b *bench) {
		for range 4 {
			ticket := b.admit("")
			time.Sleep(fast)
			ticket.Returned()
			time.Sleep(time.Second)
			ticket.End(breaker.OutcomeSuccess)
		}
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "a slow probe does not cure slowness", cfg, func(b *bench) {
		for range 4 {
			b.callAt("", "", breaker.OutcomeSuccess, slow)
		}
		time.Sleep(5 * time.Second)
		b.callAt("", "", breaker.OutcomeSuccess, slow)
		b.wantState(breaker.StateOpen)
		time.Sleep(10 * time.Second)
		b.callAt("", "", breaker.OutcomeSuccess, fast)
		b.wantState(breaker.StateClosed)
		b.wantLog("closed>open slow_call", "open>half_open timer", "half_open>open probe",
			"open>half_open timer", "half_open>closed probe")
	})
	onFakeTime(t, "a slow probe cures a hang", cfg, func(b *bench) {
		b.Hung("")
		time.Sleep(5 * time.Second)
		b.callAt("", "", breaker.OutcomeSuccess, slow)
		b.wantState(breaker.StateClosed)
	})
}
