package breaker_test

import (
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

func TestManualStates(t *testing.T) {
	t.Parallel()
	cfg := breaker.DefaultConfig()

	onFakeTime(t, "a tripped breaker stays open until Reset", cfg, func(b *bench) {
		b.Trip()
		b.Trip()
		time.Sleep(24 * time.Hour)
		b.HealthOK()
		b.Started(true)
		b.wantState(breaker.StateForcedOpen)
		b.wantRefused("", breaker.ReasonBreakerOpen)
		b.Reset()
		b.Reset()
		b.call("", breaker.OutcomeSuccess)
		b.wantLog("closed>forced_open manual", "forced_open>closed manual")
	})
	onFakeTime(t, "a disabled plugin stays so until Enable", cfg, func(b *bench) {
		b.Disable()
		b.Disable()
		time.Sleep(24 * time.Hour)
		b.Reset()
		b.HealthOK()
		b.Started(true)
		b.wantState(breaker.StateDisabled)
		b.wantRefused("", breaker.ReasonDisabled)
		b.Enable()
		b.Enable()
		b.call("", breaker.OutcomeSuccess)
		b.wantLog("closed>disabled manual", "disabled>closed manual")
	})
	onFakeTime(t, "disabled hides tripped, which hides automatic", cfg, func(b *bench) {
		b.HealthFailed()
		b.Trip()
		b.Disable()
		b.Enable()
		b.wantState(breaker.StateForcedOpen)
		b.Disable()
		b.Reset()
		b.Enable()
		b.wantLog("closed>open health", "open>forced_open manual", "forced_open>disabled manual",
			"disabled>forced_open manual", "forced_open>disabled manual", "disabled>closed manual")
	})
	onFakeTime(t, "what happens behind a manual state is recorded but does not show", cfg, func(b *bench) {
		b.Disable()
		b.Exited("")
		b.Started(false)
		b.HealthFailed()
		b.wantState(breaker.StateDisabled)
		b.wantLog("closed>disabled manual")
		if s := b.Snapshot(); s.Automatic != breaker.StateOpen || s.State != breaker.StateDisabled {
			b.t.Errorf("snapshot shows %v in front of %v, want disabled in front of open", s.State, s.Automatic)
		}
		time.Sleep(4 * time.Second)
		b.Enable()
		b.wantLog("closed>disabled manual", "disabled>open manual")
		if tr := b.log[1]; tr.OpenFor != 6*time.Second { // the second opening takes 10 s
			b.t.Errorf("open for %v more, want 6s", tr.OpenFor)
		}
	})
	onFakeTime(t, "a call in flight outlives Trip and Disable", cfg, func(b *bench) {
		ticket := b.admit("")
		b.Trip()
		b.Disable()
		b.Enable()
		b.Reset()
		b.wantRefused("", breaker.ReasonBusy)
		ticket.End(breaker.OutcomeSuccess)
		ticket.Returned()
		b.admit("")
	})
	onFakeTime(t, "Reset closes whatever opened it and forgets what was counted", cfg, func(b *bench) {
		for _, open := range []func(){
			func() { b.calls(3, breaker.OutcomeTimeout) },
			func() { b.Hung("") },
			func() { b.HealthFailed() },
			func() { b.Exited("") },
			func() { b.calls(2, breaker.OutcomeTimeout) },
		} {
			open()
			b.Reset()
			b.wantState(breaker.StateClosed)
			if s := b.Snapshot(); s.Bad != 0 || s.ConsecutiveFailures != 0 || s.AwaitsStart {
				b.t.Errorf("after Reset: %+v", s)
			}
			b.calls(2, breaker.OutcomeTimeout)
			b.wantState(breaker.StateClosed)
			b.calls(1, breaker.OutcomeSuccess)
		}
	})
	onFakeTime(t, "Reset during a probe does not let its verdict judge the closed breaker", cfg, func(b *bench) {
		b.HealthFailed()
		time.Sleep(5 * time.Second)
		probe := b.admit("")
		b.Reset()
		probe.End(breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed)
		b.wantRefused("", breaker.ReasonBusy)
		probe.Returned()
		b.calls(2, breaker.OutcomeTimeout)
		b.wantState(breaker.StateClosed)
	})
	onFakeTime(t, "Reset keeps quarantines", breaker.Config{QuarantineAfter: 1}, func(b *bench) {
		b.call("p", breaker.OutcomeTimeout)
		b.Trip()
		b.Reset()
		b.wantRefused("p", breaker.ReasonQuarantined)
	})
}

func TestReconfigure(t *testing.T) {
	t.Parallel()

	onFakeTime(t, "keeps manual states, quarantines, tickets and counts", breaker.DefaultConfig(), func(b *bench) {
		for range 3 {
			crash(b, "p")
		}
		b.Reset()
		b.calls(1, breaker.OutcomeTimeout)
		ticket := b.admit("q")
		b.Trip()
		cfg := breaker.DefaultConfig()
		cfg.ConsecutiveFailures = 2
		b.Reconfigure(cfg)
		b.wantState(breaker.StateForcedOpen)
		b.Disable()
		b.Reconfigure(cfg)
		b.wantState(breaker.StateDisabled)
		b.Enable()
		b.Reset()
		b.wantRefused("q", breaker.ReasonBusy)
		ticket.End(breaker.OutcomeSuccess)
		ticket.Returned()
		b.wantRefused("p", breaker.ReasonQuarantined)
	})
	onFakeTime(t, "the new rules hold from the next call on", breaker.DefaultConfig(), func(b *bench) {
		b.calls(1, breaker.OutcomeTimeout)
		cfg := breaker.DefaultConfig()
		cfg.ConsecutiveFailures = 2
		cfg.OpenDuration = time.Second
		b.Reconfigure(cfg)
		b.wantState(breaker.StateClosed)
		b.calls(1, breaker.OutcomeTimeout)
		b.wantLog("closed>open consecutive_failures")
		if got := b.log[0].OpenFor; got != time.Second {
			b.t.Errorf("open for %v, want 1s", got)
		}
	})
	onFakeTime(t, "a new window starts empty", breaker.Config{}, func(b *bench) {
		b.calls(5, breaker.OutcomeTimeout)
		b.Reconfigure(breaker.Config{})
		if s := b.Snapshot(); s.Bad != 5 {
			b.t.Errorf("the same window holds %d calls, want 5", s.Bad)
		}
		b.Reconfigure(breaker.Config{RatioWindow: time.Minute})
		if s := b.Snapshot(); s.Bad != 0 {
			b.t.Errorf("a new window holds %d calls, want 0", s.Bad)
		}
	})
	onFakeTime(t, "a rule that is switched off ignores what it has counted",
		breaker.Config{SlowCall: time.Second, SlowRatio: 0.1, SlowMinimumCalls: 5}, func(b *bench) {
			for range 4 {
				b.callAt("", "", breaker.OutcomeSuccess, time.Second)
			}
			b.Reconfigure(breaker.Config{SlowRatio: 0.1, SlowMinimumCalls: 5})
			b.callAt("", "", breaker.OutcomeSuccess, time.Second)
			b.wantState(breaker.StateClosed)
		})
	onFakeTime(t, "an open time beyond the new maximum is cut", breaker.Config{OpenDuration: time.Hour, MaxOpenDuration: time.Hour},
		func(b *bench) {
			b.HealthFailed()
			b.Reconfigure(breaker.Config{MaxOpenDuration: time.Minute})
			time.Sleep(time.Minute - 1)
			b.wantRefused("", breaker.ReasonBreakerOpen)
			time.Sleep(time.Nanosecond)
			b.admit("")
		})
	onFakeTime(t, "a running quarantine keeps its end", breaker.Config{QuarantineAfter: 1, QuarantineDuration: 24 * time.Hour},
		func(b *bench) {
			b.call("p", breaker.OutcomeTimeout)
			b.Reconfigure(breaker.Config{QuarantineAfter: 1, QuarantineDuration: time.Second})
			time.Sleep(24*time.Hour - 1)
			b.wantRefused("p", breaker.ReasonQuarantined)
			time.Sleep(time.Nanosecond)
			b.call("p", breaker.OutcomeSuccess)
		})
}
