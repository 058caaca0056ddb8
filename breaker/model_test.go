package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nri-supervisor/nri-supervisor/breaker"
)

// pair plays the same random life to a guard and to its twin. After each step it
// compares what shows, and checks what must hold in any case.
type pair struct {
	t       *testing.T
	calm    bool // no operator, and processes are rarely heard of
	rng     *rand.Rand
	g       *breaker.Guard
	w       *twin
	tickets []pairTicket
	era     *int // replaced whenever the twin's automatic state changes
	story   []string
	log     []breaker.Transition
}

type pairTicket struct {
	real *breaker.Ticket
	twin *twinTicket
}

func newPair(t *testing.T, seed uint64) *pair {
	t.Helper()
	cfg := breaker.Config{
		ConsecutiveFailures: 3,
		FailureRatio:        0.5, RatioMinimumCalls: 8, RatioWindow: 100_000 * time.Hour,
		SlowCall: 2 * time.Second, SlowRatio: 0.5, SlowMinimumCalls: 6,
		OpenDuration: 5 * time.Second, MaxOpenDuration: time.Minute, ProbeDeadline: 20 * time.Second,
		QuarantineAfter: 3, QuarantineDuration: 10 * time.Minute,
	}
	switch seed % 3 { // some lives are for one rule
	case 1:
		cfg.ConsecutiveFailures, cfg.SlowRatio = 1000, 1000
	case 2:
		cfg.ConsecutiveFailures, cfg.FailureRatio = 1000, 1000
	}
	p := &pair{t: t, calm: seed%2 == 0, rng: rand.New(rand.NewPCG(seed, 0)), era: new(int)}
	jitter := rand.New(rand.NewPCG(seed, 1))
	p.g = breaker.New(cfg, jitter.Float64, func(tr breaker.Transition) { p.log = append(p.log, tr) })
	p.w = &twin{cfg: cfg, pods: map[string]*twinPod{}, consecutive: map[string]uint32{}}
	return p
}

