package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
)

func TestARequestMayHaveWaitedWhileTheProcessStoodStill(t *testing.T) {
	t.Parallel()
	var p pulse
	t0 := time.Now()
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	check := func(d, want time.Duration) {
		t.Helper()
		if got := p.waited(at(d)); got != want {
			t.Errorf("after %s a request may have waited %s, want %s", d, got, want)
		}
	}
	check(time.Hour, 0) // nothing was noted yet
	p.beat(t0)
	check(stoodStill-1, 0)
	check(2*time.Second, 2*time.Second) // it is seen before the timer
	p.beat(at(2 * time.Second))
	check(2*time.Second, 2*time.Second)
	check(2*time.Second+sinceThen-1, 2*time.Second)
	check(2*time.Second+sinceThen, 0)
	p.beat(at(2*time.Second + stoodStill - 1)) // a timer that is late
	check(2*time.Second+stoodStill-1, 0)
}

func TestARequestThatMayHaveWaitedHasLessTimeButSome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		se := &session{sup: &Supervisor{}, timeout: 2 * time.Second, budget: 1800 * time.Millisecond}
		for _, tt := range []struct{ waited, until, lost time.Duration }{
			{0, 1800 * time.Millisecond, 1950 * time.Millisecond},
			{time.Second, 800 * time.Millisecond, 950 * time.Millisecond},
			{3 * time.Second, 450 * time.Millisecond, -1050 * time.Millisecond},
		} {
			se.sup.pulse.last.Store(&heartbeat{at: time.Now().Add(-tt.waited)})
			until, lost := se.request(api.Event_CREATE_CONTAINER).deadline(t.Context())
			if time.Until(until) != tt.until || time.Until(lost) != tt.lost {
				t.Errorf("waited %s: to be answered in %s, lost in %s; want %s and %s", tt.waited, time.Until(until), time.Until(lost), tt.until, tt.lost)
			}
		}
	})
}

// TestHowLongARequestWaitedIsAskedWhenItIsSeen: what is asked later may not know of it any more, and the runtime has waited on.
func TestHowLongARequestWaitedIsAskedWhenItIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		se := &session{sup: &Supervisor{}, timeout: 2 * time.Second, budget: 1800 * time.Millisecond}
		se.sup.pulse.beat(time.Now())
		time.Sleep(time.Second)
		a := se.request(api.Event_CREATE_CONTAINER)
		for range 3 {
			se.sup.pulse.beat(time.Now())
			time.Sleep(pulsePeriod)
		}
		if until, lost := a.deadline(t.Context()); time.Until(until) != 500*time.Millisecond || time.Until(lost) != 650*time.Millisecond {
			t.Errorf("to be answered in %s, lost in %s; want 500 ms and 650 ms", time.Until(until), time.Until(lost))
		}
	})
}

func TestRequestsThatAreBeingAnsweredHoldUpTheEndForAShortTimeOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for timeout, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Minute: finishLimit} {
			se := &session{sup: &Supervisor{}, timeout: timeout}
			se.flow.enter(time.Now())
			begin := time.Now()
			se.finish()
			if took := time.Since(begin); took != want || se.sup.finishing != want {
				t.Errorf("with a timeout of %s the end took %s, noted as %s; want %s", timeout, took, se.sup.finishing, want)
			}
		}
	})
}

func TestThePulseStopsWhenItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		stop := make(chan struct{})
		go p.keepPulse(stop)
		time.Sleep(10 * stoodStill)
		synctest.Wait()
		if w := p.waited(time.Now()); w != 0 {
			t.Errorf("a process that runs stood still for %s", w)
		}
		close(stop) // the bubble ends only when the goroutine has
	})
}
