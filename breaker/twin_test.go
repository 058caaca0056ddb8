package breaker_test

import (
	"strings"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// twin is the guard written down a second time, slowly and plainly, to be compared
// with the real one: no gobreaker, no window (the tests make it longer than they
// take), no bound on pods, no lane share, one thing after the other.
type twin struct {
	cfg breaker.Config

	auto        breaker.State
	down        bool
	forced, off bool
	until       time.Time
	openings    int // doublings so far
	good        int
	consecutive map[string]uint32 // by event
	window      []twinCall
	moreThan    bool // something else than health and exits opened it
	slowness    bool

	inflight, probe, last *twinTicket
	pods                  map[string]*twinPod
}

type twinCall struct{ bad, slow bool }

type twinTicket struct {
	pod, work       string
	era             *int // the state it was admitted in; compared by address
	admitted, start time.Time
	back            time.Time
	sent            bool
	ended, returned bool
	soft, hard      bool
}

type twinPod struct {
	soft, hard int
	work       string
	counted    bool
	at, until  time.Time
}

func (w *twin) state() breaker.State {
	if w.off {
		return breaker.StateDisabled
	}
	if w.forced {
		return breaker.StateForcedOpen
	}
	return w.auto
}

// ideal is the next open time without jitter.
func (w *twin) ideal() time.Duration {
	d := w.cfg.OpenDuration
	for range w.openings {
		d = min(2*d, w.cfg.MaxOpenDuration)
	}
	return d
}

// open opens for took, the length that the real guard has drawn.
func (w *twin) open(took time.Duration, cause breaker.Cause) {
	w.openings++
	w.auto, w.until, w.good, w.probe = breaker.StateOpen, time.Now().Add(took), 0, nil
	w.moreThan = w.moreThan || (cause != breaker.CauseExit && cause != breaker.CauseHealth)
	w.slowness = w.slowness || cause == breaker.CauseSlowCall
}

func (w *twin) close() {
	w.auto, w.probe, w.consecutive, w.window = breaker.StateClosed, nil, map[string]uint32{}, nil
	w.moreThan, w.slowness, w.down = false, false, false
}

func (w *twin) pod(name string) *twinPod {
	p := w.pods[name]
	now := time.Now()
	if p == nil || (now.Sub(p.at) >= w.cfg.QuarantineDuration+30*time.Minute && !now.Before(p.until)) {
		p = &twinPod{at: now}
		w.pods[name] = p
	}
	return p
}

func (w *twin) strike(name string, t *twinTicket, hard bool) {
	if name == "" || (t != nil && (t.hard || (t.soft && !hard))) {
		return
	}
	p := w.pod(name)
	switch {
	case !hard:
		p.soft++
		p.work = t.work
		t.soft = true
	case t == nil:
		p.hard++
	default:
		if t.soft && p.soft > 0 {
			p.soft--
		}
		p.hard++
		t.hard = true
	}
	p.at = time.Now()
	if p.soft+p.hard >= w.cfg.QuarantineAfter {
		p.until = p.at.Add(w.cfg.QuarantineDuration)
	}
}

// expire is the first half of Admit: it says whether a probe has waited too long.
func (w *twin) expire() bool {
	return !w.off && !w.forced && w.auto == breaker.StateHalfOpen && w.probe != nil &&
		time.Since(w.probe.admitted) >= w.cfg.ProbeDeadline
}

func (w *twin) refusal(pod string) breaker.Reason {
	switch {
	case w.off:
		return breaker.ReasonDisabled
	case w.forced:
		return breaker.ReasonBreakerOpen
	case w.auto == breaker.StateOpen && (w.down || time.Now().Before(w.until)):
		return breaker.ReasonBreakerOpen
	case w.probe != nil:
		return breaker.ReasonHalfOpenFull
	case w.inflight != nil:
		return breaker.ReasonBusy
	case pod != "" && time.Now().Before(w.pod(pod).until):
		return breaker.ReasonQuarantined
	}
	return breaker.ReasonNone
}

func (w *twin) admit(pod, work string, era *int) *twinTicket {
	t := &twinTicket{pod: pod, work: work, era: era, admitted: time.Now(), start: time.Now()}
	if w.auto != breaker.StateClosed {
		w.auto = breaker.StateHalfOpen
		w.probe = t
	}
	w.inflight, w.last = t, t
	return t
}

// end returns why the breaker opens, if it does.
func (w *twin) end(t *twinTicket, o breaker.Outcome, current bool) breaker.Cause {
	if t.ended {
		return breaker.CauseNone
	}
	t.ended = true
	if w.probe == t {
		w.probe = nil
	}
	verdict := o.Verdict()
	if verdict == breaker.VerdictGood && t.pod != "" {
		if p := w.pod(t.pod); p.work == t.work {
			p.soft, p.counted = 0, false
		}
	}
	if verdict == breaker.VerdictBad && o != breaker.OutcomeUnavailable {
		w.strike(t.pod, t, false)
	}
	if !current {
		return breaker.CauseNone
	}
	if o == breaker.OutcomeError && t.pod != "" {
		p := w.pod(t.pod)
		if p.counted {
			verdict = breaker.VerdictExcluded
		}
		p.counted = true
	}
	if verdict == breaker.VerdictExcluded {
		return breaker.CauseNone
	}
	took := time.Since(t.start)
	if t.returned {
		took = t.back.Sub(t.start)
	}
	return w.count(t.work, verdict == breaker.VerdictBad, took >= w.cfg.SlowCall)
}

func (w *twin) count(work string, bad, slow bool) breaker.Cause {
	if !bad && !slow {
		w.good++
		if w.good >= 10 {
			w.openings = 0
		}
	}
	if w.auto == breaker.StateHalfOpen {
		if bad || (slow && w.slowness) {
			return breaker.CauseProbe
		}
		w.close()
		return breaker.CauseNone
	}
	w.window = append(w.window, twinCall{bad, slow})
	var n, bads, slows float64
	for _, c := range w.window {
		n++
		if c.bad {
			bads++
		}
		if c.slow {
			slows++
		}
	}
	event, _, _ := strings.Cut(work, "/")
	w.consecutive[event]++
	if !bad {
		w.consecutive[event] = 0
	}
	switch {
	case bad && w.consecutive[event] >= w.cfg.ConsecutiveFailures:
		return breaker.CauseConsecutiveFailures
	case bad && n >= float64(w.cfg.RatioMinimumCalls) && bads/n >= w.cfg.FailureRatio:
		return breaker.CauseFailureRatio
	case n >= float64(w.cfg.SlowMinimumCalls) && slows/n >= w.cfg.SlowRatio:
		return breaker.CauseSlowCall
	}
	return breaker.CauseNone
}

func (w *twin) disown() {
	if w.probe != nil {
		w.probe.ended = true
		w.probe = nil
	}
	if w.inflight != nil {
		w.inflight.ended, w.inflight.returned = true, true
		w.inflight = nil
	}
}

func (w *twin) blame(pod string) {
	t := w.last
	if t != nil && t.pod != pod {
		t = nil
	}
	w.strike(pod, t, true)
}