func (p *pair) say(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

func (p *pair) fatalf(format string, args ...any) {
	p.t.Helper()
	story := p.story[max(0, len(p.story)-30):]
	for _, line := range story {
		p.t.Log(line)
	}
	p.t.Fatalf(format, args...)
}

// opens lets the twin open, for the time that the real guard has drawn, and checks
// that time against its bounds.
func (p *pair) opens(cause breaker.Cause) {
	p.t.Helper()
	if cause == breaker.CauseNone || p.w.auto == breaker.StateOpen {
		return
	}
	took, ideal, most := p.g.Snapshot().OpenDuration, p.w.ideal(), p.w.cfg.MaxOpenDuration
	if took < ideal*8/10-1 || took > min(ideal*12/10+1, most) {
		p.fatalf("opened for %v, want %v ± 20 %% and at most %v", took, ideal, most)
	}
	p.w.open(took, cause)
}

func (p *pair) admit(pod, work string) {
	p.t.Helper()
	ticket, got := p.g.AdmitCall(breaker.Call{Pod: pod, Work: work})
	if p.w.expire() {
		p.w.probe.ended = true
		p.opens(breaker.CauseProbeExpired)
	}
	want := p.w.refusal(pod)
	p.say("admit %q %q: %v", pod, work, got)
	if got != want || (ticket == nil) == (got == breaker.ReasonNone) {
		p.fatalf("admit %q: %v with ticket %t, want %v", pod, got, ticket != nil, want)
	}
	if ticket == nil {
		return
	}
	if p.w.auto == breaker.StateOpen {
		p.era = new(int)
	}
	tw := p.w.admit(pod, work, p.era)
	if ticket.Probe() != (p.w.auto == breaker.StateHalfOpen) {
		p.fatalf("probe = %t in state %v", ticket.Probe(), p.w.auto)
	}
	p.tickets = append(p.tickets, pairTicket{ticket, tw})
}

// someTicket prefers the latest one.
func (p *pair) someTicket() (pairTicket, bool) {
	if len(p.tickets) == 0 {
		return pairTicket{}, false
	}
	i := len(p.tickets) - 1
	if p.rng.IntN(8) == 0 {
		i = p.rng.IntN(len(p.tickets))
	}
	return p.tickets[i], true
}

func (p *pair) end(t pairTicket, o breaker.Outcome) {
	p.t.Helper()
	p.say("end %q with %v", t.twin.pod, o)
	t.real.End(o)
	p.opens(p.w.end(t.twin, o, t.twin.era == p.era))
}

func (p *pair) returned(t pairTicket) {
	p.say("returned %q", t.twin.pod)
	t.real.Returned()
	if !t.twin.returned {
		t.twin.returned, t.twin.back = true, time.Now()
		if p.w.inflight == t.twin {
			p.w.inflight = nil
		}
	}
}

// onTicket does one thing to some ticket, mostly one that is due.
func (p *pair) onTicket() {
	p.t.Helper()
	t, ok := p.someTicket()
	if !ok {
		return
	}
	switch p.rng.IntN(5) {
	case 0:
		p.say("sent %q", t.twin.pod)
		t.real.Sent()
		if !t.twin.sent {
			t.twin.sent, t.twin.start = true, time.Now()
		}
	case 1, 2:
		o := breaker.OutcomeSuccess
		if p.rng.IntN(2) == 0 {
			o = breaker.Outcomes()[p.rng.IntN(len(breaker.Outcomes()))]
		}
		p.end(t, o)
	default:
		p.returned(t)
	}
}

// onProcess is something that happens to the process.
func (p *pair) onProcess() {
	p.t.Helper()
	pod := ""
	if p.w.inflight != nil {
		pod = p.w.inflight.pod
	}
	switch p.rng.IntN(8) {
	case 0:
		p.say("hung %q", pod)
		p.g.Hung(pod)
		p.w.blame(pod)
		p.w.moreThan = true
		p.opens(breaker.CauseHung)
	case 1:
		p.say("exited %q", pod)
		p.g.Exited(pod)
		p.w.blame(pod)
		p.w.disown()
		p.w.down = true
		p.opens(breaker.CauseExit)
	case 2, 3:
		newVersion := p.rng.IntN(8) == 0
		p.say("started, new version %t", newVersion)
		p.g.Started(newVersion)
		p.w.disown()
		p.w.down = false
		if newVersion {
			p.w.pods, p.w.consecutive, p.w.window = map[string]*twinPod{}, map[string]uint32{}, nil
		}
		if p.w.auto == breaker.StateOpen {
			p.w.auto = breaker.StateHalfOpen
		}
	case 4:
		p.say("health failed")
		p.g.HealthFailed()
		p.opens(breaker.CauseHealth)
	default:
		p.say("health ok")
		p.g.HealthOK()
		if p.w.auto != breaker.StateClosed && !p.w.moreThan && !p.w.down && p.w.probe == nil {
			p.w.close()
		}
	}
}

func (p *pair) onOperator() {
	switch p.rng.IntN(8) {
	case 0:
		p.say("trip")
		p.g.Trip()
		p.w.forced = true
	case 1, 2:
		p.say("reset")
		p.g.Reset()
		p.w.forced, p.w.openings, p.w.good = false, 0, 0
		p.w.close()
		p.era = new(int)
	case 3:
		p.say("disable")
		p.g.Disable()
		p.w.off = true
	case 4, 5, 6:
		p.say("enable")
		p.g.Enable()
		p.w.off = false
	case 7:
		p.say("unquarantine b")
		p.g.Unquarantine("b")
		delete(p.w.pods, "b")
	}
}

func (p *pair) step() {
	p.t.Helper()
	before := p.w.auto
	n := p.rng.IntN(100)
	if p.calm && n >= 75 && n < 88 && (n >= 83 || p.rng.IntN(20) != 0) {
		n = 0
	}
	switch {
	case n < 35:
		pod := []string{"", "a", "b", "c", "d", "e"}[p.rng.IntN(6)]
		p.admit(pod, []string{"create", "start"}[p.rng.IntN(2)])
	case n < 75:
		p.onTicket()
	case n < 83:
		p.onProcess()
	case n < 88:
		p.onOperator()
	default:
		d := []time.Duration{1, time.Second, 2 * time.Second, 6 * time.Second, time.Minute, 11 * time.Minute}[p.rng.IntN(6)]
		p.say("%v later", d)
		time.Sleep(d)
	}
	if p.w.auto != before {
		p.era = new(int)
		for _, t := range p.tickets { // a probe belongs to the state that it brought about
			if t.twin == p.w.probe {
				t.twin.era = p.era
			}
		}
	}
	p.check()
}

func (p *pair) check() {
	p.t.Helper()
	state, s := p.g.State(), p.g.Snapshot()
	if want := p.w.state(); state != want || s.State != want || s.Automatic != p.w.auto {
		p.fatalf("shows %v, snapshot %v in front of %v; want %v in front of %v", state, s.State, s.Automatic, want, p.w.auto)
	}
	if p.g.State() != state {
		p.fatalf("reading changed the state %v", state)
	}
	if got := p.g.Snapshot(); got.State != s.State || got.GoodCalls != s.GoodCalls || got.Bad != s.Bad {
		p.fatalf("reading changed the snapshot from %+v to %+v", s, got)
	}
	var longest uint32
	for _, n := range p.w.consecutive {
		longest = max(longest, n)
	}
	if s.ConsecutiveFailures != longest || int(s.Good+s.Bad) != len(p.w.window) || s.GoodCalls != p.w.good {
		p.fatalf("counted %d in a row, %d in the window, %d good since; want %d, %d, %d",
			s.ConsecutiveFailures, s.Good+s.Bad, s.GoodCalls, longest, len(p.w.window), p.w.good)
	}
	unreturned := 0
	for _, t := range p.tickets {
		if !t.twin.returned {
			unreturned++
		}
	}
	if unreturned > 1 || s.Busy != (unreturned == 1) {
		p.fatalf("%d tickets are not returned, busy = %t", unreturned, s.Busy)
	}
	quarantined := 0
	for _, pod := range p.w.pods {
		if time.Now().Before(pod.until) {
			quarantined++
		}
	}
	if len(s.Quarantined) != quarantined {
		p.fatalf("quarantined %v, want %d pods", s.Quarantined, quarantined)
	}
	last := breaker.StateClosed
	for i, tr := range p.log {
		if tr.From != last || tr.To == last || tr.Cause == breaker.CauseNone || (i > 0 && tr.At.Before(p.log[i-1].At)) {
			p.fatalf("transition %d of %+v does not follow", i, p.log)
		}
		last = tr.To
	}
	if last != state {
		p.fatalf("the transitions end at %v, the state is %v", last, state)
	}
}

// heal does what callers promise to do in the end, after which a good call must be
// possible and must close the breaker.
func (p *pair) heal() {
	p.t.Helper()
	for _, t := range p.tickets {
		t.real.Returned()
	}
	p.g.Enable()
	if p.g.State() == breaker.StateForcedOpen {
		p.g.Reset()
	}
	if p.g.Snapshot().AwaitsStart {
		p.g.Started(false)
	}
	time.Sleep(p.w.cfg.ProbeDeadline)
	_, _ = p.g.Admit("heal-1") // finds a probe without a verdict, or is one
	p.g.Exited("")
	p.g.Started(false)
	ticket, reason := p.g.Admit("heal-2")
	if reason != breaker.ReasonNone {
		p.fatalf("refused for ever: %v in %+v", reason, p.g.Snapshot())
	}
	ticket.End(breaker.OutcomeSuccess)
	if p.g.State() != breaker.StateClosed {
		p.fatalf("not closed after a good probe: %+v", p.g.Snapshot())
	}
}

func TestGuardLivesLikeItsTwin(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, seed)
			p.say("seed %d", seed)
			for range 400 {
				p.step()
			}
			for _, tr := range p.log {
				seen[tr.Cause.String()]++
			}
			p.heal()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	// The random lives must reach everything, or they show nothing.
	for _, cause := range breaker.Causes() {
		if seen[cause.String()] < 5 {
			t.Errorf("fewer than 5 transitions with cause %v: %v", cause, seen)
		}
	}
}
